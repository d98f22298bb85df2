package limiter_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/scripts"
)

func TestAdmitsTheLimitAndNoMore(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, name string) {
		l := r.new(name, perYear(3))
		for left := int64(2); left >= 0; left-- {
			if d := check(t, l, "c"); !d.Allowed || d.Remaining != left || d.RetryAfter != 0 {
				t.Fatalf("%d left: %+v", left, d)
			}
		}
		before := r.do("dump", "ratelimit:{c}:"+name)
		d := check(t, l, "c")
		if d.Allowed || d.Remaining != 0 || d.RetryAfter <= 0 || d.ResetAfter < d.RetryAfter {
			t.Errorf("denied: %+v", d)
		}
		if age := time.Since(d.At); age < 0 || age > time.Minute {
			t.Errorf("the server's clock is %s behind", age)
		}
		if after := r.do("dump", "ratelimit:{c}:"+name); after != before {
			t.Error("a denial wrote something")
		}
	})
}

func TestPeekWritesNothing(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, name string) {
		d, err := r.new(name, perYear(3)).Check(t.Context(), "c", 0)
		if err != nil || !d.Allowed || d.Remaining != 3 || d.ResetAfter != 0 {
			t.Errorf("got %+v, %v", d, err)
		}
		if n := r.do("dbsize"); n != int64(0) {
			t.Errorf("%d keys after a peek", n)
		}
	})
}

func TestNeverAndNothing(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, name string) {
		for _, ask := range []struct {
			limit, cost int64
			want        limiter.Decision
		}{
			{0, 0, limiter.Decision{Allowed: true}},
			{0, 1, limiter.Decision{RetryAfter: limiter.Never}},
			{3, 4, limiter.Decision{RetryAfter: limiter.Never, Remaining: 3}},
			{3, limiter.MaxCost, limiter.Decision{RetryAfter: limiter.Never, Remaining: 3}},
		} {
			got, err := r.new(name, perYear(ask.limit)).Check(t.Context(), "c", ask.cost)
			got.At = time.Time{}
			if err != nil || got != ask.want {
				t.Errorf("%d of %d: got %+v, %v; want %+v", ask.cost, ask.limit, got, err, ask.want)
			}
		}
		if n := r.do("dbsize"); n != int64(0) {
			t.Errorf("%d keys after nothing was taken", n)
		}
	})
}

// TestOneMicrosecond gives every request the same time: what is counted must not hang on times being apart.
func TestOneMicrosecond(t *testing.T) {
	r := newRig(t)
	now := func() time.Time { return time.UnixMicro(1_700_000_000_000_001) }
	each(t, func(t *testing.T, name string) {
		l := r.new(name, perYear(1000), limiter.WithClock(now))
		for i := range 1000 {
			if d := check(t, l, "c"); !d.Allowed || d.Remaining != int64(999-i) || !d.At.IsZero() {
				t.Fatalf("request %d: %+v", i, d)
			}
		}
		if d := check(t, l, "c"); d.Allowed {
			t.Errorf("request 1000: %+v", d)
		}
	})
}

func TestAnIDIsChargedOnce(t *testing.T) {
	r := newRig(t)
	l := r.new("sliding-log", perYear(3))
	for range 5 {
		if d, err := l.CheckID(t.Context(), "c", 2, "same"); err != nil || !d.Allowed || d.Remaining != 1 {
			t.Fatalf("got %+v, %v", d, err)
		}
	}
}

// TestLogsTrimInSlices leaves the logs 2,500 expired entries: an admission may remove 1,000.
func TestLogsTrimInSlices(t *testing.T) {
	r := newRig(t)
	for name, size := range map[string]string{"sliding-log": "zcard", "compact-log": "llen"} {
		at := time.UnixMicro(1_700_000_000_000_000)
		clock := limiter.WithClock(func() time.Time { return at })
		for _, cost := range []int64{1000, 1000, 500} {
			if _, err := r.new(name, perYear(9000), clock).Check(t.Context(), "c", cost); err != nil {
				t.Fatal(err)
			}
		}
		at = at.Add(year)
		for _, want := range []int64{1501, 502, 3, 4} {
			d := check(t, r.new(name, perYear(9000), clock), "c")
			if got := r.do(size, "ratelimit:{c}:"+name); got != want {
				t.Errorf("%s: %d entries, want %d", name, got, want)
			}
			if d.RetryAfter != 0 || d.Remaining < 9000-4 {
				t.Errorf("%s: %+v", name, d)
			}
		}
	}
}

func TestReset(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, name string) {
		l := r.new(name, perYear(1))
		check(t, l, "c")
		if err := l.(limiter.Resetter).Reset(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		if d := check(t, l, "c"); !d.Allowed {
			t.Errorf("after a reset: %+v", d)
		}
	})
}

