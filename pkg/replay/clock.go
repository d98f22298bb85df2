package replay

import (
	"time"

	"github.com/rlctl/rlctl/pkg/history"
)

// clock places instants of CLOCK_MONOTONIC on the server's clock, by a reading before and one after them.
type clock struct{ first, last history.Reading }

// drift is how much two clocks may differ in rate, as a divisor: one part in a thousand, twice what NTP slews at most.
const drift = 1000

// shorter is the least time that can have passed on the server's clock in ns of ours, in whole microseconds.
func shorter(ns int64) time.Duration {
	return time.Duration(max(0, ns-ns/drift)).Truncate(time.Microsecond)
}

// longer is the most. The clock is told in whole microseconds, cut off, which is where the one more comes from.
func longer(ns int64) time.Duration {
	return time.Duration(max(0, ns+ns/drift)) + time.Microsecond
}

// passed is how much time passed on the server's clock between the readings, at least and at most.
func (c clock) passed() (least, most time.Duration) {
	return shorter(c.last.Before - c.first.After), longer(c.last.After - c.first.Before)
}

// stepped tells by how much the server's clock went other than ours between the readings, 0 if that is within what
// reading it can tell. Decisions made across a step cannot be judged: their order is no longer that of their times.
func (c clock) stepped() time.Duration {
	least, most := c.passed()
	switch passed := c.last.Server.Sub(c.first.Server); {
	case passed < least:
		return passed - least
	case passed > most:
		return passed - most
	}
	return 0
}

// slack is the largest step that stepped does not see. It accuses nobody.
func (c clock) slack() time.Duration {
	least, most := c.passed()
	return most - least
}

// earliest is the least that the server's clock can have shown at an instant, and latest the most.
func (c clock) earliest(ns int64) time.Time {
	return c.first.Server.Add(shorter(ns-c.first.After) - c.slack())
}

func (c clock) latest(ns int64) time.Time {
	return c.last.Server.Add(c.slack() - shorter(c.last.Before-ns))
}

// bracket is a span of the server's clock in which everything that was admitted was decided: from the first such call
// to the last such return. If nothing was admitted it is the span between the readings.
func (c clock) bracket(ops []history.Op) (from, to time.Time) {
	call, ret, any := int64(0), int64(0), false
	for i := range ops {
		if op := &ops[i]; op.Admitted() {
			if !any {
				call, ret, any = op.Call, op.Return, true
			}
			call, ret = min(call, op.Call), max(ret, op.Return)
		}
	}
	if !any {
		return c.first.Server, c.last.Server
	}
	return c.earliest(call), c.latest(ret)
}

// misplaced finds a decision that bears a time at which its call had not begun or had already returned. A limiter that
// reports such times, or lets its clock run at a rate of its own, would sort and replay itself valid.
func (c clock) misplaced(ops []history.Op) *history.Op {
	for i := range ops {
		op := &ops[i]
		if at := op.Decision.At; op.Outcome == history.Decided && !at.IsZero() &&
			(at.Before(c.earliest(op.Call)) || at.After(c.latest(op.Return))) {
			return op
		}
	}
	return nil
}
