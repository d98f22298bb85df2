package experiment

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/rlctl/rlctl/pkg/replay"
)

func TestTheGeneratorsVerdict(t *testing.T) {
	for _, c := range []struct {
		ours []float64 // of 100
		want replay.Verdict
	}{
		{[]float64{96, 97, 98, 99, 100, 101}, replay.Held},
		{[]float64{94, 97, 98, 99, 100, 101}, replay.Inconclusive},
		{[]float64{80, 85, 90, 91, 92, 94}, replay.Broken},
		{[]float64{99, 99, 99}, replay.Inconclusive},
	} {
		row := GeneratorRow{Pipeline: 1, Wanted: 0.95, Ours: c.ours}
		for range c.ours {
			row.Theirs = append(row.Theirs, 100)
		}
		row.conclude()
		if row.Verdict != c.want || math.Abs(*row.Ratio-0.95) > 0.2 || (row.Spread == nil) != (len(c.ours) < 6) {
			t.Errorf("%v: %+v", c.ours, row)
		}
	}
}

func TestTheGeneratorSurvivesItsJSON(t *testing.T) {
	row := GeneratorRow{Pipeline: 64, Wanted: 0.75, Ours: []float64{1, 2, 3, 4, 5, 6}, Theirs: []float64{2, 3, 4, 5, 6, 7}}
	row.conclude()
	before := &GeneratorResult{Schema: GeneratorSchema, Clients: 64, RoundUS: 1000, Results: []GeneratorRow{row}, Verdict: row.Verdict}
	want := shown(t, before.Document())
	after := &GeneratorResult{}
	if err := json.Unmarshal([]byte(want["json"]), after); err != nil {
		t.Fatal(err)
	}
	for format, text := range shown(t, after.Document()) {
		if text != want[format] {
			t.Errorf("%s:\n%s\nwas\n%s", format, text, want[format])
		}
	}
}

func TestWhatRedisBenchmarkSays(t *testing.T) {
	got, err := perSecond("\"test\",\"rps\",\"avg_latency_ms\"\n\"evalsha x 1\",\"56818.18\",\"0.9\"\n")
	if err != nil || got != 56818.18 {
		t.Error(got, err)
	}
	for _, text := range []string{"", "Error: no\n", "\"test\",\"latency\"\n\"x\",\"1\"\n"} {
		if _, err := perSecond(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
