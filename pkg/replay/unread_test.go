package replay

import (
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// TestAClockThatWasNeverRead: of a history from elsewhere only our own clock is known. What took two hours is not accused
// of having been at once, and what was at once is, wherever in a window that may have been.
func TestAClockThatWasNeverRead(t *testing.T) {
	for name, c := range map[string]struct {
		rule  model.Rule
		every time.Duration
		want  Verdict
	}{
		"log, spread":      {model.SlidingLog(), 10 * time.Minute, Inconclusive},
		"log, at once":     {model.SlidingLog(), time.Millisecond, Broken},
		"window, spread":   {model.FixedWindow(), 10 * time.Minute, Inconclusive},
		"window, an edge":  {model.FixedWindow(), 100 * time.Millisecond, Inconclusive},
		"window, too many": {model.FixedWindow(), time.Millisecond, Broken},
		"bucket, spread":   {model.TokenBucket(), 10 * time.Minute, Inconclusive},
		"bucket, at once":  {model.TokenBucket(), time.Millisecond, Broken},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 12
			if name == "window, too many" { // more than both sides of an edge admit
				calls = 21
			}
			var ops []history.Op
			for i := range calls {
				op := history.Op{Client: i, Key: "k", Outcome: history.Decided, Decision: limiter.Decision{Allowed: true}}
				op.Request = model.Request{Limit: limiter.Limit{Events: 10, Window: time.Hour}, Cost: 1}
				op.Call = int64(time.Hour) + int64(i)*int64(c.every)
				op.Return = op.Call + 1000
				ops = append(ops, op)
			}
			if j := JudgeCourse(ops, c.rule, Course{}); j.Verdict != c.want {
				t.Errorf("%s: %s, want %s", j.Verdict, j.Reason, c.want)
			}
		})
	}
}

// TestAReplyThatContradictsItselfIsBroken also beside a lost call, which would excuse what another state can explain.
func TestAReplyThatContradictsItselfIsBroken(t *testing.T) {
	for name, spoil := range map[string]func(d *limiter.Decision){
		"denied, and allowed":    func(d *limiter.Decision) { d.Allowed = true },
		"more than the capacity": func(d *limiter.Decision) { d.Remaining = limit.Events + 1 },
		"less than nothing":      func(d *limiter.Decision) { d.Remaining = -1 },
	} {
		ops := truthful(model.GCRA(), limit, 400, 1)
		at := find(ops, history.Op.Denied)
		ops[at-1].Outcome, ops[at-1].Decision = history.Unknown, limiter.Decision{}
		if j := JudgeCourse(ops, model.GCRA(), Course{}); j.Verdict == Broken {
			t.Fatalf("%s: before: %s", name, j.Reason)
		}
		spoil(&ops[at].Decision)
		if j := JudgeCourse(ops, model.GCRA(), Course{}); j.Verdict != Broken {
			t.Errorf("%s: %s: %s", name, j.Verdict, j.Reason)
		}
	}
}
