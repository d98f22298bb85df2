package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/scripts"
)

// rig is a server of the test's own and a client that never sends anything again by itself.
type rig struct {
	testing.TB
	server *redisd.Server
	rdb    *redis.Client
}

func newRig(t testing.TB, args ...string) *rig {
	t.Helper()
	s := redisdtest.Start(t, redisd.Options{Args: args})
	o := redis.Options{Addr: s.Socket(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true}
	return &rig{t, s, dial(t, &o)}
}

// dial opens a client of a Unix socket for the length of the test.
func dial(t testing.TB, o *redis.Options) *redis.Client {
	o.Network = "unix"
	rdb := redis.NewClient(o)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// new returns a limiter, which must be made without error.
func (r *rig) new(name string, l limiter.Limit, opts ...limiter.Option) limiter.Identified {
	r.Helper()
	return made(r, r.rdb, name, l, opts...)
}

func made(
	t testing.TB, rdb redis.UniversalClient, name string, l limiter.Limit, opts ...limiter.Option,
) limiter.Identified {
	t.Helper()
	got, err := limiter.New(rdb, name, l, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return got.(limiter.Identified)
}

// do runs a command of the test's own, which must work, and returns its answer.
func (r *rig) do(args ...any) any {
	r.Helper()
	got, err := r.rdb.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		r.Fatalf("%v: %v", args, err)
	}
	return got
}

// calls is how often the server has run a command, which commandstats calls by a name such as "evalsha".
func (r *rig) calls(command string) int {
	r.Helper()
	stats, err := r.rdb.Info(context.Background(), "commandstats").Result()
	if err != nil {
		r.Fatal(err)
	}
	var n int
	if _, stat, found := strings.Cut(stats, "cmdstat_"+command+":"); found {
		if _, err := fmt.Sscanf(stat, "calls=%d,", &n); err != nil {
			r.Fatal(err)
		}
	}
	return n
}

// year is the longest window: nothing refills and no edge passes while a test runs.
const year = 366 * 24 * time.Hour

func perYear(events int64) limiter.Limit { return limiter.Limit{Events: events, Window: year} }

// each runs a test for every rate limiter.
func each(t *testing.T, test func(t *testing.T, name string)) { eachOf(t, scripts.Limiters(), test) }

// eachScript runs a test for every script, those of the semaphore among them.
func eachScript(t *testing.T, test func(t *testing.T, name string)) { eachOf(t, scripts.Names(), test) }

func eachOf(t *testing.T, names []string, test func(t *testing.T, name string)) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) { test(t, name) })
	}
}

// failure is the *limiter.Error that err must be.
func failure(t testing.TB, err error) *limiter.Error {
	t.Helper()
	var e *limiter.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *limiter.Error", err)
	}
	return e
}

// check asks for one event, which must be decided.
func check(t testing.TB, l limiter.Limiter, key string) limiter.Decision {
	t.Helper()
	d, err := l.Check(context.Background(), key, 1)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
