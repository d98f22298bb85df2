package experiment

import (
	"slices"
	"strings"
	"testing"

	"github.com/rlctl/rlctl/pkg/replay"
)

// benchOf is a result of one row in which the rounds measured these calls a second and times of a script, in µs.
func benchOf(limiter string, perSecond, script []float64) *BenchResult {
	row := BenchRow{Limiter: limiter, Path: "allowed", Clients: 2, Procs: 3, Pipeline: 1, Rounds: len(perSecond)}
	for i := range perSecond {
		round := BenchFigures{OpsPerSec: &perSecond[i]}
		if i < len(script) {
			round.Script = &script[i]
		}
		row.Samples = append(row.Samples, round)
	}
	return &BenchResult{Schema: BenchSchema, Results: []BenchRow{row}}
}

func times(base []float64, factor float64) []float64 {
	out := slices.Clone(base)
	for i := range out {
		out[i] *= factor
	}
	return out
}

// rounds are six, within 2 % of each other.
var rounds = []float64{99, 100, 101, 100.5, 99.5, 100.2}

// The gate fails on what is certainly past it, holds on what certainly is not, and else does not tell.
func TestTheGate(t *testing.T) {
	wide := []float64{80, 90, 100, 110, 120, 130}
	for _, c := range []struct {
		name                string
		speed, script       []float64 // of the new bench
		oldSpeed, oldScript []float64
		allowed             float64 // below 0 is no gate
		changes             string
		verdict             replay.Verdict
	}{
		{"itself", rounds, rounds, rounds, rounds, 0.05, "~ ~", replay.Held},
		{"slower by far", times(rounds, 0.8), rounds, rounds, rounds, 0.05, "worse ~", replay.Broken},
		{"dearer by far", rounds, times(rounds, 1.2), rounds, rounds, 0.05, "~ worse", replay.Broken},
		{"faster and cheaper", times(rounds, 1.2), times(rounds, 0.8), rounds, rounds, 0.05, "better better", replay.Held},
		{"slower, and it may", times(rounds, 0.8), rounds, rounds, rounds, 0.5, "worse ~", replay.Held},
		{"slower, and nobody judges", times(rounds, 0.8), rounds, rounds, rounds, -1, "worse ~", replay.Held},
		{"just past it, perhaps", times(rounds, 0.95), rounds, rounds, rounds, 0.05, "worse ~", replay.Inconclusive},
		{"dearer, perhaps", rounds, times(rounds, 1.05), rounds, rounds, 0.05, "~ worse", replay.Inconclusive},
		{"noise", wide, rounds, rounds, rounds, 0.05, "~ ~", replay.Inconclusive},
		{"noise, and it may", wide, rounds, rounds, rounds, 0.3, "~ ~", replay.Held},
		{"broken counts before noise", wide, times(rounds, 1.2), rounds, rounds, 0.05, "~ worse", replay.Broken},
		{"too few rounds", times(rounds[:5], 0.1), rounds[:5], rounds, rounds, 0.05, "inconclusive inconclusive", replay.Inconclusive},
		{"too few rounds before", rounds, rounds, rounds[:1], rounds[:1], -1, "inconclusive inconclusive", replay.Inconclusive},
		{"nothing costs nothing", rounds, times(rounds, 0), rounds, times(rounds, 0), 0, "~ ~", replay.Inconclusive},
		{"from nothing to something", rounds, rounds, rounds, times(rounds, 0), 0.5, "~ inconclusive", replay.Inconclusive},
		{"a figure that is gone", rounds, nil, rounds, rounds, 0.05, "~", replay.Inconclusive},
		{"a figure that is gone, and nobody judges", rounds, nil, rounds, rounds, -1, "~", replay.Held},
		{"a new figure", rounds, rounds, rounds, nil, 0.05, "~", replay.Held},
	} {
		p := Compare{FailOver: &c.allowed}
		if c.allowed < 0 {
			p.FailOver = nil
		}
		got, err := p.Run(benchOf("gcra", c.oldSpeed, c.oldScript), benchOf("gcra", c.speed, c.script))
		if err != nil {
			t.Fatal(err)
		}
		var changes []string
		for _, row := range got.Results {
			changes = append(changes, string(row.Change))
		}
		if strings.Join(changes, " ") != c.changes || got.Verdict != c.verdict {
			t.Errorf("%s: %v, %s; want %s, %s", c.name, changes, got.Verdict, c.changes, c.verdict)
		}
	}
}

// What only one bench has is said, and so is what else may be the reason of a change.
func TestWhatCannotBeComparedIsSaid(t *testing.T) {
	old, fresh := benchOf("gcra", rounds, rounds), benchOf("gcra", rounds, rounds)
	old.Results = append(old.Results, benchOf("sliding-log", rounds, rounds).Results...)
	old.Results[0].Samples[0].P99 = new(1.0)
	fresh.Results = append(fresh.Results, benchOf("new-one", rounds, rounds).Results...)
	fresh.Env.CPU, fresh.Env.Redis.Version, fresh.Config.Keys, fresh.Config.Seed, fresh.Partial = new("abacus"), "8", 7, "other", true
	old.Results[0].ClientBound = true
	c, err := Compare{}.Run(old, fresh)
	if err != nil {
		t.Fatal(err)
	}
	text := shown(t, c.Document())["table"]
	for _, want := range []string{
		"only in OLD: p99_us of gcra, allowed", "only in OLD: sliding-log, allowed", "only in NEW: new-one, allowed",
		"DIFFERENT machine: cpu was <nil>, is abacus", "DIFFERENT redis: version was , is 8", "DIFFERENT load: keys was 0, is 7",
		"DIFFERENT NEW is partial", "DIFFERENT OLD was limited by the client in 1 row",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not said:\n%s", want, text)
		}
	}
	if len(c.Differences) != 5 || len(c.Missing) != 3 {
		t.Errorf("%q, %q", c.Differences, c.Missing)
	}
	if c, _ := (Compare{}).Run(old, &BenchResult{}); c.Verdict != replay.Inconclusive || !strings.Contains(shown(t, c.Document())["table"], "nothing is in both") {
		t.Errorf("an empty bench: %+v", c)
	}
}

func TestOnlyMeasuredFiguresAreCompared(t *testing.T) {
	for name, good := range map[string]bool{"p999_us": true, "ping_p99_us": true, "client_cpu_share": false, "P99": false, "": false} {
		err := Compare{Figures: []string{name}}.Validate()
		if (err == nil) != good || err != nil && !strings.HasPrefix(err.Error(), "--figure: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
