package redisd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Failover is a master that died and the replica that took its place.
type Failover struct {
	Died, Took   *Node
	Before, Dead time.Time // between which it died
	Ready        time.Time // when the other took writes, and all who lead clients knew
}

// FailOver kills the master of a key as kill -9 does, and waits until its replica has taken its place. For the time of lag
// before, the replica hears nothing, as one does that is far away or busy: it is stopped, and its master closes the
// connection to it, so that what is written in that time is lost. The dead master stays dead until Revive.
//
// The lag must be shorter than the time after which a silent node is taken for gone, which is half a second.
func (g *Group) FailOver(ctx context.Context, key string, lag time.Duration) (f Failover, err error) {
	ctx, cancel := context.WithTimeout(ctx, groupLimit)
	defer cancel()
	if f.Died, err = g.MasterOf(ctx, key); err != nil {
		return f, err
	}
	if f.Took = g.replicaOf(ctx, f.Died); f.Took == nil {
		return f, errors.New("the master of the key has no replica that hears it")
	}
	if lag > 0 {
		if err := g.deafen(ctx, f, lag); err != nil {
			return f, err
		}
	}
	f.Before = time.Now()
	err = f.Died.Kill()
	f.Dead = time.Now()
	if lag > 0 {
		err = errors.Join(err, f.Took.Continue())
	}
	if err != nil {
		return f, err
	}
	err = until(ctx, "a replica has taken the place of its master", func() bool {
		master, _ := f.Took.role(ctx)
		return master && g.takes(ctx, f.Took)
	})
	f.Ready = time.Now()
	return f, err
}

// takes tells whether clients are led to a node that took a master's place: by its slots, or by every sentinel.
func (g *Group) takes(ctx context.Context, n *Node) bool {
	for _, s := range g.sentinels {
		said, err := s.rdb.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", WatchedName).StringSlice()
		if err != nil || len(said) != 2 || said[1] != n.Port {
			return false
		}
	}
	if !g.slots {
		return true
	}
	return slices.ContainsFunc(n.ranges(ctx), func(r slotRange) bool { return len(r.nodes) > 0 && r.nodes[0] == n.id })
}

// deafen has a replica hear nothing for a time.
func (g *Group) deafen(ctx context.Context, f Failover, lag time.Duration) error {
	if err := f.Took.Stop(); err != nil {
		return err
	}
	if err := f.Died.command(ctx, "CLIENT", "KILL", "TYPE", "replica"); err != nil {
		return errors.Join(err, f.Took.Continue())
	}
	idle(ctx, lag)
	return nil
}

// Revive starts a master that died again, and waits until it is a replica of the one that took its place.
func (g *Group) Revive(ctx context.Context, f Failover) error {
	if err := f.Died.Restart(ctx); err != nil {
		return fmt.Errorf("revive the old master: %w", err)
	}
	if !g.slots { // a sentinel would do it after some ten seconds
		if err := f.Died.command(ctx, "REPLICAOF", "127.0.0.1", f.Took.Port); err != nil {
			return err
		}
	}
	return g.Settle(ctx)
}
