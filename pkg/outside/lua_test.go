package outside_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/outside"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/scripts"
)

// luaRig is a server whose clock stands still, and a client.
type luaRig struct {
	*testing.T
	rdb *redis.Client
}

const frozen = 1_700_000_000_000_001

func newLuaRig(t *testing.T) *luaRig {
	t.Helper()
	s := redisdtest.Start(t, redisd.Options{Clock: true})
	s.Clock().Freeze(frozen)
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { rdb.Close() })
	return &luaRig{t, rdb}
}

// file writes a source and names it as a limiter.
func file(t testing.TB, source string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mine.lua")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return "lua:" + path
}

func openFile(t testing.TB, source, as string) outside.Kind {
	t.Helper()
	kind, err := outside.Open(file(t, source), outside.Terms{As: as})
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// open makes a limiter of 3 an hour.
func (r *luaRig) open(source, as string, opts ...limiter.Option) limiter.Identified {
	r.Helper()
	l, err := openFile(r, source, as).New(r.rdb, limiter.Limit{Events: 3, Window: time.Hour}, opts...)
	if err != nil {
		r.Fatal(err)
	}
	return l.(limiter.Identified)
}

func (r *luaRig) check(l limiter.Limiter, key string, cost int64) limiter.Decision {
	r.Helper()
	d, err := l.Check(r.Context(), key, cost)
	if err != nil {
		r.Fatal(err)
	}
	return d
}

// keys are all that the server has.
func (r *luaRig) keys() string {
	r.Helper()
	keys, err := r.rdb.Keys(r.Context(), "*").Result()
	if err != nil {
		r.Fatal(err)
	}
	return strings.Join(keys, " ")
}

// A file without a mapping is one of our own kind: the server's clock decides, whatever clock the caller has.
func TestLuaOfOurContract(t *testing.T) {
	t.Parallel()
	r := newLuaRig(t)
	source, _ := scripts.Source("gcra")
	late := limiter.WithClock(func() time.Time { return time.UnixMicro(frozen).Add(24 * time.Hour) })
	l, own := r.open(source, "gcra", late, limiter.WithPrefix("theirs")), newOwn(t, r.rdb)
	for _, cost := range []int64{0, 1, 2, 1, 4} {
		got, want := r.check(l, "c", cost), r.check(own, "c", cost)
		if got != want || got.At.UnixMicro() != frozen {
			t.Errorf("cost %d: got %+v, want %+v", cost, got, want)
		}
	}
	if got := r.keys(); !strings.Contains(got, "theirs:{c}:gcra") {
		t.Errorf("keys %s", got)
	}
	if kind := openFile(t, source, "gcra"); kind.Unit {
		t.Error("it takes any cost")
	}
}

func newOwn(t testing.TB, rdb redis.UniversalClient) limiter.Limiter {
	t.Helper()
	l, err := limiter.New(rdb, "gcra", limiter.Limit{Events: 3, Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The same through a mapping that says what the contract does: it tells all, and is passed peeks.
func TestLuaThroughAMapping(t *testing.T) {
	t.Parallel()
	r := newLuaRig(t)
	source, _ := scripts.Source("gcra")
	l := r.open("-- rlctl: keys {key}\n-- rlctl: argv {limit} {window_us} {burst} {cost} {id} 0\n"+
		"-- rlctl: reply allowed remaining retry_us reset_us now_us\n"+source, "gcra", limiter.WithPrefix("theirs"))
	own := newOwn(t, r.rdb)
	for _, cost := range []int64{0, 1, 2, 1, 4} {
		if got, want := r.check(l, "c", cost), r.check(own, "c", cost); got != want {
			t.Errorf("cost %d: got %+v, want %+v", cost, got, want)
		}
	}
}

const twoKeys = `-- rlctl: keys {key}:count {key}:id
-- rlctl: argv {window_s} {id} {now_ms}
-- rlctl: reply count
redis.call('SET', KEYS[2], ARGV[2] .. '@' .. ARGV[3], 'EX', ARGV[1])
local n = redis.call('INCR', KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[1])
return n
`

func TestLuaOfItsOwnKind(t *testing.T) {
	t.Parallel()
	r := newLuaRig(t)
	l := r.open(twoKeys, "fixed-window", limiter.WithClock(func() time.Time { return time.UnixMilli(5) }))
	if d := r.check(l, "c", 0); !d.Allowed || r.keys() != "" {
		t.Errorf("a peek: %+v, and now there is %q", d, r.keys())
	}
	for n := 1; n <= 5; n++ {
		d, err := l.CheckID(t.Context(), "c", 1, "my-id")
		if err != nil || d.Allowed != (n <= 3) || d.Remaining != int64(max(0, 3-n)) || !d.At.IsZero() {
			t.Errorf("request %d: %+v, %v", n, d, err)
		}
	}
	if id := r.rdb.Get(t.Context(), "ratelimit:{c}:fixed-window:id").Val(); id != "my-id@5" {
		t.Errorf("the script got %q", id)
	}
	if _, err := l.Check(t.Context(), "c", 2); classOf(err) != limiter.ClassInvalid || limiter.Counted(err) {
		t.Errorf("cost 2: %v", err)
	}
	if d := r.check(l, "d", 1); !d.Allowed {
		t.Errorf("another client: %+v", d)
	}
	if err := l.(limiter.Resetter).Reset(t.Context(), "c"); err != nil || strings.Contains(r.keys(), "{c}") {
		t.Errorf("after a reset: %v, %s", err, r.keys())
	}
}

func classOf(err error) limiter.Class {
	var e *limiter.Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}

func TestLuaErrors(t *testing.T) {
	t.Parallel()
	r := newLuaRig(t)
	for _, c := range []struct {
		name, source string
		cost         int64
		class        limiter.Class
		counted      bool
		says         string
	}{
		{"not Lua", "local a = 1\nreturn }", 0, limiter.ClassInvalid, false, "mine.lua:2: return }: unexpected symbol"},
		{"not Lua, with a mapping", "-- rlctl: reply count\nreturn }", 0, limiter.ClassInvalid, false, "mine.lua:2: return }: unexpected symbol"},
		{"not of the contract", "return 1", 0, limiter.ClassScript, true, "mine.lua: the reply is not the five integers"},
		{"another reply", "-- rlctl: reply count\nreturn {1, 2}", 1, limiter.ClassScript, true, "mine.lua: the reply holds 2 values"},
		{"no reply", "-- rlctl: reply allowed\nreturn nil", 1, limiter.ClassScript, true, "it is nil"},
		{"fails", "-- rlctl: reply allowed\n\nreturn nothing.x", 1, limiter.ClassScript, true, "mine.lua:3: return nothing.x: "},
		{"refuses", "-- rlctl: reply allowed\nreturn redis.error_reply('INVALID no')", 1, limiter.ClassInvalid, false, "INVALID no"},
		{"other type", "-- rlctl: reply count\nredis.call('SADD', KEYS[1], 1) return redis.call('INCR', KEYS[1])", 1,
			limiter.ClassWrongType, true, "WRONGTYPE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := r.open(c.source, "fixed-window").Check(t.Context(), c.name, c.cost)
			if err == nil || classOf(err) != c.class || limiter.Counted(err) != c.counted || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %s, %s (counted %v)", err, c.class, c.says, c.counted)
			}
		})
	}
}

// What cannot be a limiter is refused before there is a server.
func TestLuaRefused(t *testing.T) {
	t.Parallel()
	large := file(t, "return 1 --"+strings.Repeat("x", 1<<20))
	for name, says := range map[string]string{
		"lua:":                       "wants a file",
		"lua:" + t.TempDir():         "is not a file",
		"lua:/no/such/file.lua":      "open /no/such/file.lua: no such file",
		large:                        "has more than 1 MiB",
		file(t, "\n-- rlctl: reply"): "mine.lua:2: the reply does not tell",
	} {
		if _, err := outside.Open(name, outside.Terms{As: "gcra"}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", name, err, says)
		}
	}
	seconds := openFile(t, "-- rlctl: argv {window_s}\n-- rlctl: reply count\nreturn 1", "fixed-window")
	for name, c := range map[string]struct {
		limit limiter.Limit
		opts  []limiter.Option
		field string
	}{
		"window": {limiter.Limit{Events: 1, Window: 1500 * time.Millisecond}, nil, "window"},
		"limit":  {limiter.Limit{Events: -1, Window: time.Second}, nil, "limit"},
		"prefix": {limiter.Limit{Events: 1, Window: time.Second}, []limiter.Option{limiter.WithPrefix("{")}, "prefix"},
	} {
		_, err := seconds.New(nil, c.limit, c.opts...)
		var field *limiter.FieldError
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !seconds.Unit {
		t.Error("a script that gets no cost takes one event a request")
	}
}

func TestLuaAllocations(t *testing.T) {
	r := newLuaRig(t)
	l := r.open(twoKeys, "fixed-window")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := testing.AllocsPerRun(200, func() {
		if _, err := l.Check(ctx, "some-client's-id", 1); err != nil {
			t.Error(err)
		}
	})
	if got > 20 {
		t.Errorf("%.1f allocations a call", got)
	}
	t.Logf("%.1f allocations a call of 2 keys and 3 arguments", got)
}
