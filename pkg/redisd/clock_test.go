package redisd_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
)

// client connects to the server for the length of the test.
func client(t testing.TB, socket string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { c.Close() })
	return c
}

// serverTime returns the server's clock in microseconds, as TIME and as a script sees it. They must agree under a
// frozen clock only.
func serverTime(t testing.TB, c *redis.Client) (plain, inScript int64) {
	t.Helper()
	now, err := c.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	inScript, err = c.Eval(t.Context(), `local t = redis.call("TIME") return t[1] * 1000000 + t[2]`, nil).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return now.UnixMicro(), inScript
}

func TestClockFreezesToTheMicrosecond(t *testing.T) {
	t.Parallel()
	s := redisdtest.Start(t, redisd.Options{Clock: true})
	c := client(t, s.Socket())
	for _, us := range []int64{0, 1, 999_999, 1_000_000, 1_700_000_000_123_456, 1_700_000_000_123_455, 1<<53 - 1} {
		s.Clock().Freeze(us)
		if plain, inScript := serverTime(t, c); plain != us || inScript != us {
			t.Errorf("frozen at %d: TIME says %d, a script %d", us, plain, inScript)
		}
	}
	// A thread that sleeps until a time of day would take a core for itself.
	if bg, err := c.ConfigGet(t.Context(), "jemalloc-bg-thread").Result(); err != nil || bg["jemalloc-bg-thread"] != "no" {
		t.Errorf("jemalloc's thread runs: %v, %v", bg, err)
	}
}

func TestClockRunsAheadBehindAndReal(t *testing.T) {
	t.Parallel()
	s := redisdtest.Start(t, redisd.Options{Clock: true})
	c := client(t, s.Socket())
	within := func(ahead time.Duration) {
		t.Helper()
		before := time.Now().Add(ahead).UnixMicro()
		plain, inScript := serverTime(t, c)
		if after := time.Now().Add(ahead).UnixMicro(); plain < before || inScript < plain || after < inScript {
			t.Errorf("%v ahead: want %d <= %d <= %d <= %d", ahead, before, plain, inScript, after)
		}
	}
	within(0)
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, time.Microsecond, -366 * 24 * time.Hour} {
		s.Clock().Offset(ahead)
		within(ahead)
	}
	s.Clock().Real()
	within(0)
}

func TestClockMovesExpiry(t *testing.T) {
	t.Parallel()
	s := redisdtest.Start(t, redisd.Options{Clock: true})
	c, ctx := client(t, s.Socket()), t.Context()
	const start = 1_700_000_000_000_000
	for i := range int64(1000) {
		now := start + i*3_600_000_000
		s.Clock().Freeze(now)
		if err := c.Set(ctx, "k", "v", 1500*time.Millisecond).Err(); err != nil {
			t.Fatal(err)
		}
		s.Clock().Freeze(now + 1_500_999) // a key is expired when now_ms > when
		if n, err := c.Exists(ctx, "k").Result(); n != 1 || err != nil {
			t.Fatalf("round %d: gone in its last millisecond (%v)", i, err)
		}
		s.Clock().Freeze(now + 1_501_000)
		if n, err := c.Exists(ctx, "k").Result(); n != 0 || err != nil {
			t.Fatalf("round %d: alive after its last millisecond (%v)", i, err)
		}
	}
}

func TestClocksAreApart(t *testing.T) {
	t.Parallel()
	a, b := redisdtest.Start(t, redisd.Options{Clock: true}), redisdtest.Start(t, redisd.Options{Clock: true})
	a.Clock().Freeze(1_000_000)
	b.Clock().Freeze(2_000_000)
	if now, _ := serverTime(t, client(t, a.Socket())); now != 1_000_000 {
		t.Errorf("the other server's clock moved this one to %d", now)
	}
}