func TestNoScriptIsLoadedAndSentOnce(t *testing.T) {
	r := newRig(t)
	l := r.new("gcra", perYear(3))
	check(t, l, "c")
	if sent, loaded := r.calls("evalsha"), r.calls("script|load"); sent != 2 || loaded != 1 {
		t.Errorf("first call: %d EVALSHA and %d SCRIPT LOAD, want 2 and 1", sent, loaded)
	}
	check(t, l, "c")
	if sent, loaded := r.calls("evalsha"), r.calls("script|load"); sent != 3 || loaded != 1 {
		t.Errorf("then: %d EVALSHA and %d SCRIPT LOAD, want 3 and 1", sent, loaded)
	}
}

// TestManyCallersLoseTheScript flushes under 64 callers; every request is decided and counted once.
func TestManyCallersLoseTheScript(t *testing.T) {
	r := newRig(t)
	l := r.new("fixed-window", perYear(100_000))
	asked := int64(0)
	for range 5 {
		r.do("script", "flush")
		start := make(chan struct{})
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() {
				<-start
				if _, err := l.Check(t.Context(), "c", 1); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		callers.Wait()
		asked += 64
		if d, err := l.Check(t.Context(), "c", 0); err != nil || d.Remaining != 100_000-asked {
			t.Fatalf("after %d requests: %+v, %v", asked, d, err)
		}
	}
}

func TestRestartedServer(t *testing.T) {
	r := newRig(t)
	l := r.new("gcra", perYear(3))
	check(t, l, "c")
	r.server.Kill()
	if e := failure(t, second(l.Check(t.Context(), "c", 1))); e.Class != limiter.ClassUnreachable || e.Unknown {
		t.Errorf("while it is away: %v", e)
	}
	if err := r.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := check(t, l, "c"); !d.Allowed {
		t.Errorf("after the restart: %+v", d)
	}
}

func second(_ limiter.Decision, err error) error { return err }

func TestIDsAreUnique(t *testing.T) {
	r := newRig(t)
	at := time.UnixMicro(1_700_000_000_000_000)
	clock := limiter.WithClock(func() time.Time { return at })
	var callers sync.WaitGroup
	for range 8 {
		l := r.new("sliding-log", perYear(10_000), clock) // as another process would
		callers.Go(func() {
			for range 100 {
				check(t, l, "c")
			}
		})
	}
	callers.Wait()
	if n := r.do("zcard", "ratelimit:{c}:sliding-log"); n != int64(800) {
		t.Errorf("%d ids of 800 requests", n)
	}
}

func TestOtherTypeIsAnError(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, name string) {
		key := "ratelimit:{c}:" + name
		r.do("pfadd", key, "1")
		if name == "fixed-window" || name == "sliding-counter" || name == "gcra" { // those keep strings too
			r.do("del", key)
			r.do("sadd", key, "1")
		}
		before := r.do("dump", key)
		e := failure(t, second(r.new(name, perYear(3)).Check(t.Context(), "c", 1)))
		if e.Class != limiter.ClassWrongType || !strings.Contains(e.Error(), name+".lua:") {
			t.Errorf("got %v", e)
		}
		if after := r.do("dump", key); after != before {
			t.Error("the key was changed")
		}
	})
}

func TestFullServer(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, name string) {
		r.do("config", "set", "maxmemory", "0")
		l := r.new(name, perYear(2))
		check(t, l, "full")
		check(t, l, "full")
		check(t, l, "c")
		key := "ratelimit:{c}:" + name
		before, dies := r.do("dump", key), r.do("pexpiretime", key)
		r.do("config", "set", "maxmemory", "1")
		if d := check(t, l, "full"); d.Allowed {
			t.Errorf("a denial: %+v", d)
		}
		if e := failure(t, second(l.Check(t.Context(), "c", 1))); e.Class != limiter.ClassOOM || e.Unknown {
			t.Errorf("an admission: %v", e)
		}
		if r.do("dump", key) != before || r.do("pexpiretime", key) != dies {
			t.Error("half-written")
		}
	})
}

// TestRightsSuffice runs each script as a user with the rights that its head names, through a clock step and an expiry
// so that every command of it is called, and then without each of them.
func TestRightsSuffice(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, name string) {
		source, _ := scripts.Source(name)
		may := scripts.Rights(source)
		if may == nil {
			t.Fatal("the head names no rights")
		}
		if e := r.journey(t, name, may); e != nil {
			t.Errorf("with all of %v: %v", may, e)
		}
		for i, right := range may {
			less := append(append([]string{}, may[:i]...), may[i+1:]...)
			if e := r.journey(t, name, less); e == nil || e.Class != limiter.ClassAuth {
				t.Errorf("without %s: %v", right, e)
			}
		}
	})
}

