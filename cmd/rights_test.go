package cmd_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/scripts"
)

// TestTheLeastRights: a user with just the rights that are told for a limiter can check with it, or hold a slot, and no
// other limiter's keys; with one right less it is told so, as a matter of rights, or did not need it this time.
func TestTheLeastRights(t *testing.T) {
	t.Parallel()
	s := redisdtest.Start(t, redisd.Options{})
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})
	defer rdb.Close()
	as := func(rule []string, args ...string) (int, string) {
		words := []any{"ACL", "SETUSER", "least", "reset", "on", ">pw"}
		for _, word := range rule {
			words = append(words, word)
		}
		for _, command := range [][]any{words, {"SCRIPT", "FLUSH"}, {"FLUSHALL"}} {
			if err := rdb.Do(t.Context(), command...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		code, _, stderr := run(args)
		_, stderr, _ = strings.Cut(stderr, "\n") // the warning of a password in --url
		return code, stderr
	}
	url := "unix://least:pw@" + s.Socket()
	for _, name := range append(scripts.Limiters(), target.Semaphore) {
		args := []string{"check", "a", "--limiter", name, "-u", url}
		if name == target.Semaphore {
			args = []string{"hold", "a", "-u", url, "--", "true"}
		}
		rule := strings.Fields(target.ACLRule(name, "ratelimit"))
		if code, stderr := as(rule, args...); code != 0 || stderr != "" {
			t.Errorf("%s with %v: exit code %d: %s", name, rule, code, stderr)
		}
		if code, _ := as(rule, "check", "a", "-u", url, "--limiter", other(name)); code != 77 {
			t.Errorf("%s: with its rights another limiter ends with %d", name, code)
		}
		always := []string{"~" + target.KeyPattern(name, "ratelimit"), "+evalsha", "+script|load", "+time"}
		for i, right := range rule {
			if right == "resetkeys" || right == "-@all" {
				continue
			}
			code, stderr := as(slices.Delete(slices.Clone(rule), i, i+1), args...)
			told := code == 77 && strings.Contains(stderr, " refused: ") && strings.Contains(stderr, "log in: ")
			if !told && (code != 0 || slices.Contains(always, right)) {
				t.Errorf("%s without %s: exit code %d: %s", name, right, code, stderr)
			}
		}
	}
}

func other(name string) string {
	if name == "gcra" {
		return "token-bucket"
	}
	return "gcra"
}
