package naive_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/target"
)

// start is a moment that is an edge of every window used here: 2023-11-14, a multiple of a minute.
const start = int64(1_700_000_040_000_000)

// rig is a private server whose clock stands still, and clients that read the same clock.
type rig struct {
	t    *testing.T
	srv  *redisd.Server
	rdb  redis.UniversalClient // for looking, without hooks
	time atomic.Int64          // µs
}

func newRig(t *testing.T) *rig {
	t.Helper()
	srv, err := redisd.Start(t.Context(), redisd.Options{Clock: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &rig{t: t, srv: srv}
	r.rdb = r.client()
	r.set(start)
	return r
}

func (r *rig) client(hooks ...redis.Hook) redis.UniversalClient {
	r.t.Helper()
	rdb, err := target.Conn{Socket: r.srv.Socket(), Timeout: 20 * time.Second}.Open(16)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range hooks {
		rdb.AddHook(h)
	}
	r.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func (r *rig) set(us int64) {
	r.time.Store(us)
	r.srv.Clock().Freeze(us)
}

func (r *rig) now() time.Time { return time.UnixMicro(r.time.Load()) }

func (r *rig) open(name string, rdb redis.UniversalClient, l limiter.Limit) limiter.Limiter {
	r.t.Helper()
	return r.openAt(name, rdb, l, r.now)
}

func (r *rig) openAt(name string, rdb redis.UniversalClient, l limiter.Limit, clock func() time.Time) limiter.Limiter {
	r.t.Helper()
	lim, err := entry(r.t, name).New(rdb, l, limiter.WithClock(clock), limiter.WithPrefix("test"))
	if err != nil {
		r.t.Fatal(err)
	}
	return lim
}

// keys are all keys of the server.
func (r *rig) keys() []string {
	r.t.Helper()
	keys, err := r.rdb.Keys(context.Background(), "*").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	return keys
}

// dump is all that the server holds, with the times at which it goes.
func (r *rig) dump() string {
	r.t.Helper()
	var all strings.Builder
	for _, key := range r.keys() {
		value, err := r.rdb.Dump(context.Background(), key).Result()
		if err != nil {
			r.t.Fatal(err)
		}
		all.WriteString(key + value + strconv.FormatInt(r.ends(key), 10))
	}
	return all.String()
}

// ends is the last ms of a key's life, -1 if it lives for ever, -2 if there is none.
func (r *rig) ends(key string) int64 {
	r.t.Helper()
	ms, err := r.rdb.Do(context.Background(), "pexpiretime", key).Int64()
	if err != nil {
		r.t.Fatal(err)
	}
	return ms
}

// check is a request that must be decided.
func check(t *testing.T, lim limiter.Limiter, cost int64) limiter.Decision {
	t.Helper()
	d, err := lim.Check(t.Context(), "c", cost)
	if err != nil {
		t.Fatal(err)
	}
	if !d.At.IsZero() {
		t.Fatalf("At is %v, though no server's clock was asked", d.At)
	}
	return d
}

func entry(t *testing.T, name string) target.Entry {
	t.Helper()
	e, err := target.Find(target.Catalogue(), name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// naives are the names of all naive rows of which keep says so.
func naives(t *testing.T, keep func(target.Entry) bool) []string {
	t.Helper()
	var names []string
	for _, e := range target.Catalogue() {
		if !e.Atomic() && keep(e) {
			names = append(names, e.Name)
		}
	}
	if len(names) == 0 {
		t.Fatal("no row to test")
	}
	return names
}

func all(target.Entry) bool { return true }

// lost tells whether err took the answers of all commands of a step.
func lost(err error) bool { return errors.Is(err, io.EOF) }

// tap is a hook through which every step of a client passes: a command, a pipeline, a MULTI block.
type tap func(cmds []redis.Cmder, run func() error) error

func (f tap) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (f tap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return f([]redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (f tap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ran := false
		err := f(cmds, func() error { ran = true; return next(ctx, cmds) })
		for _, cmd := range cmds {
			if err != nil && (!ran || lost(err)) {
				cmd.SetErr(err)
			}
		}
		return err
	}
}
