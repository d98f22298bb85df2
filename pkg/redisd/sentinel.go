package redisd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// WatchedName is the name under which the sentinels of a group know its master.
const WatchedName = "rlctl"

// downAfter is how long a master may be silent before a sentinel takes it for gone. A sentinel that was led to another master
// connects to it up to a second later, and would else take that one for gone, too.
const downAfter = 1200 * time.Millisecond

// electAgain is half the time after which sentinels that voted for each other vote once more, and the time that they give a
// replica to become a master, which on a busy machine takes more than one second.
const electAgain = 3 * time.Second

// StartWatched starts a master, so many replicas of it, and so many sentinels, a majority of which is enough to replace
// a master that is gone, and returns when all know each other. ctx bounds the start alone. Errors are those of [Start].
func StartWatched(ctx context.Context, start Starter, replicas, sentinels int, args ...string) (*Group, error) {
	ctx, cancel := context.WithTimeout(ctx, groupLimit)
	defer cancel()
	nodes, err := startNodes(ctx, start, 1+replicas, Options{Args: append([]string{
		"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
	}, args...)})
	if err != nil {
		return nil, err
	}
	g := &Group{nodes: nodes}
	if g.sentinels, err = startNodes(ctx, start, sentinels, Options{Sentinel: true}); err == nil {
		err = g.watch(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up a master under sentinels: %w", err), g.Close())
	}
	return g, nil
}

// watch makes replicas of all nodes but the first, and has the sentinels watch that.
func (g *Group) watch(ctx context.Context) error {
	master := g.nodes[0]
	for _, n := range g.nodes[1:] {
		if err := n.command(ctx, "REPLICAOF", "127.0.0.1", master.Port); err != nil {
			return err
		}
	}
	// A sentinel learns of replicas from its master, and asks a new one at once and then every ten seconds.
	err := until(ctx, "the replicas hear their master", func() bool { return g.heard(ctx) })
	if err != nil {
		return err
	}
	for _, s := range g.sentinels {
		for _, words := range [][]any{
			{"SENTINEL", "MONITOR", WatchedName, "127.0.0.1", master.Port, len(g.sentinels)/2 + 1},
			{"SENTINEL", "SET", WatchedName, "down-after-milliseconds", downAfter.Milliseconds(), "failover-timeout", electAgain.Milliseconds()},
		} {
			if err := s.command(ctx, words...); err != nil {
				return err
			}
		}
	}
	return g.Settle(ctx)
}

// heard tells whether every node that is no master hears one.
func (g *Group) heard(ctx context.Context) bool {
	for _, n := range g.nodes {
		if master, linked := n.role(ctx); !master && !linked {
			return false
		}
	}
	return true
}

// watched tells whether the sentinels know the one master, its replicas and each other, and take none for gone.
func (g *Group) watched(ctx context.Context) bool {
	masters := g.Masters(ctx)
	if len(masters) != 1 || !g.heard(ctx) {
		return false
	}
	for _, s := range g.sentinels {
		said, err := s.rdb.Do(ctx, "SENTINEL", "MASTER", WatchedName).StringSlice()
		if err != nil {
			return false
		}
		known := map[string]string{}
		for i := 0; i+1 < len(said); i += 2 {
			known[said[i]] = said[i+1]
		}
		if known["port"] != masters[0].Port || known["flags"] != "master" ||
			known["num-slaves"] != fmt.Sprint(len(g.nodes)-1) || known["num-other-sentinels"] != fmt.Sprint(len(g.sentinels)-1) {
			return false
		}
		replicas, err := s.rdb.Do(ctx, "SENTINEL", "REPLICAS", WatchedName).Slice()
		if err != nil || strings.Contains(fmt.Sprint(replicas), "down") && strings.Contains(fmt.Sprint(replicas), "s_down") {
			return false
		}
	}
	return true
}
