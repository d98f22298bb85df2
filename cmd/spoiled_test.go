package cmd_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/scripts"
)

// spoiled are the scripts with one thing wrong each, and what a race says of it.
var spoiled = []struct{ name, script, right, wrong, says string }{
	{"remaining", "gcra", "return {allowed, B - used,", "return {allowed, B - used + 1 - allowed,", "where the rule says"},
	{"retry", "fixed-window", "0, W - e, pull", "0, W - e - 1, pull", "where the rule says"},
	{"limit", "sliding-log", "elseif count + n > L then", "elseif count + n > L + 1 then", "where the rule says"},
	{"generous", "sliding-log", "return {allowed,", "if t % 97 == 0 then allowed, retry = 1, 0 end return {allowed,",
		"where the rule says"},
	{"no-ttl", "token-bucket", "redis.call('PEXPIRE', KEYS[1]", "redis.call('EXISTS', KEYS[1]", "without a TTL"},
	{"fast", "gcra", "t = now[1] * 1000000 + now[2]", "t = (now[1] * 1000000 + now[2]) * 2", "clock did not show"},
	{"ahead", "token-bucket", "t = now[1] * 1000000 +", "t = now[1] * 1000000 + 3600000000 +", "clock did not show"},
	{"coarse", "sliding-counter", "t = now[1] * 1000000 + now[2]", "t = now[1] * 1000000", "clock did not show"},
}

// spoiledEntries are catalogue entries that claim to be atomic under the rule of the script they were made from.
func spoiledEntries() (entries []target.Entry) {
	for _, s := range spoiled {
		entry, err := target.Find(target.Catalogue(), s.script)
		if err != nil {
			panic(err)
		}
		source, _ := scripts.Source(s.script)
		if !strings.Contains(source, s.right) {
			panic(s.name + ": the script has no " + s.right)
		}
		source, name := strings.Replace(source, s.right, s.wrong, 1), s.name
		entry.Name = name
		entry.New = func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
			return limiter.NewScript(rdb, name, source, l, opts...)
		}
		entries = append(entries, entry)
	}
	return entries
}

// TestSpoiledScriptsAreCaught races each: all claim to be atomic, and none is.
func TestSpoiledScriptsAreCaught(t *testing.T) {
	args := []string{"race", "--procs", "4", "--limit", "50", "--format", "json"}
	for _, s := range spoiled {
		args = append(args, s.name)
	}
	c, stdout, stderr := withOutput(t, args...)
	c.Args[0] = "rlctl-spoiled"
	c.Run()
	if code := c.ProcessState.ExitCode(); code != 1 {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	r := parseRace(t, stdout.Bytes())
	for i, row := range r.Results {
		if want := spoiled[i]; row.Verdict != "broken" || row.Expected || !strings.Contains(row.Rounds[0].Reason, want.says) {
			t.Errorf("%s: %s, expected %v: %s", row.Limiter, row.Verdict, row.Expected, row.Rounds[0].Reason)
		}
	}
	if len(r.Results) != len(spoiled) || r.Verdict != "broken" {
		t.Errorf("%d of %d raced: %s", len(r.Results), len(spoiled), r.Verdict)
	}
}
