package limiter_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/scripts"
)

func newSemaphore(t *testing.T, rdb redis.UniversalClient, slots int64, opts ...limiter.Option) *limiter.Semaphore {
	t.Helper()
	s, err := limiter.NewSemaphore(rdb, perYear(slots), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// granted wants what a call answered.
func granted(t *testing.T, want bool, remaining int64) func(d limiter.Decision, err error) {
	return func(d limiter.Decision, err error) {
		t.Helper()
		if err != nil || d.Allowed != want || d.Remaining != remaining {
			t.Errorf("%+v, %v; want allowed %v, remaining %d", d, err, want, remaining)
		}
	}
}

func TestSemaphoreLetsOnlyItsHoldersGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	s := newSemaphore(t, r.rdb, 2)
	granted(t, true, 1)(s.Acquire(ctx, "k", "a"))
	granted(t, true, 0)(s.Acquire(ctx, "k", "b"))
	granted(t, false, 0)(s.Acquire(ctx, "k", "c"))
	granted(t, true, 0)(s.Acquire(ctx, "k", "a")) // asked again, not charged again
	granted(t, true, 1)(s.Acquire(ctx, "other", "c"))

	before := r.do("dump", "ratelimit:{k}:semaphore")
	granted(t, false, 0)(s.Release(ctx, "k", "c"))
	granted(t, false, 0)(s.Renew(ctx, "k", "c"))
	granted(t, true, 0)(s.Peek(ctx, "k"))
	if r.do("dump", "ratelimit:{k}:semaphore") != before {
		t.Error("one that does not hold changed who holds")
	}

	granted(t, true, 0)(s.Renew(ctx, "k", "b"))
	granted(t, true, 1)(s.Release(ctx, "k", "b"))
	granted(t, false, 1)(s.Release(ctx, "k", "b"))
	granted(t, true, 0)(s.Acquire(ctx, "k", "c"))
	granted(t, true, 1)(s.Release(ctx, "k", "a"))
	granted(t, true, 2)(s.Release(ctx, "k", "c"))
	if r.do("exists", "ratelimit:{k}:semaphore") != int64(0) {
		t.Error("nobody holds, and there is a key")
	}
	if err := s.Reset(ctx, "other"); err != nil || r.do("dbsize") != int64(0) {
		t.Errorf("reset: %v, or it left a key", err)
	}
}

func TestSemaphoreRefuses(t *testing.T) {
	t.Parallel()
	for _, l := range []limiter.Limit{{Events: -1, Window: time.Second}, {Events: 1}, {Events: 1e9 + 1, Window: time.Second}} {
		if _, err := limiter.NewSemaphore(nil, l); failure(t, err).Class != limiter.ClassInvalid {
			t.Errorf("%+v: %v", l, err)
		}
	}
	s := newSemaphore(t, nil, 1) // no I/O: there is no client
	for _, bad := range [][2]string{{"", "id"}, {"k", ""}, {"k", strings.Repeat("x", limiter.MaxID+1)}} {
		for _, call := range []func(*limiter.Semaphore) error{
			func(s *limiter.Semaphore) error { _, err := s.Acquire(t.Context(), bad[0], bad[1]); return err },
			func(s *limiter.Semaphore) error { _, err := s.Renew(t.Context(), bad[0], bad[1]); return err },
			func(s *limiter.Semaphore) error { _, err := s.Release(t.Context(), bad[0], bad[1]); return err },
		} {
			if e := failure(t, call(s)); e.Class != limiter.ClassInvalid || e.Unknown {
				t.Errorf("%q: %v", bad, e)
			}
		}
	}
	for _, name := range []string{scripts.SemaphoreAcquire, "semaphore"} {
		if _, err := limiter.New(nil, name, perYear(1)); failure(t, err).Class != limiter.ClassInvalid {
			t.Errorf("%s is taken for a rate limiter: %v", name, err)
		}
	}
}

// TestSemaphoreLoadsItsScripts forgets all scripts before each call.
func TestSemaphoreLoadsItsScripts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSemaphore(t, r.rdb, 1)
	r.do("script", "flush")
	granted(t, true, 0)(s.Acquire(t.Context(), "k", "a"))
	r.do("script", "flush")
	granted(t, true, 0)(s.Renew(t.Context(), "k", "a"))
	r.do("script", "flush")
	granted(t, true, 1)(s.Release(t.Context(), "k", "a"))
	if n := r.calls("evalsha"); n != 6 {
		t.Errorf("%d calls, want each twice", n)
	}
}

