package redisd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/redisd"
)

func ours(ctx context.Context, opts redisd.Options) (redisd.Running, error) {
	s, err := redisd.Start(ctx, opts)
	if err != nil {
		return nil, err // and no interface that holds nil
	}
	return s, nil
}

func kept(ctx context.Context, opts redisd.Options) (redisd.Running, error) {
	k, err := redisd.StartKept(ctx, self, opts)
	if err != nil {
		return nil, err
	}
	return k, nil
}

// A cluster forms, moves a slot with its keys to another master, survives the death of a master with what its replica had
// heard, takes the dead one back as a replica, and leaves nothing behind. A lag loses what was written in it.
func TestACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("a failover takes seconds")
	}
	t.Parallel()
	g, err := redisd.StartCluster(t.Context(), kept, 3, 1)
	closeLater(t, g, err)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{g.Entry().Addr}})
	defer rdb.Close()
	set := func(key string) {
		if err := rdb.Set(t.Context(), key, "v", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("{a}1")
	set("{a}2")
	owner := func() *redisd.Node {
		n, err := g.MasterOf(t.Context(), "{a}1")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := owner()
	if n, err := g.Move(t.Context(), "{a}1", time.Millisecond); n != 2 || err != nil {
		t.Fatalf("%d keys moved, %v", n, err)
	}
	if got := owner(); got == first || rdb.Get(t.Context(), "{a}2").Val() != "v" || rdb.TTL(t.Context(), "{a}1").Val() <= 0 {
		t.Errorf("the slot is at %s, and was at %s", got.Addr, first.Addr)
	}
	failOver(t, g, owner())
}

// The same of a master under sentinels.
func TestAMasterUnderSentinels(t *testing.T) {
	if testing.Short() {
		t.Skip("a failover takes seconds")
	}
	t.Parallel()
	g, err := redisd.StartWatched(t.Context(), ours, 1, 3)
	closeLater(t, g, err)
	failOver(t, g, g.Masters(t.Context())[0])
}

func closeLater(t *testing.T, g *redisd.Group, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		for _, n := range append(g.Nodes(), g.Sentinels()...) {
			if exists(n.Dir()) {
				t.Errorf("left behind: %s", n.Dir())
			}
		}
	})
}

func failOver(t *testing.T, g *redisd.Group, master *redisd.Node) {
	t.Helper()
	set := func(key string) error { return master.Client().Set(t.Context(), key, "v", 0).Err() }
	if err := set("{a}kept"); err != nil {
		t.Fatal(err)
	}
	const lag = 400 * time.Millisecond
	wrote := make(chan error, 1)
	go func() { // as soon as nobody hears the master
		for {
			said, err := master.Client().Do(t.Context(), "ROLE").Slice() // master, offset, replicas
			if err != nil || len(said) < 3 || len(said[2].([]any)) == 0 {
				wrote <- errors.Join(err, set("{a}lost"))
				return
			}
		}
	}()
	begun := time.Now()
	f, err := g.FailOver(t.Context(), "{a}kept", lag)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("failed over in %v", time.Since(begun))
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	held := f.Took.Client().MGet(t.Context(), "{a}kept", "{a}lost").Val()
	if fmt.Sprint(held) != "[v <nil>]" || f.Before.After(f.Dead) || f.Dead.After(f.Ready) {
		t.Errorf("the new master holds %v; %+v", held, f)
	}
	if err := g.Revive(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	t.Logf("revived at %v", time.Since(begun))
	for _, n := range g.Nodes() {
		if err := n.Err(); err != nil {
			t.Error(err)
		}
	}
	if err := f.Died.Client().Set(t.Context(), "{a}x", "v", 0).Err(); !redis.HasErrorPrefix(err, "READONLY") && !redis.HasErrorPrefix(err, "MOVED") {
		t.Errorf("the old master is no replica: %v", err)
	}
	if err := g.Err(); err != nil {
		t.Error(errors.Join(err))
	}
}
