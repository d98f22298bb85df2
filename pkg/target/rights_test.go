package target_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/scripts"
)

var luaCalls = regexp.MustCompile(`\bcall\('([A-Z]+)'`)

// The rights that a script's head names are those of what it calls, none more and none less.
func TestRightsAreWhatTheScriptsCall(t *testing.T) {
	for _, name := range scripts.Names() {
		source, _ := scripts.Source(name)
		want := []string{"+evalsha", "+script|load"}
		for _, found := range luaCalls.FindAllStringSubmatch(source, -1) {
			want = append(want, "+"+strings.ToLower(found[1]))
		}
		slices.Sort(want)
		if got := slices.Sorted(slices.Values(scripts.Rights(source))); !slices.Equal(got, slices.Compact(want)) {
			t.Errorf("%s: the head names %v, and it calls %v", name, got, want)
		}
	}
}

func TestRightsOfWhatIsNoScript(t *testing.T) {
	for _, name := range []string{"", "naive-counter", scripts.SemaphoreRenew + "x"} {
		if got := target.Rights(name); got != nil || target.ACLRule(name, "p") != "" {
			t.Errorf("%q: %v", name, got)
		}
	}
	if got := target.Rights(target.Semaphore); !slices.Contains(got, "+zrem") || !slices.Contains(got, "+zrange") {
		t.Errorf("%v, want the rights of all three", got)
	}
}

// The pattern lets a user reach the keys of its limiter under its prefix, and no others, whatever stands in either.
func TestTheKeyPatternIsNoWider(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})
	defer rdb.Close()
	for prefix, others := range map[string][]string{
		"ratelimit": {"ratelimitx", "", "xratelimit"}, `a*b?[c]\^-`: {"axxb?[c]", `a*bx[c]\^-`}, "a b\x00c": {"ab"},
	} {
		args := []any{"acl", "setuser", "u", "reset"}
		for word := range strings.FieldsSeq(target.ACLRule("gcra", prefix)) {
			args = append(args, word)
		}
		if err := rdb.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		may := func(prefix, client, name string) bool {
			key, err := limiter.Key(prefix, client, name)
			if err != nil {
				t.Fatal(err)
			}
			said, err := rdb.Do(t.Context(), "acl", "dryrun", "u", "get", key).Text()
			if err != nil {
				t.Fatal(err)
			}
			return said == "OK"
		}
		for _, client := range []string{"a", "}", "}:gcra", "a{b}c", "\xff\x00\n*"} {
			if !may(prefix, client, "gcra") {
				t.Errorf("%q under %q is out of reach", client, prefix)
			}
			if may(prefix, client, "token-bucket") {
				t.Errorf("%q under %q reaches another limiter", client, prefix)
			}
			for _, other := range others {
				if may(other, client, "gcra") {
					t.Errorf("%q reaches the prefix %q", prefix, other)
				}
			}
		}
	}
}
