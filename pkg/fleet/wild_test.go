package fleet_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
)

// TestWildCallersAskAtRandom: all costs and all keys come up, and a worker that is killed meanwhile leaves the others to it.
func TestWildCallersAskAtRandom(t *testing.T) {
	t.Parallel()
	server := redisdtest.Start(t, redisd.Options{})
	f := start(t, 2)
	signalled := make(chan error, 1)
	round, err := f.Run(t.Context(), fleet.Job{
		Target: "gcra", Conn: target.Conn{Socket: server.Socket()}, Prefix: "p", Limit: limiter.Limit{Events: 1000, Window: time.Minute},
		Key: "k", Clients: 2, IDs: "i",
		Wild: &fleet.Wild{For: 300 * time.Millisecond, Keys: 3, Costs: []int64{1, 2, 0}, Pause: time.Millisecond, Seed: 1},
		AtGate: func() error {
			time.AfterFunc(50*time.Millisecond, func() { signalled <- f.Signal(1, os.Kill) })
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-signalled; err != nil || len(round.Deaths) != 1 || round.Deaths[0].Proc != 1 {
		t.Errorf("deaths %+v, %v", round.Deaths, err)
	}
	keys, costs, procs := map[string]int{}, map[int64]int{}, map[int]int{}
	for _, op := range round.Ops {
		keys[op.Key]++
		costs[op.Request.Cost]++
		procs[op.Proc]++
	}
	if len(keys) != 3 || keys[fleet.WildKey("k", 2)] == 0 || len(costs) != 3 || len(procs) != 2 || procs[0] < procs[1] {
		t.Errorf("keys %v, costs %v, processes %v", keys, costs, procs)
	}
	if err := f.Signal(1, syscall.SIGCONT); err == nil {
		t.Error("a dead worker took a signal")
	}
}

// TestWildCallersGetReadyOnABusyServer: which does not answer at first, and longer than they wait.
func TestWildCallersGetReadyOnABusyServer(t *testing.T) {
	t.Parallel()
	server := redisdtest.Start(t, redisd.Options{})
	pid := server.PID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(300*time.Millisecond, func() { syscall.Kill(pid, syscall.SIGCONT) })
	round, err := start(t, 2).Run(t.Context(), fleet.Job{
		Target: "gcra", Conn: target.Conn{Socket: server.Socket(), Timeout: 50 * time.Millisecond}, Prefix: "p",
		Limit: limiter.Limit{Events: 1000, Window: time.Minute}, Key: "k", Clients: 2, IDs: "i",
		Wild: &fleet.Wild{For: 100 * time.Millisecond, Keys: 1, Costs: []int64{1}},
	})
	if err != nil || len(round.Ops) == 0 {
		t.Errorf("%d calls, %v", len(round.Ops), err)
	}
}
