package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/target"
)

// A private cluster has three masters, the fewest that can agree that one is gone; a replica each where one is to die.
// The least that fails over without a cluster is a master and a replica under three sentinels.
const (
	groupMasters   = 3
	groupSentinels = 3
)

// openGroup starts a private cluster, or a master under sentinels, and connects to it.
func openGroup(ctx context.Context, env Env, conn target.Conn, failover bool) (*server, error) {
	start := func(ctx context.Context, opts redisd.Options) (redisd.Running, error) {
		k, err := redisd.StartKept(ctx, env.Self, opts)
		if err != nil {
			return nil, err
		}
		return k, nil
	}
	at := "cluster of 3 masters"
	var group *redisd.Group
	var err error
	switch {
	case conn.Cluster && failover:
		at += ", a replica each"
		group, err = redisd.StartCluster(ctx, start, groupMasters, 1)
	case conn.Cluster:
		group, err = redisd.StartCluster(ctx, start, groupMasters, 0)
	default:
		at = "a master and a replica under 3 sentinels"
		group, err = redisd.StartWatched(ctx, start, 1, groupSentinels)
	}
	if err != nil {
		return nil, &limiter.Error{Class: limiter.ClassUnreachable, Err: err}
	}
	s := &server{Server: Server{Private: true, At: at}, group: group, conn: connTo(group, conn.Timeout)}
	if s, err = connect(ctx, s); err != nil {
		return nil, errors.Join(err, group.Close())
	}
	env.Note(fmt.Sprintf("started a private redis-server %s: %s, on ports of 127.0.0.1; it goes when this ends", s.Version, at))
	return s, nil
}

// connTo is how clients reach a group.
func connTo(group *redisd.Group, timeout time.Duration) target.Conn {
	conn := target.Conn{Host: "127.0.0.1", Cluster: group.Cluster(), Timeout: timeout}
	fmt.Sscan(group.Entry().Port, &conn.Port)
	if !conn.Cluster {
		conn.SentinelMaster = redisd.WatchedName
	}
	return conn
}

// untilOneDies ends with ctx, or when a server of a group dies that nobody killed.
func untilOneDies(ctx context.Context, group *redisd.Group) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	for _, n := range append(group.Nodes(), group.Sentinels()...) {
		go func() {
			select {
			case <-n.Done():
				cancel(&limiter.Error{Class: limiter.ClassUnreachable, Err: n.Err()})
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// takeover is a failover on the clocks that histories are told by.
type takeover struct {
	redisd.Failover
	from, dead, ready int64 // ns of CLOCK_MONOTONIC: between the first two the master died
}

// failOver kills the master of a key and waits for its replica to take its place.
func (s *server) failOver(ctx context.Context, key string, lag time.Duration) (t takeover, err error) {
	t.Failover, err = s.group.FailOver(ctx, key, lag)
	now, wall := history.Now(), time.Now()
	on := func(at time.Time) int64 { return now - wall.Sub(at).Nanoseconds() }
	t.from, t.dead, t.ready = on(t.Before), on(t.Dead), on(t.Ready)
	return t, err
}
