package hold

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
)

// TestMain keeps go-redis from writing what it also returns.
func TestMain(m *testing.M) {
	logging.Disable()
	m.Run()
}

// stall is a server that stands still, and then does what it was sent meanwhile.
type stall struct {
	*testing.T
	server *redisd.Server
	rdb    *redis.Client
	slots  *limiter.Semaphore // of one hour
	failed chan error
	mu     sync.Mutex
	notes  []string
}

func newStall(t *testing.T) *stall {
	s := &stall{T: t, server: redisdtest.Start(t, redisd.Options{Clock: true}), failed: make(chan error, 100)}
	s.server.Clock().Freeze(1_000_000_000_000_000)
	s.rdb = redis.NewClient(&redis.Options{Network: "unix", Addr: s.server.Socket(), Protocol: 2})
	t.Cleanup(func() { s.rdb.Close() })
	var err error
	if s.slots, err = limiter.NewSemaphore(s.rdb, limiter.Limit{Events: 1, Window: time.Hour}); err != nil {
		t.Fatal(err)
	}
	return s
}

// plan is a hold that finds the one slot taken and waits.
func (s *stall) plan(mode policy.Mode, command ...string) Plan {
	if d, err := s.slots.Acquire(s.Context(), "key", "other"); err != nil || !d.Allowed {
		s.Fatal(d, err)
	}
	return Plan{
		Key: "key", Limit: 1, Lease: time.Hour, Wait: time.Hour, Command: command, Prefix: "ratelimit",
		Conn: target.Conn{Socket: s.server.Socket(), Timeout: 100 * time.Millisecond},
		Policy: policy.Policy{Mode: mode, Timeout: 100 * time.Millisecond, Failed: func(_ context.Context, err error) {
			s.failed <- err
		}},
		Stdout: io.Discard, Stderr: io.Discard,
		Note: func(text string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.notes = append(s.notes, text)
		},
	}
}

// run runs p until a call to a server that stands still was given up, does what is to be done then, and lets the server
// go on when the lease of the other is over: the call, which waits in its socket, is granted.
func (s *stall) run(ctx context.Context, p Plan, then func()) (ended <-chan error) {
	s.Helper()
	done := make(chan error, 1)
	go func() { _, err := p.Run(ctx); done <- err }()
	s.until("it has asked", func() bool {
		return strings.Contains(s.rdb.ClientList(s.Context()).Val(), "cmd=evalsha")
	})
	s.signal(syscall.SIGSTOP)
	defer s.signal(syscall.SIGCONT)
	select {
	case err := <-s.failed:
		if !limiter.Counted(err) {
			s.Errorf("the call was certainly not counted: %v", err)
		}
	case <-time.After(20 * time.Second):
		s.Error("no call failed")
	}
	then()
	<-time.After(2 * p.Conn.Timeout) // it stands still for longer than one try to give back lasts
	s.server.Clock().Freeze(1_000_000_000_000_000 + 2*time.Hour.Microseconds())
	return done
}

func (s *stall) signal(which syscall.Signal) {
	if err := syscall.Kill(s.server.PID(), which); err != nil {
		s.Error(err)
	}
}

func (s *stall) until(what string, is func() bool) {
	s.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("waited too long until %s", what)
		}
	}
}

// free tells whether nobody has the slot, of the other nobody but the one that was let in late.
func (s *stall) free() bool {
	d, err := s.slots.Peek(s.Context(), "key")
	return err == nil && d.Remaining == 1
}

// Whoever gives up on a call that is executed later gives back what it takes then.
func TestSlotOfAnUnansweredCall(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]policy.Mode{"error": policy.Error, "interrupted": policy.Closed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStall(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			interrupted := errors.New("interrupted")
			var failed *limiter.Error
			err := <-s.run(ctx, s.plan(mode, "false"), func() {
				if mode == policy.Closed {
					cancel(interrupted)
				}
			})
			if mode == policy.Error && !errors.As(err, &failed) || mode == policy.Closed && !errors.Is(err, interrupted) {
				t.Errorf("it ended with %v", err)
			}
			if !s.free() || len(s.notes) > 0 {
				t.Errorf("the slot is free: %v; it said %q", s.free(), s.notes)
			}
		})
	}
}

// A command that runs without a slot does not keep one: it is given back while it runs.
func TestSlotOfACommandWithoutOne(t *testing.T) {
	t.Parallel()
	s := newStall(t)
	p := s.plan(policy.Open, "cat")
	stdin, letGo, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Stdin = stdin
	ended := s.run(t.Context(), p, func() {})
	s.until("the slot is free", s.free)
	select {
	case err := <-ended:
		t.Errorf("the command has ended: %v", err)
	default:
	}
	letGo.Close()
	if err := <-ended; err != nil || strings.Join(s.notes, "; ") != "the command runs WITHOUT a slot" {
		t.Errorf("%v, %q", err, s.notes)
	}
}

// What cannot be given back is told, after a bounded time.
func TestSlotThatIsNotGivenBack(t *testing.T) {
	t.Parallel()
	s := newStall(t)
	p := s.plan(policy.Error, "false")
	p.Lease = time.Second
	var failed *limiter.Error
	err := <-s.run(t.Context(), p, func() {
		s.until("it is told", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.notes) > 0
		})
	})
	if !errors.As(err, &failed) {
		t.Errorf("it ended with %v", err)
	}
	if told := s.notes[0]; !strings.HasPrefix(told, "one may have been taken: the slot was not given back (") ||
		!strings.HasSuffix(told, "; it comes back when its lease of 1s ends") {
		t.Errorf("it said %q", s.notes)
	}
}
