package experiment

import (
	"strings"
	"testing"

	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
)

func assertedRows() []BenchRow {
	row := func(limiter, path string, p99, script *float64) BenchRow {
		return BenchRow{Limiter: limiter, Path: path, Ops: 1000, BenchFigures: BenchFigures{P99: p99, Script: script}}
	}
	refused := row("naive-log", "denied", nil, nil)
	refused.Unmeasured = "it cannot be pipelined"
	return []BenchRow{
		row(target.FloorEmpty, "allowed", new(9999.0), new(1.0)), row("gcra", "allowed", new(100.0), new(6.0)),
		row("gcra", "denied", new(80.0), nil), refused,
	}
}

func TestAssertions(t *testing.T) {
	for text, want := range map[string]replay.Verdict{
		"gcra:p99_us<101":                       replay.Held,
		"gcra:p99_us<100":                       replay.Broken,
		"gcra:p99_us<=100":                      replay.Held,
		"gcra/denied:p99_us<100":                replay.Held,
		"gcra/denied:p99_us>80":                 replay.Broken,
		"gcra/denied: p99_us >= 8e1":            replay.Held,
		"gcra:script_us<7":                      replay.Inconclusive, // not of the denied path
		"gcra:script_us<5":                      replay.Broken,       // whatever was not measured
		"gcra/allowed:script_us<7":              replay.Held,
		"(empty script):p99_us<5":               replay.Broken,
		"gcra:ops>999":                          replay.Held,
		"gcra:errors<1":                         replay.Held,
		"naive-log/denied:ops<1":                replay.Inconclusive, // its 1000 count for nothing
		"p99_us<5000":                           replay.Inconclusive, // all limiters, one of them refused; no floor
		"p99_us<50":                             replay.Broken,
		"sliding-log:p99_us<5000":               replay.Inconclusive, // no such row
		"gcra/allowed:floor_ratio<3":            replay.Inconclusive,
		"(empty script)/allowed:script_us<=1.0": replay.Held,
	} {
		a, err := parseAssertion(text)
		if err != nil {
			t.Error(err)
			continue
		}
		c := a.check(assertedRows())
		if c.Verdict != want || c.Assert != text || c.Reason == "" {
			t.Errorf("%+v, want %s", c, want)
		}
	}
}

