package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/model"
)

// A replica that takes its master's place holds what it had heard: the writes of the master in their order, without the
// last ones. What it had not heard is lost, although it was answered, and is admitted once more.
//
// How much that was need not be asked of the servers: the decisions tell. If the new master decides as the rule does after
// all but the last k admissions of the old one, and for no smaller k, then k admissions were lost that show. So what a
// failover lost is found by judging the history again and again, each time with one admission less. A history that no k
// explains is broken by something else.
//
// It gives up what does not show: an admission that had left the window before the new master was asked is not missed. And
// it knows nothing of limiters whose decisions bear no server time.

// Loss is what a failover lost, as later decisions tell.
type Loss struct {
	Calls  int64 // admissions of the old master that the new one had not heard of
	Events int64 // of these
	Over   int64 // events admitted beyond what the rule admits
}

// mostLost bounds the admissions that may have been lost. How many were is sought by stepping the model through the first few
// decisions of the new master; mostAsked bounds how many of the numbers that explain those are tried on all calls, which
// costs far more.
const (
	mostLost  = 2_000
	mostAsked = 20
	firstFew  = 20
)

// JudgeFailover judges the calls on one key whose master died when CLOCK_MONOTONIC showed dead: calls that were begun later
// were decided by another. The judgement is of all calls: broken if more was admitted than the rule has room for, even if
// the loss alone is to blame.
func JudgeFailover(ops []history.Op, rule model.Rule, course Course, dead int64) (Judgement, Loss) {
	if asked, recalled := fromMemory(ops, rule); len(recalled) > 0 { // which may be of what was lost
		j, loss := JudgeFailover(asked, rule, course, dead)
		n := int64(len(recalled))
		j.Attempts, j.Denied, j.Loose = j.Attempts+n, j.Denied+n, j.Loose+n
		return j, loss
	}
	if _, untimed := countTimed(ops); untimed > 0 {
		return JudgeCourse(ops, rule, course), Loss{} // it is bounded, and a bound does not tell a loss from a fault
	}
	before, after := parted(ops, dead)
	admissions := admitted(before)
	states, few := statesOf(admissions, rule), byTime(after)
	few = few[:min(len(few), firstFew)]
	loss, asked := Loss{}, 0
	for k := 0; k <= min(len(admissions), mostLost) && asked < mostAsked; k++ {
		kept := len(admissions) - k
		if k > 0 {
			loss.Calls++
			loss.Events += admissions[kept].Request.Cost
		}
		if !explains(states[kept], few, rule) {
			continue
		}
		if k == 0 {
			break // nothing is missed, and whatever else is wrong is not the failover's
		}
		asked++
		j := JudgeCourse(slices.Concat(forgotten(before, admissions[kept]), after), rule, course)
		if j.Verdict == Held && JudgeCourse(before, rule, course).Verdict != Broken {
			return afterLoss(ops, rule, course, j, &loss), loss
		}
	}
	return JudgeCourse(ops, rule, course), Loss{}
}

// afterLoss is the judgement of all calls, where one of those that the new master had heard of explains what it decided.
func afterLoss(ops []history.Op, rule model.Rule, course Course, explained Judgement, loss *Loss) Judgement {
	j := tally(ops, rule, ever)
	eras := course.eras()
	worst, allowance := worstIn(ops, rule, eras)
	loss.Over = max(0, worst.Over())
	j.Allowance, j.Overshoot, j.Undershoot = allowance, loss.Over, explained.Undershoot
	j.Replayed, j.Settled, j.Loose = explained.Replayed, explained.Settled, explained.Loose
	if loss.Over > 0 {
		j.Worst = &worst
		return j.because(Broken, fmt.Sprintf("the failover lost %d events: %d over the limit", loss.Events, loss.Over))
	}
	return j.because(Held, fmt.Sprintf("the failover lost %d events, none of them over the limit", loss.Events))
}

// parted are the calls that were begun before an instant, and the others.
func parted(ops []history.Op, ns int64) (before, after []history.Op) {
	for _, op := range ops {
		if op.Call <= ns {
			before = append(before, op)
		} else {
			after = append(after, op)
		}
	}
	return before, after
}

// byTime are the decisions, the earliest first.
func byTime(ops []history.Op) []history.Op {
	in := slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool { return op.Outcome != history.Decided })
	slices.SortStableFunc(in, func(a, b history.Op) int {
		return cmp.Or(a.Decision.At.Compare(b.Decision.At), cmp.Compare(a.Call, b.Call))
	})
	return in
}

// admitted are the admissions, the earliest first.
func admitted(ops []history.Op) []history.Op {
	return slices.DeleteFunc(byTime(ops), func(op history.Op) bool { return !op.Admitted() || op.Request.Cost == 0 })
}

// statesOf are the states of the rule before each of the calls, and after the last.
func statesOf(ops []history.Op, rule model.Rule) []model.State {
	states := []model.State{rule.Fresh}
	for _, op := range ops {
		next, _ := states[len(states)-1].Check(op.Decision.At, op.Request)
		states = append(states, next)
	}
	return states
}

// explains tells whether the rule, from a state on, decides as it was decided.
func explains(state model.State, decided []history.Op, rule model.Rule) bool {
	for _, op := range told(decided, rule.Untold) {
		next, want := state.Check(op.Decision.At, op.Request)
		want, want.At = rule.Untold.Blank(want), op.Decision.At
		if op.Decision != want {
			return false
		}
		state = next
	}
	return true
}

// forgotten are the calls as if nothing had been decided from one admission on.
func forgotten(ops []history.Op, from history.Op) []history.Op {
	return slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool {
		later := op.Decision.At.Compare(from.Decision.At)
		return op.Outcome == history.Decided && (later > 0 || later == 0 && op.Call >= from.Call)
	})
}
