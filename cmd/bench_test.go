package cmd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
)

// benchJSON is what the tests read of a result.
type benchJSON struct {
	Results []benchRow
	Checks  []struct {
		Assert string
		Held   bool
		Reason string
	}
	Partial bool
}

type benchRow struct {
	Limiter    string
	Path       string
	Ops        int64
	Errors     int64
	Unmeasured string
	Rounds     int
	PingP99    *float64 `json:"ping_p99_us"`
	P50        *float64 `json:"p50_us"`
	P99        *float64 `json:"p99_us"`
	ServiceP50 *float64 `json:"service_p50_us"`
	ServiceP99 *float64 `json:"service_p99_us"`
	Script     *float64 `json:"script_us"`
	Commands   *float64
	WireBytes  *float64 `json:"wire_bytes"`
	Allocs     *float64
	FloorRatio *float64 `json:"floor_ratio"`
	Spread     map[string][2]float64
	OpsPerSec  *float64 `json:"ops_per_sec"`
}

func parseBench(t *testing.T, out string) (r benchJSON) {
	t.Helper()
	for _, fault := range validate(t, out) {
		t.Errorf("%v in %s", fault, out)
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return r
}

func (r benchJSON) row(t *testing.T, limiter, path string) benchRow {
	t.Helper()
	for _, row := range r.Results {
		if row.Limiter == limiter && row.Path == path {
			return row
		}
	}
	t.Fatalf("no row of %s, %s", limiter, path)
	return benchRow{}
}

// TestABenchCountsWhatAScriptDoes checks the figures that do not depend on the machine.
func TestABenchCountsWhatAScriptDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures, which the race detector's part has no time for")
	}
	_, stdout, stderr := finish(t, "bench", "gcra", "naive-counter", "local-bucket", "--duration", "60ms", "--clients", "4", "--format", "json")
	r := parseBench(t, stdout)
	if len(r.Results) != 5+2*3 {
		t.Fatalf("%d rows\n%s", len(r.Results), stderr)
	}
	for _, c := range []struct {
		limiter, path string
		commands      float64
	}{
		{"(empty script)", "allowed", 0}, {"(TIME, 5 integers)", "allowed", 1}, {"(INCR)", "allowed", 1},
		{"(empty script, EVAL)", "allowed", 0}, {"(gcra, EVAL)", "allowed", 3},
		{"gcra", "allowed", 3}, {"gcra", "denied", 2}, // TIME, GET, and SET where it allows
		{"naive-counter", "allowed", 5}, {"naive-counter", "denied", 1}, // GET, and MULTI, INCRBY, PEXPIRE, EXEC
		{"local-bucket", "allowed", 0},
	} {
		row := r.row(t, c.limiter, c.path)
		if row.Unmeasured != "" || row.Ops == 0 || row.Errors != 0 || row.Rounds != 6 {
			t.Errorf("%+v", row)
			continue
		}
		if got := *row.Commands; got < c.commands-0.1 || got > c.commands+0.1 {
			t.Errorf("%s, %s: %.2f commands a call, want %.0f", c.limiter, c.path, got, c.commands)
		}
		if got := row.Spread["ops_per_sec"]; got[0] <= 0 || got[0] > *row.OpsPerSec || got[1] < *row.OpsPerSec {
			t.Errorf("%s, %s: %v calls a second, interval %v", c.limiter, c.path, *row.OpsPerSec, got)
		}
	}
	if bare, eval := r.row(t, "gcra", "allowed"), r.row(t, "(gcra, EVAL)", "allowed"); *eval.WireBytes < 10**bare.WireBytes {
		t.Errorf("EVAL sends the source, and took %.0f bytes a call; EVALSHA %.0f", *eval.WireBytes, *bare.WireBytes)
	}
	if incr := r.row(t, "(INCR)", "allowed"); *incr.WireBytes < 60 || *incr.WireBytes > 90 {
		t.Errorf("INCR of a key of some 40 bytes took %.1f bytes a call", *incr.WireBytes)
	}
}

// benching starts a bench on a server of the test's own.
func benching(t *testing.T, args ...string) (c *exec.Cmd, stdout, stderr *bytes.Buffer, rdb *redis.Client) {
	t.Helper()
	s := redisdtest.Start(t, redisd.Options{})
	rdb = redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})
	t.Cleanup(func() { rdb.Close() })
	args = append([]string{"bench", "-s", s.Socket(), "--seed", "abc", "--format", "json"}, args...)
	c, stdout, stderr = withOutput(t, args...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, stdout, stderr, rdb
}

// measured is the number of the job that measures gcra in its first round: each of the five floors before it had a
// warm-up and a round, and gcra its warm-up.
const measured = 12

