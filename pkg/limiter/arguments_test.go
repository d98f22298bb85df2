package limiter_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/scripts"
)

const mostCost = "9007199254740991"

// usual are arguments that every script takes.
var usual = []string{"100", "60000000", "0", "1", "id", "0"}

// names are the positions of the arguments.
var names = []string{"limit", "window", "burst", "cost", "id", "now"}

// with is the usual arguments but for some, given as "cost=0".
func with(changes ...string) []any {
	args := make([]any, len(usual))
	for i, a := range usual {
		args[i] = a
	}
	for _, c := range changes {
		name, value, _ := strings.Cut(c, "=")
		for i := range names {
			if names[i] == name {
				args[i] = value
			}
		}
	}
	return args
}

// eval runs a script with arguments as a client in another language would.
func (r *rig) eval(name string, keys []string, args ...any) (any, error) {
	source, _ := scripts.Source(name)
	return r.rdb.Eval(context.Background(), source, keys, args...).Result()
}

func TestScriptsRefuseArguments(t *testing.T) {
	r := newRig(t)
	eachScript(t, func(t *testing.T, name string) {
		for _, argument := range []string{"limit", "window", "burst", "cost", "now"} {
			for _, bad := range []string{"", " ", "abc", "0x10", "1e3", "1.5", "-1", "+1", "nan", "inf", "-inf", " 1", "1 ",
				"1\n", "1\x00", "१", "18446744073709551616", strings.Repeat("9", 400)} {
				r.refused(t, name, argument, with(argument+"="+bad)...)
			}
		}
		for argument, beyond := range map[string][]string{
			"limit": {"1000000001"}, "window": {"0", "999", "31622400000001"}, "burst": {"1000000001"},
			"cost": {"9007199254740992", "9007199254740993"}, "now": {"4503599627370497"},
			"id": {strings.Repeat("x", 257)},
		} {
			for _, bad := range beyond {
				r.refused(t, name, argument, with(argument+"="+bad)...)
			}
		}
		r.refused(t, name, "arguments", with()[:5]...)
		r.refused(t, name, "arguments", append(with(), "7")...)
		r.refused(t, name, "arguments")
	})
}

func TestScriptsRefuseWhatOnlySomeCannotDo(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"token-bucket", "gcra"} {
		r.refused(t, name, "burst", with("limit=1", "window=31622400000000", "burst=143")...)
		r.refused(t, name, "burst", with("limit=7", "window=31622400000000", "burst=997")...)
		r.taken(t, name, with("limit=1", "window=31622400000000", "burst=142")...)
		// 2^52 µs to fill, and 1/1023 µs more.
		r.taken(t, name, with("limit=1024", "window=4398046511104", "burst=1048576")...)
		r.refused(t, name, "burst", with("limit=1023", "window=4393751543808", "burst=1048577")...)
	}
	for _, name := range []string{"sliding-log", "compact-log"} {
		r.refused(t, name, "cost", with("limit=1001", "cost=1001")...)
		r.taken(t, name, with("limit=1000", "cost=1001")...)
		r.taken(t, name, with("limit=1001", "cost=1000")...)
	}
	r.refused(t, "sliding-log", "id", with("id=")...)
	r.taken(t, "sliding-log", with("id=", "cost=0")...)
	r.taken(t, "compact-log", with("id=")...)
	for _, name := range []string{scripts.SemaphoreAcquire, scripts.SemaphoreRenew, scripts.SemaphoreRelease} {
		r.refused(t, name, "cost", with("cost=2")...)
		r.refused(t, name, "cost", with("cost=2", "limit=0")...)
		r.refused(t, name, "id", with("id=")...)
		r.taken(t, name, with("id=", "cost=0")...)
	}
}

