package replay

import (
	"time"

	"github.com/rlctl/rlctl/pkg/history"
)

// Reading is the server's clock, read at some time between two instants of CLOCK_MONOTONIC.
type Reading struct {
	Server        time.Time
	Before, After int64 // ns, when the reading was asked for and when it was there
}

// drift is how much two clocks may differ in rate, as a divisor: one part in a thousand, twice what NTP slews at most.
const drift = 1000

// bracket is a span of the server's clock in which everything that was admitted was decided: from the first such call
// to the last such return, as far as two readings of the clock, one before all calls and one after all returns, can
// tell. It is never wider than between the readings.
func bracket(ops []history.Op, first, last Reading) (from, to time.Time) {
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
		return first.Server, last.Server
	}
	lead, trail := call-first.After, last.Before-ret
	from, to = first.Server.Add(shorter(lead)), last.Server.Add(-shorter(trail))
	if to.Before(from) {
		to = from // the clock stepped back meanwhile
	}
	return from, to
}

// shorter is the least time that can have passed on the server's clock in ns of ours, in whole microseconds.
func shorter(ns int64) time.Duration {
	return time.Duration(max(0, ns-ns/drift)).Truncate(time.Microsecond)
}

// Stepped tells by how much the server's clock went other than ours between two readings, 0 if that is within what
// reading it can tell. Decisions made across a step cannot be judged: their order is no longer that of their times.
func Stepped(first, last Reading) time.Duration {
	server := last.Server.Sub(first.Server)
	least, most := shorter(last.Before-first.After), longer(last.After-first.Before)
	switch {
	case server < least:
		return server - least
	case server > most:
		return server - most
	}
	return 0
}

// longer is the most time that can have passed on the server's clock in ns of ours.
func longer(ns int64) time.Duration {
	return time.Duration(ns+ns/drift) + time.Microsecond
}

// madeUp finds a decision that bears a time which the server's clock did not show between its call and its return, as
// far as two readings tell between which it did not step. A limiter that keeps a clock of its own would else be
// replayed by that clock, and refill as fast as it likes.
func madeUp(ops []history.Op, first, last Reading) *history.Op {
	span := last.After - first.Before
	slack := longer(span) - time.Duration(span) // what Stepped lets pass is nobody's fault
	slack += time.Duration(first.After - first.Before + last.After - last.Before)
	for i := range ops {
		op := &ops[i]
		if op.Outcome != history.Decided || op.Decision.At.IsZero() {
			continue
		}
		at := op.Decision.At.Sub(first.Server)
		if at < time.Duration(op.Call-first.After)-slack || at > time.Duration(op.Return-first.Before)+slack {
			return op
		}
	}
	return nil
}
