package experiment

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
)

func stressed(d time.Duration, faults ...string) *stressing {
	return &stressing{
		Stress: Stress{Procs: 3, Clients: 1, Keys: 1, Duration: d, Faults: faults, Limit: limiter.Limit{Events: 5, Window: 100 * time.Millisecond}},
		srv:    &server{kept: &redisd.Kept{}}, random: rand.New(rand.NewPCG(1, 0)),
	}
}

func entry(t *testing.T, name string) target.Entry {
	t.Helper()
	e, err := target.Find(target.Catalogue(), name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestFaultsAreSpreadOverTheRun: all of the table that can be had, in the middle of the run, the same again for one seed.
func TestFaultsAreSpreadOverTheRun(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 5 * time.Second, time.Minute} {
		plan := stressed(d).planFaults(entry(t, "gcra"))
		count, last := map[string]int{}, time.Duration(0)
		for _, f := range plan {
			count[f.name]++
			if f.at < last || f.at > d {
				t.Errorf("%v: %s at %v after %v", d, f.name, f.at, last)
			}
			last = f.at
		}
		for _, name := range FaultNames(false) {
			want := name != "clock-step" // there is no clock here
			if (count[name] > 0) != want || name == faultWorkerKill && count[name] != 1 {
				t.Errorf("%v: %s %d times", d, name, count[name])
			}
		}
		again := stressed(d).planFaults(entry(t, "gcra"))
		if !slices.EqualFunc(plan, again, func(a, b plannedFault) bool { return a.name == b.name }) {
			t.Errorf("%v: another plan for the same seed", d)
		}
	}
	if plan := stressed(time.Minute, "reply-cut").planFaults(entry(t, "local-bucket")); len(plan) != 0 {
		t.Errorf("replies of a limiter that asks nobody: %+v", plan)
	}
}

// TestAFaultWithoutTrafficDoesNotCount: only one that some call met, and that hit what it was meant for.
func TestAFaultWithoutTrafficDoesNotCount(t *testing.T) {
	ops := []history.Op{{Call: 100, Return: 200}, {Call: 300}}
	for _, c := range []struct {
		from, to, hits int64
		problem        string
		want           bool
	}{
		{0, 99, 1, "", false}, {0, 100, 1, "", true}, {150, 160, 1, "", true}, {200, 210, 1, "", true}, {201, 299, 1, "", false},
		{900, 901, 1, "", true}, {150, 160, 0, "", false}, {150, 160, 1, "no", false},
	} {
		faults := []StressFault{{Fault: "f", Hits: c.hits, Problem: c.problem, from: c.from, to: c.to}}
		if meet(faults, ops); faults[0].Applied != c.want {
			t.Errorf("from %d to %d, %d hits, problem %q: %v", c.from, c.to, c.hits, c.problem, faults[0].Applied)
		}
	}
}

func TestBrokenTakesPrecedence(t *testing.T) {
	for _, c := range []struct {
		verdicts []replay.Verdict
		want     replay.Verdict
		reason   string
	}{
		{[]replay.Verdict{replay.Held, replay.Inconclusive, replay.Broken, replay.Inconclusive}, replay.Broken, "c"},
		{[]replay.Verdict{replay.Held, replay.Inconclusive, replay.Inconclusive}, replay.Inconclusive, "b"},
		{[]replay.Verdict{replay.Held, replay.Held}, replay.Held, "a"},
	} {
		row := ProveRow{Verdict: replay.Held}
		for i, v := range c.verdicts {
			row.worsen(v, string(rune('a'+i)))
		}
		if row.Verdict != c.want || row.Reason != c.reason {
			t.Errorf("%v: %s %q, want %s %q", c.verdicts, row.Verdict, row.Reason, c.want, c.reason)
		}
	}
}

// TestUnknownCallsEnd: a second after they were given up, or their process was killed, while the server answers.
func TestUnknownCallsEnd(t *testing.T) {
	second := time.Second.Nanoseconds()
	run := stressRun{faults: []StressFault{{Fault: faultWorkerKill, to: 5 * second}}}
	for i := range int64(10) {
		run.course.Readings = append(run.course.Readings, history.Reading{Before: i * second, After: i*second + 7})
	}
	run.Ops = []history.Op{
		{Outcome: history.Unknown, Return: 2*second + 1}, {Outcome: history.Unknown}, {Outcome: history.Decided, Return: 2 * second},
		{Outcome: history.Unknown, Return: 9 * second},
	}
	run.bound()
	var got []int64
	for _, op := range run.Ops {
		got = append(got, op.Until)
	}
	if want := []int64{4*second + 7, 7*second + 7, 0, 0}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestATTLIsJudgedOnceWrittenOnTheClock: a step makes one longer for which nobody is to blame, until the next write.
func TestATTLIsJudgedOnceWrittenOnTheClock(t *testing.T) {
	op := func(call, cost int64, allowed bool) history.Op {
		op := history.Op{Outcome: history.Decided, Call: call, Decision: limiter.Decision{Allowed: allowed}}
		op.Request.Cost = cost
		return op
	}
	steps := []history.Step{{Before: 50, After: 60}, {Before: 10, After: 20}}
	for _, c := range []struct {
		op   history.Op
		want bool
	}{{op(70, 1, true), true}, {op(60, 1, true), false}, {op(70, 1, false), false}, {op(70, 0, true), false}} {
		if got := writtenAfter([]history.Op{c.op}, steps); got != c.want {
			t.Errorf("%+v: %v", c.op, got)
		}
	}
}