// TestSemaphoreOnAFullServer: nobody new gets in, and who holds can give back. An error is no denial.
func TestSemaphoreOnAFullServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSemaphore(t, r.rdb, 2)
	granted(t, true, 1)(s.Acquire(t.Context(), "k", "a"))
	granted(t, true, 1)(s.Acquire(t.Context(), "full", "x"))
	granted(t, true, 0)(s.Acquire(t.Context(), "full", "y"))
	for _, load := range []func() error{
		func() error { _, err := s.Renew(t.Context(), "k", "a"); return err },
		func() error { _, err := s.Release(t.Context(), "k", "nobody"); return err },
	} {
		if err := load(); err != nil {
			t.Fatal(err)
		}
	}
	r.do("config", "set", "maxmemory", "1")
	before := r.do("dump", "ratelimit:{k}:semaphore")
	granted(t, false, 0)(s.Acquire(t.Context(), "full", "z"))
	granted(t, false, 0)(s.Renew(t.Context(), "full", "z"))
	granted(t, false, 0)(s.Release(t.Context(), "full", "z"))
	if _, err := s.Acquire(t.Context(), "k", "b"); failure(t, err).Class != limiter.ClassOOM || limiter.Counted(err) {
		t.Errorf("acquire: %v", err)
	}
	if _, err := s.Renew(t.Context(), "k", "a"); failure(t, err).Class != limiter.ClassOOM || limiter.Counted(err) {
		t.Errorf("renew: %v", err)
	}
	if r.do("dump", "ratelimit:{k}:semaphore") != before {
		t.Error("half-written")
	}
	granted(t, true, 2)(s.Release(t.Context(), "k", "a"))
	r.do("config", "set", "maxmemory", "0")
	r.do("set", "ratelimit:{k}:semaphore", "something else")
	for name, call := range map[string]func(context.Context, string, string) (limiter.Decision, error){
		"acquire": s.Acquire, "renew": s.Renew, "release": s.Release,
	} {
		if _, err := call(t.Context(), "k", "b"); failure(t, err).Class != limiter.ClassWrongType {
			t.Errorf("%s of another type: %v", name, err)
		}
	}
	if r.do("get", "ratelimit:{k}:semaphore") != "something else" {
		t.Error("what was not ours was changed")
	}
}

// TestSemaphoreRightsSuffice takes the scripts through steps of the clock as a user with the rights that their heads name,
// and then without each of those.
func TestSemaphoreRightsSuffice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	all := map[string]bool{}
	for _, name := range []string{scripts.SemaphoreAcquire, scripts.SemaphoreRenew, scripts.SemaphoreRelease} {
		source, _ := scripts.Source(name)
		for _, right := range scripts.Rights(source) {
			all[right] = true
		}
	}
	if e := r.semaphoreJourney(t, all, ""); e != nil {
		t.Errorf("with all of %v: %v", all, e)
	}
	for right := range all {
		if e := r.semaphoreJourney(t, all, right); e == nil || e.Class != limiter.ClassAuth {
			t.Errorf("without %s: %v", right, e)
		}
	}
}

func (r *rig) semaphoreJourney(t *testing.T, may map[string]bool, less string) *limiter.Error {
	r.do("script", "flush")
	r.do("flushall")
	r.do("acl", "deluser", "few")
	args := []any{"acl", "setuser", "few", "on", ">secret", "~ratelimit:*", "-@all"}
	for right := range may {
		if right != less {
			args = append(args, right)
		}
	}
	r.do(args...)
	rdb := dial(t, &redis.Options{Addr: r.server.Socket(), MaxRetries: -1, Username: "few", Password: "secret"})
	at := time.UnixMicro(1_700_000_000_000_000)
	theirs := limiter.WithClock(func() time.Time { return at })
	s := newSemaphore(t, rdb, 2, theirs)
	for i, step := range []time.Duration{0, -time.Second, year, -time.Second, year} {
		at = at.Add(step)
		id := string(rune('a' + i))
		for _, call := range []func() (limiter.Decision, error){
			func() (limiter.Decision, error) { return s.Acquire(t.Context(), "k", id) },
			func() (limiter.Decision, error) { return s.Acquire(t.Context(), "k", "other") },
			func() (limiter.Decision, error) { return s.Acquire(t.Context(), "k", "third") },
			func() (limiter.Decision, error) { return s.Renew(t.Context(), "k", "other") },
			func() (limiter.Decision, error) { return s.Release(t.Context(), "k", "other") },
		} {
			if _, err := call(); err != nil {
				return failure(t, err)
			}
		}
	}
	if _, err := newSemaphore(t, rdb, 2).Peek(t.Context(), "k"); err != nil {
		return failure(t, err)
	}
	return nil
}
