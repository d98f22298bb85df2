package cmd_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/scripts"
)

// spoiled claims to be sound and is not: its keys have no end. All that can be wrong with a limiter, and what catches it,
// is in testdata/mutants.
func spoiled() target.Entry {
	entry, err := target.Find(target.Catalogue(), "token-bucket")
	if err != nil {
		panic(err)
	}
	source, _ := scripts.Source("token-bucket")
	source = strings.Replace(source, "call('PEXPIRE', key", "call('EXISTS', key", 1)
	entry.Name = "spoiled"
	entry.New = func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
		return limiter.NewScript(rdb, "spoiled", source, l, opts...)
	}
	return entry
}

// TestABrokenLimiterIsExitOne: it is nothing that the catalogue knows to be racy.
func TestABrokenLimiterIsExitOne(t *testing.T) {
	for _, args := range [][]string{{"race", "spoiled", "gcra", "--procs", "4", "--limit", "50"}, {"prove", "spoiled", "gcra"}} {
		c, stdout, stderr := withOutput(t, append(args, "--format", "json")...)
		c.Args[0] = "rlctl-spoiled"
		c.Run()
		if code := c.ProcessState.ExitCode(); code != 1 {
			t.Fatalf("%v: exit code %d: %s%s", args, code, stdout, stderr)
		}
		r := parseRace(t, stdout.Bytes())
		for _, row := range r.Results {
			if broken := row.Verdict == "broken"; broken != (row.Limiter == "spoiled") || row.Expected == broken {
				t.Errorf("%v: %s is %s, expected %v", args, row.Limiter, row.Verdict, row.Expected)
			}
		}
		if r.Verdict != "broken" || len(r.Results) < 2 {
			t.Errorf("%v: %d rows, %s", args, len(r.Results), r.Verdict)
		}
	}
}
