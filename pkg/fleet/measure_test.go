package fleet_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
)

// measure is a job of two processes of two clients on three keys.
func measure(s *redisd.Server, name string, path fleet.Path) fleet.Job {
	j := job(s, name)
	j.Key, j.Attempts = "m-"+name+"-"+string(path), 0
	j.Measured = &fleet.Measured{Path: path, For: 30 * time.Millisecond, Keys: 3, Room: 20, Batch: 1, Procs: 2}
	return j
}

func dial(t *testing.T, s *redisd.Server) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// TestALoadIsAnsweredAsItsPathSays asks limiters of every kind, the racy ones too: no key is asked beyond its room.
func TestALoadIsAnsweredAsItsPathSays(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	rdb := dial(t, s)
	f := start(t, 2)
	for _, name := range []string{"sliding-log", "gcra", "fixed-window", "naive-counter", "naive-log", "local-bucket"} {
		for path, want := range map[fleet.Path]float64{fleet.Allowed: 1, fleet.Denied: 0, fleet.Mixed: 0.5} {
			r, err := f.Run(t.Context(), measure(s, name, path))
			if err != nil {
				t.Fatal(err)
			}
			calls, allowed := float64(r.Summary.Calls()), float64(r.Summary.Allowed)
			if calls < 4 || r.Summary.Denied+r.Summary.Allowed != r.Summary.Calls() || len(r.Ops) != 0 || len(r.Deaths) != 0 {
				t.Fatalf("%s, %s: %+v", name, path, r)
			}
			if off := math.Abs(allowed - want*calls); off > 4 || off > 0 && path != fleet.Mixed { // each client may end at an odd call
				t.Errorf("%s, %s: %v of %v calls were allowed", name, path, allowed, calls)
			}
			if r.Usage.CPU <= 0 || r.Usage.Mallocs <= 0 || r.Usage.Elapsed < 30*time.Millisecond {
				t.Errorf("%s, %s: %+v", name, path, r.Usage)
			}
			rdb.FlushAll(t.Context())
		}
	}
}

// TestKeysBeginApart: the room of three keys of 20 is taken to none, a third and two thirds before the first call.
func TestKeysBeginApart(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	rdb := dial(t, s)
	j := measure(s, "sliding-log", fleet.Allowed)
	var logs []int64
	j.AtGate = func() error {
		for _, k := range []string{"0", "1", "2"} {
			logs = append(logs, rdb.ZCard(t.Context(), "t:{"+j.Key+"-"+k+"-0}:sliding-log").Val())
		}
		return nil
	}
	if _, err := start(t, 2).Run(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	// Each process may ask each name ten times; of those it takes 0, 3 and 6 beforehand.
	if len(logs) != 3 || logs[0] != 0 || logs[1] != 6 || logs[2] != 12 {
		t.Errorf("%v entries, want 0, 6, 12", logs)
	}
}

// TestARoomTooSmallToShare: with a room of one, two processes cannot ask one name.
func TestARoomTooSmallToShare(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	j := measure(s, "gcra", fleet.Allowed)
	j.Limit.Events, j.Measured.Room = 1, 1
	r, err := start(t, 2).Run(t.Context(), j)
	if err != nil || r.Summary.Allowed != r.Summary.Calls() || r.Summary.Calls() == 0 {
		t.Errorf("%v, %+v", err, r.Summary)
	}
}

// TestALoadCleansUp: what one job wrote is gone when the next begins, and in the end all is.
func TestALoadCleansUp(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	rdb := dial(t, s)
	f := start(t, 2)
	j := measure(s, "fixed-window", fleet.Mixed)
	j.Measured.Tidy = true
	if _, err := f.Run(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	before := rdb.DBSize(t.Context()).Val()
	second := measure(s, "gcra", fleet.Denied)
	second.Measured.Tidy, second.Key = true, "second"
	var between int64
	second.AtGate = func() error { between = rdb.DBSize(t.Context()).Val(); return nil }
	if _, err := f.Run(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if after := rdb.DBSize(t.Context()).Val(); before < 6 || between != 3 || after != 0 {
		t.Errorf("%d keys, then %d, then %d; want 6 or more, the second's 3, none", before, between, after)
	}
}

func TestAnErrorAtTheGateEndsTheJob(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	j := measure(s, "gcra", fleet.Denied)
	j.AtGate = func() error { return errors.New("no") }
	if _, err := start(t, 2).Run(t.Context(), j); err == nil || err.Error() != "no" {
		t.Error(err)
	}
}

// TestABatchOfAJob sends pipelines, and the client library's own.
func TestABatchOfAJob(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	f := start(t, 2)
	j := measure(s, "gcra", fleet.Allowed)
	j.Measured.Batch = 5
	r, err := f.Run(t.Context(), j)
	if err != nil || r.Summary.Allowed != r.Summary.Calls() || r.Summary.Calls()%5 != 0 || r.Summary.Calls() == 0 {
		t.Errorf("pipelines of five: %v, %+v", err, r.Summary)
	}
	j.Measured.Batch, j.Measured.AutoPipeline, j.Key = 1, true, "auto"
	if r, err = f.Run(t.Context(), j); err != nil || r.Summary.Allowed != r.Summary.Calls() || r.Summary.Calls() == 0 {
		t.Errorf("autopipeline: %v, %+v", err, r.Summary)
	}
}

// TestClientsAreDueInTurn: an open loop of four clients makes the calls that are due, no more and no fewer.
func TestClientsAreDueInTurn(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	j := measure(s, "gcra", fleet.Denied)
	j.Measured.For, j.Measured.Every = 100*time.Millisecond, 10*time.Millisecond
	r, err := start(t, 2).Run(t.Context(), j)
	if err != nil || r.Summary.Calls() != 4*10 || r.Summary.Service.Count() != 40 {
		t.Errorf("%v, %+v, %d service times; 40 calls were due", err, r.Summary, r.Summary.Service.Count())
	}
}