// journey takes a script through all it does, as a user with just these rights, to its first failure.
func (r *rig) journey(t *testing.T, name string, may []string) *limiter.Error {
	r.do("script", "flush")
	r.do("flushall")
	r.do("acl", "deluser", "few")
	args := []any{"acl", "setuser", "few", "on", ">secret", "~ratelimit:*", "-@all"}
	for _, right := range may {
		args = append(args, right)
	}
	r.do(args...)
	rdb := dial(t, &redis.Options{Addr: r.server.Socket(), MaxRetries: -1, Username: "few", Password: "secret"})
	at := time.UnixMicro(1_700_000_000_000_000)
	theirs := limiter.WithClock(func() time.Time { return at })
	for _, step := range []time.Duration{0, 1, -time.Second, 1, -time.Second, 1, year, year} {
		at = at.Add(step)
		for _, limit := range []int64{3, 1} {
			for _, cost := range []int64{1, 0} {
				if _, err := made(t, rdb, name, perYear(limit), theirs).Check(t.Context(), "c", cost); err != nil {
					return failure(t, err)
				}
			}
		}
	}
	if _, err := made(t, rdb, name, perYear(3)).Check(t.Context(), "c", 1); err != nil {
		return failure(t, err)
	}
	return nil
}

func TestScriptFaultShowsItsLine(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		source, want string
		class        limiter.Class
		unknown      bool
	}{
		{"local a\nlocal b = a < 1\n", "mine.lua:2: local b = a < 1: attempt to compare nil with number",
			limiter.ClassScript, true},
		{"\n  return redis.call('LPUSH', KEYS[1])", "mine.lua:2: return redis.call('LPUSH', KEYS[1]): ",
			limiter.ClassScript, true},
		{"error('no ' .. KEYS[1])", "mine.lua:1: error('no ' .. KEYS[1]): no KEYS[1]", limiter.ClassScript, true},
		{"return 1 +", "mine.lua:1: return 1 +: ", limiter.ClassInvalid, false},
		{"return redis.error_reply('INVALID cost: too dear')", "INVALID cost: too dear", limiter.ClassInvalid, false},
		{"return {1, 2, 0, 4}", "five integers", limiter.ClassScript, true},
		{"return {1, 2, 0, 4, 5, 6}", "five integers", limiter.ClassScript, true},
		{"return {1, 2, 3, 4, 5}", "five integers", limiter.ClassScript, true},
		{"return {0, 2, 0, 4, 5}", "five integers", limiter.ClassScript, true},
		{"return {2, 2, 0, 4, 5}", "five integers", limiter.ClassScript, true},
		{"return {1, -2, 0, 4, 5}", "five integers", limiter.ClassScript, true},
		{"return {0, 0, -2, 4, 5}", "five integers", limiter.ClassScript, true},
		{"return {1, 0, 0, 2^60, 5}", "five integers", limiter.ClassScript, true},
		{"return {1, 'two', 0, 4, 5}", "five integers", limiter.ClassScript, true},
		{"return 'allowed'", "five integers", limiter.ClassScript, true},
		{"return nil", "five integers", limiter.ClassScript, true},
		{"return {1, 2, {err = 'ERR no'}, 4, 5}", "no", limiter.ClassOther, false},
	} {
		l, err := limiter.NewScript(r.rdb, "mine", c.source, perYear(3))
		if err != nil {
			t.Fatal(err)
		}
		e := failure(t, second(l.Check(t.Context(), "client-7", 1)))
		if e.Class != c.class || e.Unknown != c.unknown || !strings.Contains(e.Error(), c.want) {
			t.Errorf("%s\ngot:  %v\nwant: %s: %s (unknown: %v)", c.source, e, c.class, c.want, c.unknown)
		}
		if strings.Contains(e.Error(), "client-7") {
			t.Errorf("the key is in %q", e)
		}
	}
	if d := check(t, r.new("gcra", perYear(3)), "c"); !d.Allowed {
		t.Errorf("after all that: %+v", d)
	}
}

// TestAllocations holds a call, the client library included, to ten.
func TestAllocations(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, name string) {
		for _, limit := range []int64{100_000_000, 1} {
			l := r.new(name, perYear(limit))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			got := testing.AllocsPerRun(200, func() {
				if _, err := l.Check(ctx, "some-client's-id", 300); err != nil {
					t.Error(err)
				}
			})
			cancel()
			if got > 10 {
				t.Errorf("%.1f allocations a call at limit %d", got, limit)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	r := newRig(b)
	for _, name := range scripts.Limiters() {
		for path, limit := range map[string]int64{"allow": 1_000_000_000, "deny": 1} {
			b.Run(fmt.Sprintf("%s/%s", name, path), func(b *testing.B) {
				l := r.new(name, limiter.Limit{Events: limit, Window: time.Second})
				b.ReportAllocs()
				for b.Loop() {
					if _, err := l.Check(context.Background(), "c", 1); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
