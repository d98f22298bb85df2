package replay

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// A limiter that tells no time can still be seen to starve its callers. By every rule, what was taken longer ago than a
// key takes to be as good as unused weighs nothing, and what was taken since weighs at most what it took. So a denial is
// wrong, whatever the order and the instant, if all that can have been taken since then leaves room for it. A call whose
// reply was lost may have taken until the history says that it no longer could. Who renews a lease keeps what was taken, and
// so may have taken it then.

// keysEnd late, by a millisecond, and limiters whose callers give keys their end by one or two more.
const keysEnd = 5 * time.Millisecond

// starved is the cost of such denials up to an instant, before which the clock was not set.
func starved(ops []history.Op, rule model.Rule, until int64) (events int64) {
	if rule.Charges {
		return 0
	}
	begun := byCall(ops, func(op history.Op) bool { return !op.Denied() && op.Outcome != history.Failed })
	ended := slices.Clone(begun)
	for i := range ended {
		ended[i].at = endOf(ended[i])
	}
	sortTimed(ended)
	costBegun, costEnded := sums(begun, kept), sums(ended, kept)
	of, longest, capacity := limiter.Limit{}, time.Duration(0), int64(0)
	for i := range ops {
		op := &ops[i]
		if !op.Denied() || op.Return > until {
			continue
		}
		if l := op.Request.Limit; l != of {
			of, longest, capacity = l, rule.Longest(l), rule.Capacity(l)
		}
		unused := op.Call - longer((longest + keysEnd).Nanoseconds()).Nanoseconds()
		before := sort.Search(len(begun), func(i int) bool { return begun[i].Call >= op.Return })
		forgotten := sort.Search(len(ended), func(i int) bool { return ended[i].at >= unused })
		if plus(costBegun[before]-costEnded[forgotten], op.Request.Cost) <= capacity {
			events = plus(events, op.Request.Cost)
		}
	}
	return events
}

// endOf is when a call can no longer take effect.
func endOf(t timed) int64 {
	switch {
	case t.Outcome == history.Decided:
		return t.Return
	case t.Until > 0:
		return t.Until
	}
	return math.MaxInt64
}

// sums are of the costs of the first i.
func sums(ts []timed, weight func(*history.Op) int64) []int64 {
	out := make([]int64, len(ts)+1)
	for i, t := range ts {
		out[i+1] = plus(out[i], weight(t.Op))
	}
	return out
}

// taken is what a call may have taken.
func taken(op *history.Op) int64 { return op.Request.Cost }

// kept is what a call may have taken, or kept from its end.
func kept(op *history.Op) int64 {
	if op.Request.Act == model.Renew {
		return 1
	}
	return op.Request.Cost
}
