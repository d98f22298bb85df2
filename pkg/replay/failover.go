package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlctl/rlctl/pkg/history"
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

// mostLost bounds the admissions that may have been lost, and with them the work.
const mostLost = 2_000

// JudgeFailover judges the calls on one key whose master died when CLOCK_MONOTONIC showed dead: calls that were begun later
// were decided by another. judge judges a history in which nothing was lost. The judgement is of all calls: broken if
// more was admitted than the rule has room for, even if the loss alone is to blame.
func JudgeFailover(ops []history.Op, dead int64, judge func([]history.Op) Judgement) (Judgement, Loss) {
	whole := judge(ops)
	if _, untimed := countTimed(ops); untimed > 0 {
		return whole, Loss{} // it is bounded, and a bound does not tell a loss from a fault
	}
	if whole.Verdict == Held || whole.Verdict == Broken && judge(until(ops, dead)).Verdict == Broken {
		return whole, Loss{}
	}
	var loss Loss
	for _, last := range admittedBefore(ops, dead) {
		loss.Calls++
		loss.Events += last.Request.Cost
		if j := judge(forgotten(ops, dead, last)); j.Verdict == Held {
			return whole.afterLoss(j, &loss), loss
		}
	}
	return whole, Loss{}
}

// afterLoss is a judgement of all calls, of which another explains what the new master decided.
func (j Judgement) afterLoss(explained Judgement, loss *Loss) Judgement {
	loss.Over = max(0, j.Allowed-j.Allowance)
	if j.Worst != nil {
		loss.Over = max(0, j.Worst.Over())
	}
	j.Overshoot, j.Undershoot, j.Difference = loss.Over, explained.Undershoot, nil
	j.Replayed, j.Settled, j.Loose = explained.Replayed, explained.Settled, explained.Loose
	if loss.Over > 0 {
		return j.because(Broken, fmt.Sprintf("the failover lost %d events: %d over the limit", loss.Events, loss.Over))
	}
	return j.because(Held, fmt.Sprintf("the failover lost %d events, none of them over the limit", loss.Events))
}

// until are the calls that were begun before an instant.
func until(ops []history.Op, ns int64) []history.Op {
	return slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool { return op.Call > ns })
}

// admittedBefore are the last admissions that were begun before an instant, the latest first.
func admittedBefore(ops []history.Op, ns int64) []history.Op {
	in := slices.DeleteFunc(until(ops, ns), func(op history.Op) bool { return !op.Admitted() || op.Request.Cost == 0 })
	slices.SortStableFunc(in, func(a, b history.Op) int {
		return cmp.Or(b.Decision.At.Compare(a.Decision.At), cmp.Compare(b.Call, a.Call))
	})
	return in[:min(len(in), mostLost)]
}

// forgotten are the calls as if the old master had decided nothing from one admission on.
func forgotten(ops []history.Op, dead int64, from history.Op) []history.Op {
	return slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool {
		if op.Call > dead || op.Outcome != history.Decided {
			return false
		}
		later := op.Decision.At.Compare(from.Decision.At)
		return later > 0 || later == 0 && op.Call >= from.Call
	})
}
