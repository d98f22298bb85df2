package replay

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// troubled makes the history of n calls that a correct limiter leaves behind on a server that stops now and then, and of
// which many replies are lost: of calls that came in, and of calls that did not.
func troubled(rule model.Rule, n int, seed uint64) ([]history.Op, Course) {
	r := rand.New(rand.NewPCG(seed, 1))
	state, mono := rule.Fresh, int64(0)
	var c Course
	var ops []history.Op
	for i := range n {
		stalled := i%100 == 99
		mono += r.Int64N(300_000) + 1_000
		if i%40 == 0 || stalled {
			at := epoch.Add(time.Duration(mono)).Truncate(time.Microsecond)
			c.Readings = append(c.Readings, history.Reading{Server: at, Before: mono - 50_000, After: mono + 50_000})
		}
		calls := 1
		since := mono
		if stalled {
			mono += r.Int64N(3 * limit.Window.Nanoseconds())
			calls = 1 + r.IntN(6)
		}
		for k := range calls {
			mono += r.Int64N(20_000)
			at := epoch.Add(time.Duration(mono)).Truncate(time.Microsecond)
			op := history.Op{Client: k, Seq: int64(i), Outcome: history.Decided, Call: since - r.Int64N(200_000), Return: mono + r.Int64N(200_000) + 1_000}
			op.Request = model.Request{Limit: limit, Cost: 1 + int64(r.IntN(3)), ID: fmt.Sprint(i, k)}
			in := r.IntN(3) > 0
			lose := stalled && k < calls-1 || r.IntN(60) == 0
			if in || !lose {
				state, op.Decision = state.Check(at, op.Request)
				op.Decision.At = at
			}
			if lose {
				op.Outcome, op.Decision = history.Unknown, limiter.Decision{}
				op.Until = op.Return + r.Int64N(30_000_000)
			}
			ops = append(ops, op)
		}
	}
	mono += 1_000_000
	c.Readings = append(c.Readings, history.Reading{Server: epoch.Add(time.Duration(mono)).Truncate(time.Microsecond), Before: mono - 50_000, After: mono + 50_000})
	return ops, c
}

// TestTroubleAccusesNobody: the only rule whose state it may lose is a log, of which the times of lost events matter.
func TestTroubleAccusesNobody(t *testing.T) {
	for name, rule := range rules {
		var sum Judgement
		for seed := range uint64(12) {
			ops, course := troubled(rule(), 1000, seed)
			j := JudgeCourse(ops, rule(), course)
			if exact := rule().Memory != model.Events; j.Verdict == Broken || exact && (j.Verdict != Held || j.Loose > 0) {
				t.Errorf("%s, seed %d: %s: %s", name, seed, j.Verdict, j.Reason)
			}
			sum.Loose, sum.Settled, sum.Unknown = sum.Loose+j.Loose, sum.Settled+j.Settled, sum.Unknown+j.Unknown
		}
		t.Logf("%s: %d unknown, %d settled, %d loose", name, sum.Unknown, sum.Settled, sum.Loose)
		if sum.Settled == 0 || sum.Settled >= sum.Unknown {
			t.Errorf("%s: %d of %d lost calls are said to have counted", name, sum.Settled, sum.Unknown)
		}
	}
}
