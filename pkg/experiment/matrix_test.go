package experiment_test

import (
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/replay"
)

// Only what was run as a whole, and passed, has held.
func TestAMatrixHoldsOnlyWhereAllWasRun(t *testing.T) {
	held := func() experiment.MatrixRow {
		return experiment.MatrixRow{
			Tests: experiment.MatrixTests{Passed: 100}, Race: &experiment.MatrixRace{Atomic: 6, AtomicHeld: 6, Verdict: replay.Held},
		}
	}
	rows := []experiment.MatrixRow{held().Judged()}
	if rows[0].Verdict != replay.Held {
		t.Errorf("%+v", rows[0])
	}
	for what, c := range map[string]struct {
		change func(*experiment.MatrixRow)
		want   replay.Verdict
	}{
		"a test failed":          {func(r *experiment.MatrixRow) { r.Tests.Failed = 1 }, replay.Broken},
		"a limiter broke":        {func(r *experiment.MatrixRow) { r.Race.Verdict = replay.Broken }, replay.Broken},
		"failed, no race":        {func(r *experiment.MatrixRow) { r.Tests.Failed, r.Race = 1, nil }, replay.Broken},
		"a race did not tell":    {func(r *experiment.MatrixRow) { r.Race.Verdict = replay.Inconclusive }, replay.Inconclusive},
		"no race":                {func(r *experiment.MatrixRow) { r.Race = nil }, replay.Inconclusive},
		"not had":                {func(r *experiment.MatrixRow) { r.NotRun = "no such package" }, replay.Inconclusive},
		"no test":                {func(r *experiment.MatrixRow) { r.Tests.Passed = 0 }, replay.Inconclusive},
		"tests that did not run": {func(r *experiment.MatrixRow) { r.Tests.NotRun = "no clock" }, replay.Inconclusive},
	} {
		row := held()
		c.change(&row)
		if row = row.Judged(); row.Verdict != c.want {
			t.Errorf("%s: %s", what, row.Verdict)
		}
		for _, order := range [][]experiment.MatrixRow{{row, rows[0]}, {rows[0], row}} {
			if got := experiment.NewMatrix(experiment.Provenance{}, order, time.Second); got.Verdict != c.want {
				t.Errorf("%s, beside one that held: %s", what, got.Verdict)
			}
		}
	}
}
