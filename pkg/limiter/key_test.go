package limiter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/scripts"
)

// clientIDs are ids that other libraries met with shared state, CROSSSLOT or worse.
var clientIDs = []string{
	"c", "}", "}x", "{", "{}", "a{b}c", "%", "%7D", "%257D", "%25", "%7d", " ", "a b", ":", "a:b", "a}:gcra", "x}:gcra{",
	"\x00", "\xff", "\n", "\r\n", "*", "?", "ключ", "a\x00b", strings.Repeat("k", 4<<10), strings.Repeat("}", 64<<10),
}

func TestKeysAreDistinctAndInOneSlot(t *testing.T) {
	seen := map[string]string{}
	for _, prefix := range []string{"ratelimit", "ratelimit:a", "a}", ""} {
		for _, id := range clientIDs {
			tags := map[string]bool{}
			for _, name := range scripts.Limiters() {
				key, err := limiter.Key(prefix, id, name)
				if err != nil {
					t.Fatalf("%q: %v", id, err)
				}
				if other, found := seen[key]; found {
					t.Errorf("%q and %q share %q", other, prefix+"|"+id+"|"+name, key)
				}
				seen[key] = prefix + "|" + id + "|" + name
				tags[hashTag(key)] = true
			}
			if len(tags) != 1 || tags[""] {
				t.Errorf("the keys of %q lie in %d slots", id, len(tags))
			}
		}
	}
}

// hashTag is what a cluster hashes of a key: what stands between the first { and the first } after it, if anything.
func hashTag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	if !closed || tag == "" {
		return key
	}
	return tag
}

func TestKeyIsWhatTheServerHolds(t *testing.T) {
	r := newRig(t)
	for _, id := range clientIDs {
		check(t, r.new("gcra", perYear(3), limiter.WithPrefix("mine")), id)
		key, _ := limiter.Key("mine", id, "gcra")
		if n := r.do("exists", key); n != int64(1) {
			t.Errorf("%q is not at %q", id, key)
		}
	}
	if n := r.do("dbsize"); n != int64(len(clientIDs)) {
		t.Errorf("%d keys of %d clients", n, len(clientIDs))
	}
}

func TestRefusedBeforeAnyIO(t *testing.T) {
	r := newRig(t)
	day, long := 24*time.Hour, strings.Repeat("x", 257)
	for _, c := range []struct {
		field, limiter string
		limit          limiter.Limit
		prefix, key    string
		cost           int64
		id             string
	}{
		{"limit", "gcra", limiter.Limit{Events: -1, Window: day}, "p", "c", 1, "id"},
		{"limit", "gcra", limiter.Limit{Events: 1e9 + 1, Window: day}, "p", "c", 1, "id"},
		{"window", "gcra", limiter.Limit{Events: 1}, "p", "c", 1, "id"},
		{"window", "gcra", limiter.Limit{Events: 1, Window: time.Millisecond - time.Microsecond}, "p", "c", 1, "id"},
		{"window", "gcra", limiter.Limit{Events: 1, Window: 366*day + time.Microsecond}, "p", "c", 1, "id"},
		{"window", "gcra", limiter.Limit{Events: 1, Window: time.Second + 1}, "p", "c", 1, "id"},
		{"burst", "gcra", limiter.Limit{Events: 1, Window: day, Burst: -1}, "p", "c", 1, "id"},
		{"burst", "gcra", limiter.Limit{Events: 1, Window: day, Burst: 1e9 + 1}, "p", "c", 1, "id"},
		{"burst", "gcra", limiter.Limit{Events: 1, Window: 366 * day, Burst: 143}, "p", "c", 1, "id"},
		{"burst", "token-bucket", limiter.Limit{Events: 7, Window: 366 * day, Burst: 997}, "p", "c", 1, "id"},
		{"prefix", "gcra", limiter.Limit{Events: 1, Window: day}, "p{", "c", 1, "id"},
		{"limiter", "leaky", limiter.Limit{Events: 1, Window: day}, "p", "c", 1, "id"},
		{"key", "gcra", limiter.Limit{Events: 1, Window: day}, "p", "", 1, "id"},
		{"key", "gcra", limiter.Limit{Events: 1, Window: day}, "p", strings.Repeat("k", 64<<10+1), 1, "id"},
		{"cost", "gcra", limiter.Limit{Events: 1, Window: day}, "p", "c", -1, "id"},
		{"cost", "gcra", limiter.Limit{Events: 1, Window: day}, "p", "c", 1 << 53, "id"},
		{"cost", "sliding-log", limiter.Limit{Events: 1001, Window: day}, "p", "c", 1001, "id"},
		{"cost", "compact-log", limiter.Limit{Events: 1001, Window: day}, "p", "c", 1001, "id"},
		{"id", "sliding-log", limiter.Limit{Events: 1, Window: day}, "p", "c", 1, ""},
		{"id", "fixed-window", limiter.Limit{Events: 1, Window: day}, "p", "c", 1, long},
	} {
		l, err := limiter.New(r.rdb, c.limiter, c.limit, limiter.WithPrefix(c.prefix))
		if err == nil {
			_, err = l.(limiter.Identified).CheckID(context.Background(), c.key, c.cost, c.id)
		}
		var field *limiter.FieldError
		e := failure(t, err)
		if e.Class != limiter.ClassInvalid || e.Unknown || !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%+v: got %v", c, err)
		}
	}
	if n := r.calls("evalsha"); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestBoundsAreTaken(t *testing.T) {
	r := newRig(t)
	longest := 366 * 24 * time.Hour
	for _, l := range []limiter.Limit{
		{Events: 0, Window: time.Millisecond}, {Events: 0, Window: longest, Burst: 1e9}, {Events: 1e9, Window: longest},
		{Events: 1, Window: longest, Burst: 142}, {Events: 1e9, Window: time.Millisecond, Burst: 1},
		{Events: 1024, Window: 4398046511104 * time.Microsecond, Burst: 1048576}, // fills in 2^52 µs
	} {
		for _, name := range scripts.Limiters() {
			for _, cost := range []int64{0, 1, limiter.MaxCost} {
				if _, err := r.new(name, l).Check(t.Context(), "c", cost); err != nil {
					t.Errorf("%s, %+v, cost %d: %v", name, l, cost, err)
				}
			}
		}
	}
}
