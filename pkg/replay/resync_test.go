package replay

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// flawed is a limiter that goes wrong at every so many requests of a kind, and tells by how many events.
type flawed func(state model.State, at time.Time, r model.Request) (model.State, limiter.Decision, int64)

// wrongAt makes the history that it leaves behind, and how many events it got wrong.
func wrongAt(rule model.Rule, n, every int, wrong flawed) (ops []history.Op, events int64) {
	r := rand.New(rand.NewPCG(1, 0))
	state, at, mono := rule.Fresh, epoch, epoch.UnixNano()
	since := 0
	for i := range n {
		passed := time.Duration(1+r.IntN(1000)) * time.Microsecond
		at, mono = at.Add(passed), mono+passed.Nanoseconds()
		op := history.Op{Client: i % 4, Seq: int64(i), Outcome: history.Decided, Call: mono - 1000, Return: mono + 1_200_000}
		op.Request = model.Request{Limit: limit, Cost: 1 + int64(r.IntN(2)), ID: fmt.Sprint(i)}
		next, d := state.Check(at, op.Request)
		since++
		if since >= every {
			if spoiled, told, by := wrong(state, at, op.Request); by > 0 {
				next, d, since = spoiled, told, 0
				events += by
			}
		}
		state, op.Decision = next, d
		op.Decision.At = at
		ops = append(ops, op)
	}
	return ops, events
}

// letsIn admits what the rule denies, and does not charge it.
func letsIn(state model.State, at time.Time, r model.Request) (model.State, limiter.Decision, int64) {
	_, d := state.Check(at, r)
	if d.Allowed {
		return nil, d, 0
	}
	d.Allowed, d.RetryAfter = true, 0
	return state, d, r.Cost
}

// turnsAway denies what the rule admits, and does not charge it.
func turnsAway(state model.State, at time.Time, r model.Request) (model.State, limiter.Decision, int64) {
	_, d := state.Check(at, r)
	if !d.Allowed {
		return nil, d, 0
	}
	d.Allowed, d.RetryAfter = false, time.Microsecond
	return state, d, r.Cost
}

// takesAndTurnsAway denies what the rule admits, and charges it all the same.
func takesAndTurnsAway(state model.State, at time.Time, r model.Request) (model.State, limiter.Decision, int64) {
	next, d := state.Check(at, r)
	if !d.Allowed {
		return nil, d, 0
	}
	d.Allowed, d.RetryAfter = false, time.Microsecond
	return next, d, r.Cost
}

// TestWhatComesAfterTheFirstDifferenceIsCounted: all of it while the model can take over what the server holds.
func TestWhatComesAfterTheFirstDifferenceIsCounted(t *testing.T) {
	for name, rule := range rules {
		for flaw, wrong := range map[string]flawed{"lets in": letsIn, "turns away": turnsAway, "takes and turns away": takesAndTurnsAway} {
			ops, events := wrongAt(rule(), 3000, 100, wrong)
			over, under := events, int64(0)
			if flaw != "lets in" {
				over, under = 0, events
			}
			j := exact(ops, rule())
			if j.Verdict != Broken || j.Overshoot != over || j.Undershoot != under || j.Replayed < 2500 || events < 20 {
				t.Errorf("%s that %s: %s: %s, %d over and %d under of %d, %d replayed", name, flaw, j.Verdict, j.Reason, j.Overshoot, j.Undershoot, events, j.Replayed)
			}
			if ops, _ := wrongAt(rule(), 3000, 4000, wrong); exact(ops, rule()).Verdict != Held {
				t.Errorf("%s that never %s: %s", name, flaw, exact(ops, rule()).Reason)
			}
		}
	}
}

// TestAStateThatNobodyKnowsIsFoundAgain: a server that forgot its key is followed again two windows later, and a flaw
// after that is counted.
func TestAStateThatNobodyKnowsIsFoundAgain(t *testing.T) {
	forgets := func(fresh model.State) flawed {
		return func(state model.State, at time.Time, r model.Request) (model.State, limiter.Decision, int64) {
			if _, d := state.Check(at, r); d.Allowed {
				return nil, d, 0
			}
			next, d := fresh.Check(at, r)
			return next, d, r.Cost
		}
	}
	for name, rule := range rules {
		ops, events := wrongAt(rule(), 3000, 1000, forgets(rule().Fresh))
		j := exact(ops, rule())
		if events < 2 || j.Verdict != Broken || j.Overshoot < events || j.Undershoot != 0 || j.Replayed < 2500 {
			t.Errorf("%s: %s: %s, %d over of %d, %d under, %d replayed", name, j.Verdict, j.Reason, j.Overshoot, events, j.Undershoot, j.Replayed)
		}
	}
}

// TestALimiterThatIsAlwaysWrongIsJudgedInTime: its state is looked for ever more seldom.
func TestALimiterThatIsAlwaysWrongIsJudgedInTime(t *testing.T) {
	if testing.Short() {
		t.Skip("a promise of seconds is not measured under the race detector, nor in haste")
	}
	for name, rule := range rules {
		for every, wrong := range map[int]flawed{1: turnsAway, 12: turnsAway, 40: letsIn} {
			ops, _ := wrongAt(rule(), 100_000, every, wrong) // a million is promised within 2 s
			runtime.GC()
			start := time.Now()
			j := exact(ops, rule())
			took := time.Since(start)
			t.Logf("%s, one in %d: %v, %d replayed, %d over, %d under", name, every, took, j.Replayed, j.Overshoot, j.Undershoot)
			if j.Verdict != Broken || took > 2*time.Second {
				t.Errorf("%s, one in %d: %s: %s, %v", name, every, j.Verdict, j.Reason, took)
			}
		}
	}
}
