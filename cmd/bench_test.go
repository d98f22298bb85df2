package cmd_test

import (
	"encoding/json"
	"testing"
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
