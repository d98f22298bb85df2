package cmd_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
)

// memJSON is what the tests read of a result.
type memJSON struct {
	Results []struct {
		Limiter     string
		Limit, Keys int64
		Apart       *float64
	}
	Verdict string
	Partial bool
}

func parseMem(t *testing.T, out []byte) memJSON { return parse[memJSON](t, out) }

// TestEveryLimiterIsMeasured: the whole catalogue, in two ways that agree.
func TestEveryLimiterIsMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures, which the race detector's part has no time for")
	}
	c, stdout, stderr := withOutput(t, "mem", "--keys", "1500", "--limits", "10", "--format", "json")
	if err := c.Run(); err != nil {
		t.Fatal(err, stderr)
	}
	r := parseMem(t, stdout.Bytes())
	if len(r.Results) != 14 || r.Verdict != "held" || r.Partial {
		t.Errorf("%s%s", stdout, stderr)
	}
	for _, row := range r.Results {
		if row.Keys != 1500 || row.Apart == nil || *row.Apart > 0.1 { // a tenth is what connections' buffers may make here
			t.Errorf("%+v", row)
		}
	}
}

func TestAnInterruptedMemPrintsWhatThereIs(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})
	defer rdb.Close()
	c, stdout, stderr := withOutput(t, "mem", "gcra", "sliding-log", "-s", s.Socket(), "--keys", "20000", "--limits", "1,100",
		"--seed", "abc", "--format", "json")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "a key of the second limiter", func() bool {
		return strings.HasSuffix(rdb.RandomKey(t.Context()).Val(), ":sliding-log")
	})
	c.Process.Signal(syscall.SIGINT)
	c.Wait()
	if code := c.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if r := parseMem(t, stdout.Bytes()); !r.Partial || r.Verdict != "inconclusive" || len(r.Results) < 2 || r.Results[0].Limiter != "gcra" {
		t.Errorf("%s%s", stdout, stderr)
	}
	if left := rdb.DBSize(t.Context()).Val(); left != 0 {
		t.Errorf("%d keys left behind: %s", left, stderr)
	}
}