// TestAssertionsAgainstAnotherRow compares round by round: that all rounds of both were slow in turn tells nothing.
func TestAssertionsAgainstAnotherRow(t *testing.T) {
	row := func(limiter, path string, script ...float64) BenchRow {
		r := BenchRow{Limiter: limiter, Path: path}
		for _, v := range script {
			r.Samples = append(r.Samples, BenchFigures{Script: new(v)})
		}
		return r
	}
	rows := []BenchRow{
		row("gcra", "allowed", 5, 10, 15, 20, 25, 30), row("gcra", "denied", 4, 4, 4, 4, 4, 4),
		row("rival", "allowed", 10, 20, 30, 40, 50, 60), row("rival", "denied", 2, 2, 2, 8, 8, 8), row("slow", "allowed", 9, 9),
		row("late", "allowed", 5, 10, 15, 80, 100, 120), row("late", "denied", 20, 20, 20, 80, 80, 80),
		row("short", "allowed", 1, 1), row(target.FloorEmpty, "allowed", 2, 2, 2, 2, 2, 2),
	}
	for text, want := range map[string]replay.Verdict{
		"gcra/allowed:script_us<0.51*rival":             replay.Held,
		"gcra/allowed:script_us<=0.5*rival/allowed":     replay.Held,
		"gcra/allowed:script_us<0.49*rival":             replay.Broken,
		"gcra/denied:script_us<1*rival":                 replay.Inconclusive, // 2 and 0.5
		"gcra:script_us<3*rival":                        replay.Held,
		"late:script_us<1*rival":                        replay.Broken,       // the denied path; the allowed one tells nothing
		"gcra:ops_per_sec<3*rival":                      replay.Inconclusive, // in no row
		"gcra:script_us<0.49*rival":                     replay.Broken,       // whatever the other path
		"gcra:script_us>0.51*rival":                     replay.Broken,
		"gcra:script_us>0.49*rival":                     replay.Held,
		"gcra:script_us<1*rival":                        replay.Inconclusive, // the denied path
		"gcra/denied:script_us<=2*" + target.FloorEmpty: replay.Held,
		"gcra/denied:script_us<2*" + target.FloorEmpty:  replay.Broken,
		"gcra/denied:script_us<1*gcra/allowed":          replay.Held,
		"gcra/allowed:script_us<1*short":                replay.Inconclusive, // other rounds
		"slow/allowed:script_us<100*short":              replay.Inconclusive, // too few for an interval
		"gcra/allowed:p99_us<1*rival":                   replay.Inconclusive,
		"gcra/allowed:script_us<1*rival/mixed":          replay.Inconclusive,
	} {
		a, err := parseAssertion(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if c := a.check(rows); c.Verdict != want || c.Reason == "" {
			t.Errorf("%+v, want %s", c, want)
		}
	}
}

// What holds is shown by the row that is nearest to breaking it, whatever their order.
func TestTheNearestRowIsTold(t *testing.T) {
	row := func(path string, p99 float64) BenchRow {
		r := BenchRow{Limiter: "gcra", Path: path, BenchFigures: BenchFigures{P99: new(p99)}}
		for range 6 {
			r.Samples = append(r.Samples, BenchFigures{P99: new(p99)})
		}
		return r
	}
	rows := []BenchRow{row("mixed", 40), row("allowed", 60), row("denied", 20), row("mixed", 99)}
	rows[3].Limiter = "other"
	rows = append(rows, row("denied", 10))
	rows[4].Limiter = "rival"
	for text, want := range map[string]string{
		"gcra:p99_us<=60":              "gcra, allowed: p99_us is 60",
		"gcra:p99_us>2":                "gcra, denied: p99_us is 20",
		"gcra:p99_us<7*rival/denied":   "gcra, allowed: p99_us is 6.000 of that of rival, 6.000 to 6.000",
		"gcra:p99_us>1.5*rival/denied": "gcra, denied: p99_us is 2.000 of that of rival, 2.000 to 2.000",
		"gcra:p99_us<50":               "gcra, allowed: p99_us is 60",
	} {
		a, err := parseAssertion(text)
		if err != nil {
			t.Fatal(err)
		}
		if c := a.check(rows); c.Reason != want {
			t.Errorf("%s: %+v, want %q", text, c, want)
		}
	}
}

func TestAssertionsThatSayNothing(t *testing.T) {
	for _, text := range []string{"", "p99_us", "p99_us=5", "p99<5", "p99_us<", "p99_us<x", "p99_us<1e999", "gcra p99_us<5", "<5"} {
		if a, err := parseAssertion(text); err == nil {
			t.Errorf("%q: taken for %+v", text, a)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"sliding-log:p99_us<5", "sliding-log is not measured here"},
		{"gcra/mixed:p99_us<5", "the mixed path is not measured here"},
		{"gcra:p99_us<5*sliding-log", "sliding-log is not measured here"},
		{"gcra:p99_us<5*gcra/mixed", "the mixed path is not measured here"},
		{"lag_p99_us<5", "only a load with a --rate has a lag"},
	} {
		p := Bench{Limiters: []string{"gcra"}, Asserts: []string{c.text}}
		rows, err := p.rows(target.Catalogue())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = p.assertions(rows); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

func TestTheWorstAssertionCounts(t *testing.T) {
	for _, c := range []struct {
		verdicts []replay.Verdict
		want     replay.Verdict
	}{
		{nil, replay.Held},
		{[]replay.Verdict{replay.Held, replay.Held}, replay.Held},
		{[]replay.Verdict{replay.Held, replay.Inconclusive}, replay.Inconclusive},
		{[]replay.Verdict{replay.Inconclusive, replay.Broken, replay.Held}, replay.Broken},
	} {
		r := BenchResult{}
		for _, v := range c.verdicts {
			r.Checks = append(r.Checks, BenchCheck{Verdict: v})
		}
		if got := r.Verdict(); got != c.want {
			t.Errorf("%v: %s, want %s", c.verdicts, got, c.want)
		}
	}
}
