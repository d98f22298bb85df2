package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/model"
)

// timed is an op under the key it is sorted by. Sorting the ops themselves would move 200 bytes at each swap.
type timed struct {
	at, call int64 // at has the number of the era above its times, which end before the year 2112
	*history.Op
}

const eraBits = 52

func (t timed) era() int64 { return t.at >> eraBits }

func sortTimed(ts []timed) {
	slices.SortFunc(ts, func(a, b timed) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.call, b.call)) })
}

// countTimed counts the decisions that bear the server's time, and those that do not.
func countTimed(ops []history.Op) (timed, untimed int) {
	for i := range ops {
		switch {
		case ops[i].Outcome != history.Decided:
		case ops[i].Decision.At.IsZero():
			untimed++
		default:
			timed++
		}
	}
	return timed, untimed
}

// sorted splits a history into what was decided, in the order of the server's clock, and what may have been: the
// calls whose replies were lost, by when they were made. In no era at all is a decision whose time is impossible.
func sorted(ops []history.Op, eras []era) (decided, lost []timed, impossible *history.Op) {
	decided = make([]timed, 0, len(ops))
	for i := range ops {
		switch op := &ops[i]; op.Outcome {
		case history.Decided:
			n := place(eras, op)
			if n < 0 {
				return nil, nil, op
			}
			decided = append(decided, timed{int64(n)<<eraBits + op.Decision.At.UnixMicro(), op.Call, op})
		case history.Unknown, history.Open:
			lost = append(lost, timed{op.Call, op.Call, op})
		}
	}
	sortTimed(decided)
	sortTimed(lost)
	return decided, lost, nil
}

// byCall sorts the ops that are wanted by when they were called.
func byCall(ops []history.Op, want func(history.Op) bool) []timed {
	var ts []timed
	for i := range ops {
		if op := &ops[i]; want(*op) {
			ts = append(ts, timed{op.Call, op.Call, op})
		}
	}
	sortTimed(ts)
	return ts
}

// outOfOrder finds two decisions, sorted by the server's time, of which the later returned before the earlier was
// called.
func outOfOrder(decided []timed) (later, earlier *history.Op, found bool) {
	latestCall := 0 // of those with a strictly earlier time
	for i, group := 0, 0; i < len(decided); i++ {
		for ; decided[group].at < decided[i].at; group++ {
			if decided[group].Call > decided[latestCall].Call {
				latestCall = group
			}
		}
		if group > 0 && decided[i].Return < decided[latestCall].Call {
			return decided[i].Op, decided[latestCall].Op, true
		}
	}
	return nil, nil, false
}

// overlapped tells whether two that follow each other were under way at once and are of two clients.
func overlapped(ts []timed) bool {
	for i := 1; i < len(ts); i++ {
		a, b := ts[i-1], ts[i]
		if b.Call < end(a) && a.Call < end(b) && (a.Proc != b.Proc || a.Client != b.Client) {
			return true
		}
	}
	return false
}

// end is when a call can no longer take effect. One whose reply was lost may do so at any later time.
func end(t timed) int64 {
	if t.Outcome == history.Unknown || t.Outcome == history.Open {
		return math.MaxInt64
	}
	return t.Return
}

// pressed turns a history in which nothing broke into held, or says what was missing for that. A request that can never
// be admitted does not press: any limiter denies it.
func (j Judgement) pressed(ts []timed, rule model.Rule, held string) Judgement {
	demand, denied, room := int64(0), 0, j.Allowance
	if rule.AtOnce && len(ts) > 0 { // whatever comes free is asked for by whoever is refused
		room = rule.Capacity(ts[0].Request.Limit)
	}
	for _, t := range ts {
		if t.Request.Cost > rule.Capacity(t.Request.Limit) {
			continue
		}
		demand = plus(demand, t.Request.Cost)
		if t.Denied() {
			denied++
		}
	}
	switch {
	case j.Undershoot > 0:
		return j.because(Broken, "events were denied that the rule has room for, whatever the order")
	case j.Failed+j.Unknown > 0 && (demand <= room || denied == 0 || j.Allowed == 0):
		return j.because(Inconclusive, fmt.Sprintf("%d of %d calls were not decided (%s)",
			j.Failed+j.Unknown, j.Attempts, j.undecided))
	case j.Allowed == 0 && len(ts) > 0:
		return j.because(Inconclusive, "nothing was allowed")
	case demand <= room:
		return j.because(Inconclusive, "demand did not pass the limit")
	case denied == 0:
		return j.because(Inconclusive, "nothing was denied")
	case !overlapped(ts):
		j.Apart = true
		return j.because(Inconclusive, "no two clients overlapped")
	}
	return j.because(Held, held)
}

// undershoot is the cost of the denials that are wrong in every order: at whose return so little had been asked for
// and not refused that the rule, without a single refill, had room. A cost above the capacity is never owed; nor is any
// after the clock was set, which can empty a bucket, or by a rule that charges refusals.
func undershoot(ops []history.Op, rule model.Rule, until int64) int64 {
	if rule.Charges {
		return 0
	}
	takers := byCall(ops, func(op history.Op) bool { return !op.Denied() && op.Outcome != history.Failed })
	before := sums(takers, taken)
	sum := int64(0)
	for i := range ops {
		if op := &ops[i]; op.Denied() && op.Return <= until {
			n := sort.Search(len(takers), func(i int) bool { return takers[i].Call >= op.Return })
			if plus(before[n], op.Request.Cost) <= rule.Capacity(op.Request.Limit) {
				sum = plus(sum, op.Request.Cost)
			}
		}
	}
	return sum
}

// plus adds costs, of which a thousand of the largest pass what an int64 holds.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