func TestScriptsTakeTheBounds(t *testing.T) {
	r := newRig(t)
	eachScript(t, func(t *testing.T, name string) {
		for _, change := range []string{"limit=0", "limit=1000000000", "window=1000", "window=31622400000000",
			"burst=1000000000", "cost=0", "cost=" + dearest(name), "now=1", "now=4503599627370496",
			"id=" + strings.Repeat("x", 256), "id=\x00\xff}{ \n", "cost=0000000000000000000000001"} {
			r.taken(t, name, with(change)...)
		}
	})
}

func TestScriptsWantOneKey(t *testing.T) {
	r := newRig(t)
	eachScript(t, func(t *testing.T, name string) {
		for _, keys := range [][]string{{}, {"a", "b"}} {
			if _, err := r.eval(name, keys, with()...); !isInvalid(err, "key") {
				t.Errorf("with keys %v: %v", keys, err)
			}
		}
	})
}

// dearest is the highest cost that a script takes.
func dearest(name string) string {
	if slices.Contains(scripts.Limiters(), name) {
		return mostCost
	}
	return "1"
}

// refused wants an error that names the argument, and no key afterwards.
func (r *rig) refused(t *testing.T, name, argument string, args ...any) {
	t.Helper()
	got, err := r.eval(name, []string{"k"}, args...)
	if !isInvalid(err, argument) {
		t.Errorf("%s %q: got %v, %v; want INVALID %s", name, args, got, err, argument)
	}
	if n := r.do("dbsize"); n != int64(0) {
		t.Errorf("%s %q: refused, and left a key", name, args)
		r.do("flushall")
	}
}

// taken wants a decision.
func (r *rig) taken(t *testing.T, name string, args ...any) {
	t.Helper()
	if got, err := r.eval(name, []string{"k"}, args...); err != nil || !keepsContract(got) {
		t.Errorf("%s %q: got %v, %v", name, args, got, err)
	}
	r.do("flushall")
}

func isInvalid(err error, argument string) bool {
	return err != nil && redis.HasErrorPrefix(err, "INVALID "+argument+":")
}

// keepsContract tells whether a reply is what the scripts promise.
func keepsContract(reply any) bool {
	list, _ := reply.([]any)
	if len(list) != 5 {
		return false
	}
	var n [5]int64
	for i := range list {
		var whole bool
		if n[i], whole = list[i].(int64); !whole {
			return false
		}
	}
	allowed, remaining, retry, reset, now := n[0], n[1], n[2], n[3], n[4]
	return (allowed == 0 || allowed == 1) && (allowed == 1) == (retry == 0) && 0 <= remaining && remaining <= 1e9 &&
		-1 <= retry && retry < math.MaxInt64/1000 && 0 <= reset && reset < math.MaxInt64/1000 && now > 0
}

// FuzzArguments looks for arguments that a script neither takes nor refuses.
func FuzzArguments(f *testing.F) {
	r := newRig(f)
	f.Add("100", "60000000", "0", "1", "id", "0", "100", "1")
	f.Add("7", "60000000", "3", "2", "a:b", "1700000000000000", "1", "1699999999999999")
	f.Add("1000000000", "31622400000000", "0", mostCost, "", "4503599627370496", "1", "1")
	f.Add("0x10", "1e3", "nan", "-1", "\x00", "", " ", "5")
	f.Fuzz(func(t *testing.T, limit, window, burst, cost, id, now, limit2, now2 string) {
		r := &rig{t, r.server, r.rdb}
		for _, name := range scripts.Names() {
			for _, args := range [][]any{
				{limit, window, burst, cost, id, now}, {limit2, window, burst, cost, id, now2}, {limit, window, "0", "1", id, now},
			} {
				got, err := r.eval(name, []string{"k"}, args...)
				if err == nil && !keepsContract(got) || err != nil && !redis.HasErrorPrefix(err, "INVALID ") {
					t.Fatalf("%s %q: got %v, %v", name, args, got, err)
				}
				if ttl := r.do("pttl", "k"); ttl == int64(-1) {
					t.Fatalf("%s %q: a key without TTL", name, args)
				}
			}
			r.do("del", "k")
		}
	})
}