// underMeasure waits until gcra's measured round is under way: its only key has gone on to its second name.
func underMeasure(t *testing.T, rdb *redis.Client) {
	t.Helper()
	key := fmt.Sprintf("ratelimit:{rlctl-abc-%d-0-1}:gcra", measured)
	until(t, key, func() bool { return rdb.Exists(t.Context(), key).Val() == 1 })
}

// TestAPauseShowsInResponseTimes: a server that stands still for 400 ms makes all requests wait that were due meanwhile,
// and only those callers' calls long that were under way.
func TestAPauseShowsInResponseTimes(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures, which the race detector's part has no time for")
	}
	c, stdout, stderr, rdb := benching(t, "gcra", "--path", "allowed", "--rate", "2000", "--clients", "8", "--keys", "1",
		"--limit", "50", "--rounds", "1", "--duration", "1s", "--warmup", "20ms")
	underMeasure(t, rdb)
	if err := rdb.Do(t.Context(), "CLIENT", "PAUSE", "400", "ALL").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	row := parseBench(t, stdout.String()).row(t, "gcra", "allowed")
	if *row.P99 < 100_000 || *row.ServiceP50 > *row.P99/10 {
		t.Errorf("response p99 %.0f us, service p50 %.0f us", *row.P99, *row.ServiceP50)
	}
	if calm := parseBench(t, stdout.String()).row(t, "(INCR)", "allowed"); *calm.ServiceP50 > *row.P99/10 {
		t.Errorf("service p50 of the floor, which was not paused: %.0f us", *calm.ServiceP50)
	}
	if row.Ops != 2000 || row.Errors != 0 {
		t.Errorf("%d calls, %d errors; 2000 were due", row.Ops, row.Errors)
	}
}

func TestAnInterruptedBenchPrintsWhatThereIs(t *testing.T) {
	c, stdout, stderr, rdb := benching(t, "gcra", "naive-log", "sliding-log", "--path", "allowed", "--clients", "4", "--keys", "1",
		"--rounds", "1", "--duration", "400ms", "--warmup", "10ms")
	underMeasure(t, rdb)
	c.Process.Signal(syscall.SIGINT)
	c.Wait()
	if got := c.ProcessState.ExitCode(); got != 130 {
		t.Errorf("exit code %d: %s", got, stderr)
	}
	r := parseBench(t, stdout.String())
	if row := r.row(t, "gcra", "allowed"); !r.Partial || row.Ops == 0 || *row.Script <= 0 {
		t.Errorf("%s", stdout)
	}
	if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("left behind: %v", keys)
	}
}

// TestABenchWithTheLeastRights measures what it may, and says of the rest why not.
func TestABenchWithTheLeastRights(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})
	defer rdb.Close()
	rights := []any{"acl", "setuser", "least", "on", ">secret", "~ratelimit:*", "-@all"}
	for _, right := range strings.Fields("+evalsha +script|load +time +get +set +del") {
		rights = append(rights, right)
	}
	if err := rdb.Do(t.Context(), rights...).Err(); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := finish(t, "bench", "gcra", "sliding-log", "--path", "allowed", "--duration", "20ms", "--rounds", "1", "--clients", "2",
		"--format", "json", "-u", "unix://least:secret@"+s.Socket(), "--assert", "gcra:ops>0")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	r := parseBench(t, stdout)
	row := r.row(t, "gcra", "allowed")
	if row.Ops == 0 || row.Errors != 0 || row.P50 == nil || row.Script != nil || row.WireBytes != nil || row.PingP99 != nil {
		t.Errorf("%+v", row)
	}
	for _, name := range []string{"(empty script, EVAL)", "(INCR)", "sliding-log"} {
		if row := r.row(t, name, "allowed"); row.Unmeasured == "" || row.P50 != nil {
			t.Errorf("%+v", row)
		}
	}
}

// TestTheGeneratorIsMeasured runs it shortly: what ratio it reaches on a busy machine is not for a test to say.
func TestTheGeneratorIsMeasured(t *testing.T) {
	if _, err := exec.LookPath("redis-benchmark"); err != nil {
		t.Skip("no redis-benchmark is installed")
	}
	code, stdout, stderr := finish(t, "generator", "--pairs", "1", "--round", "20ms", "--format", "json")
	if code != 3 {
		t.Errorf("exit code %d, want 3: one pair has no interval; %s", code, stderr)
	}
	for _, fault := range validate(t, stdout) {
		t.Errorf("%v in %s", fault, stdout)
	}
	var r struct {
		Results []struct{ Ratio *float64 }
		Partial bool
	}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || r.Partial || len(r.Results) != 2 || *r.Results[0].Ratio <= 0 {
		t.Errorf("%v, %s", err, stdout)
	}
}
