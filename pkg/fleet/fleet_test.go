package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
)

// TestMain makes this test binary a worker where the fleet starts it as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == fleet.WorkerCommand {
		if err := fleet.Work(catalogue(), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func self(args ...string) *exec.Cmd { return exec.Command(os.Args[0], args...) }

// tenth is the call at which the limiters below do what their name says.
const tenth = 10

// catalogue has, beside the real one, limiters whose tenth caller dies, or stops, in mid-call, after it was counted.
func catalogue() []target.Entry {
	return append(target.Catalogue(), ending("deadly", syscall.SIGKILL), ending("hanging", syscall.SIGSTOP), busy())
}

// busy gives way to others in every call.
func busy() target.Entry {
	return target.Entry{
		Name: "busy",
		New: func(redis.UniversalClient, limiter.Limit, ...limiter.Option) (limiter.Limiter, error) {
			return limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
				return limiter.Decision{}, &limiter.Error{Limiter: "busy", Class: limiter.ClassContention, Err: errors.New("gave up")}
			}), nil
		},
	}
}

func ending(name string, signal syscall.Signal) target.Entry {
	return target.Entry{
		Name: name,
		New: func(rdb redis.UniversalClient, _ limiter.Limit, _ ...limiter.Option) (limiter.Limiter, error) {
			return limiter.Func(func(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
				if n, err := rdb.IncrBy(ctx, key, cost).Result(); n == tenth || err != nil {
					syscall.Kill(os.Getpid(), signal)
					select {} // a stop begins in another thread, which may have to wait for a core
				}
				return limiter.Decision{Allowed: true}, nil
			}), nil
		},
	}
}

func start(t *testing.T, n int) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Start(self, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func job(s *redisd.Server, name string) fleet.Job {
	return fleet.Job{
		Target: name, Conn: target.Conn{Socket: s.Socket()}, Prefix: "t", Limit: limiter.Limit{Events: 20, Window: time.Hour},
		Key: "k", Cost: 1, Attempts: 30, Clients: 2, IDs: "id",
	}
}

func TestEveryCallIsRecordedOnce(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	f := start(t, 3)
	for round := range 3 {
		j := job(s, "sliding-log")
		j.Key = fmt.Sprint("k", round)
		r, err := f.Run(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Ops) != 180 || r.Summary.Allowed != 20 || r.Summary.Denied != 160 || len(r.Deaths) != 0 {
			t.Fatalf("round %d: %d calls, %+v", round, len(r.Ops), r.Summary)
		}
		ids, allowed := map[string]bool{}, 0
		for _, op := range r.Ops {
			ids[op.Request.ID] = true
			if op.Admitted() {
				allowed++
			}
			if op.Outcome != history.Decided || op.Key != j.Key || op.Request.Limit != j.Limit || op.Return <= op.Call ||
				op.Decision.At.IsZero() {
				t.Fatalf("round %d: %+v", round, op)
			}
		}
		if len(ids) != 180 || allowed != 20 {
			t.Errorf("round %d: %d ids, %d allowed", round, len(ids), allowed)
		}
	}
}

// TestContentionEndsNoRound: the peek by which a worker prepares can meet the peeks of others, as any call can.
func TestContentionEndsNoRound(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	r, err := start(t, 2).Run(t.Context(), job(s, "busy"))
	if err != nil || len(r.Ops) != 120 || r.Summary.Failed != 120 {
		t.Errorf("%v, %d calls, %+v", err, len(r.Ops), r.Summary)
	}
}

func TestAKilledWorkersOpenCallIsUnknown(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	f := start(t, 3)
	j := job(s, "deadly")
	j.Clients = 1
	r, err := f.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Deaths) != 1 || !strings.Contains(r.Deaths[0].Cause, "killed") {
		t.Fatalf("deaths: %+v", r.Deaths)
	}
	var unknown, decided int
	for _, op := range r.Ops {
		switch op.Outcome {
		case history.Unknown:
			unknown++
			if op.Class != history.ClassDied || op.Proc != r.Deaths[0].Proc || op.Call == 0 {
				t.Errorf("the open call: %+v", op)
			}
		case history.Decided:
			decided++
		}
	}
	if unknown != 1 {
		t.Errorf("%d unknown calls, want the one that was open", unknown)
	}
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})
	defer rdb.Close()
	if counted, _ := rdb.Get(t.Context(), "k").Int(); counted != unknown+decided {
		t.Errorf("redis counted %d calls, the history has %d", counted, unknown+decided)
	}
}

// TestAWorkerThatHangsIsKilled: the deadly limiter stops its process here, instead of killing it.
func TestAWorkerThatHangsIsKilled(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	f := start(t, 3)
	f.Silence = 200 * time.Millisecond
	j := job(s, "hanging")
	j.Clients = 1
	r, err := f.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Deaths) != 1 || !strings.Contains(r.Deaths[0].Cause, "killed") || len(r.Ops) < tenth {
		t.Errorf("%d calls, deaths: %+v", len(r.Ops), r.Deaths)
	}
}

func TestAJobThatCannotBeginSaysWhy(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	for want, spoil := range map[limiter.Class]func(*fleet.Job){
		limiter.ClassUnreachable: func(j *fleet.Job) { j.Conn.Socket += ".not" },
		limiter.ClassInvalid:     func(j *fleet.Job) { j.Limit.Window = 0 },
	} {
		j := job(s, "gcra")
		spoil(&j)
		_, err := start(t, 2).Run(t.Context(), j)
		var e *limiter.Error
		if !errors.As(err, &e) || e.Class != want {
			t.Errorf("want class %s, got %v", want, err)
		}
	}
}

func TestAnInterruptKeepsWhatWasDone(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})
	defer rdb.Close()
	ctx, cancel := context.WithCancel(t.Context())
	j := job(s, "gcra")
	j.Attempts = 1 << 40
	go func() {
		for rdb.Exists(t.Context(), "t:{k}:gcra").Val() == 0 { // ends with the test
			if t.Context().Err() != nil {
				return
			}
		}
		cancel()
	}()
	r, err := start(t, 2).Run(ctx, j)
	if err != nil || len(r.Deaths) != 0 {
		t.Fatalf("%v, deaths %v", err, r.Deaths)
	}
	if n := int64(len(r.Ops)); n == 0 || n != r.Summary.Allowed+r.Summary.Denied {
		t.Errorf("%d calls recorded, %+v counted", n, r.Summary)
	}
	for _, op := range r.Ops {
		if op.Outcome != history.Decided {
			t.Errorf("a call under way was cut: %+v", op)
		}
	}
}

// TestClientsApart: a bucket in each process admits as many times its limit as there are processes; opened once a
// client, as many as there are clients.
func TestClientsApart(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	for apart, want := range map[bool]int64{false: 2 * 20, true: 4 * 20} {
		j := job(s, "local-bucket")
		j.Apart = apart
		r, err := start(t, 2).Run(t.Context(), j)
		if err != nil || r.Summary.Allowed != want {
			t.Errorf("apart %v: %v, %d allowed, want %d", apart, err, r.Summary.Allowed, want)
		}
	}
}
