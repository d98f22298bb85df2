package limiter_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/rlctl/rlctl/pkg/limiter"
)

func TestRawReplies(t *testing.T) {
	r := newRig(t)
	for source, want := range map[string]any{
		"return 7":                              int64(7),
		"return {1, 'two', {3}}":                []any{int64(1), "two", []any{int64(3)}},
		"return false":                          nil,
		"return {1, false, 3}":                  []any{int64(1), nil, int64(3)},
		"return {KEYS[1], KEYS[2], ARGV[1]}":    []any{"k{1}", "l{1}", "a b"},
		"return {#KEYS, #ARGV}":                 []any{int64(2), int64(1)},
		"return redis.status_reply('as it is')": "as it is",
	} {
		got, err := limiter.NewRaw(r.rdb, "mine", source).Run(t.Context(), []string{"k{1}", "l{1}"}, []string{"a b"})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v, %v; want %#v", source, got, err, want)
		}
	}
}

func TestRawFaults(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		source, want string
		class        limiter.Class
		unknown      bool
	}{
		{"local a\nreturn a.b", "a/b.lua:2: return a.b: ", limiter.ClassScript, true},
		{"error('no ' .. KEYS[1])", "a/b.lua:1: error('no ' .. KEYS[1]): no KEYS[1]", limiter.ClassScript, true},
		{"return 1 +", "a/b.lua:1: return 1 +: ", limiter.ClassInvalid, false},
		{"redis.call('SET', KEYS[1], 1) return redis.call('INCR', KEYS[1], 2)", "rong number", limiter.ClassScript, true},
	} {
		raw := limiter.NewRaw(r.rdb, "mine", c.source, limiter.WithFile("a/b.lua"))
		_, err := raw.Run(t.Context(), []string{"client-7"}, nil)
		e := failure(t, err)
		text := e.Error()
		if e.Class != c.class || e.Unknown != c.unknown || !strings.Contains(text, c.want) || strings.Contains(text, "client-7") {
			t.Errorf("%s\ngot:  %v\nwant: %s: %s (unknown: %v)", c.source, e, c.class, c.want, c.unknown)
		}
	}
}

func TestRawIsLoadedAndSentOnce(t *testing.T) {
	r := newRig(t)
	raw := limiter.NewRaw(r.rdb, "mine", "return redis.call('INCR', KEYS[1])")
	for want := int64(1); want <= 3; want++ {
		if got, err := raw.Run(t.Context(), []string{"k"}, nil); err != nil || got != want {
			t.Errorf("got %v, %v; want %d", got, err, want)
		}
		if want == 2 {
			r.do("script", "flush")
		}
	}
	if sent, loaded := r.calls("evalsha"), r.calls("script|load"); sent != 5 || loaded != 2 {
		t.Errorf("%d EVALSHA and %d SCRIPT LOAD, want 5 and 2", sent, loaded)
	}
}

func TestRawIsNotSentAgain(t *testing.T) {
	r := newRig(t)
	source := "return redis.call('INCR', KEYS[1])"
	if err := limiter.NewRaw(r.rdb, "mine", source).Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	relayed := r.newRelay(t, cut)
	for kind, rdb := range clients(relayed.path) {
		t.Run(kind, func(t *testing.T) {
			defer rdb.Close()
			_, err := limiter.NewRaw(rdb, "mine", source).Run(t.Context(), []string{kind}, nil)
			if e := failure(t, err); e.Class != limiter.ClassNoAnswer || !e.Unknown {
				t.Errorf("got %v", e)
			}
			if n := r.do("get", kind); n != "1" {
				t.Errorf("it ran %v times", n)
			}
		})
	}
	gone := limiter.NewRaw(r.exhausted(t), "mine", source)
	if _, err := gone.Run(t.Context(), []string{"k"}, nil); failure(t, err).Class != limiter.ClassUnreachable || limiter.Counted(err) {
		t.Errorf("never sent: %v", err)
	}
}
