package replay

// What a key holds is known for certain until a reply is lost: from then on the call may have come in or not, and at any
// time between two decisions. A guess is one such course of things, and a history holds if one is left at its end.
//
// When an event came in matters little. Rules that count windows only ask in which; a level, which every reply tells, can
// be solved for the time; only a log keeps the time itself, until the event leaves it one window later. So a guess about a
// log is blurred for a window: it is a pair of states between which the true one lies, with the event taken as early and as
// late as it can have been, and a decision has to lie between what the two decide.

import (
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// guess is what a key may hold.
type guess struct {
	most    model.State // what it holds; of a blurred guess the most generous that it can
	least   model.State // of a blurred guess the least generous that it can; nil if that is not known
	clear   int64       // as timed.at: the end of the blur
	lost    []timed     // what may still come in, by call
	settled int64       // lost calls that came in
}

func (g guess) blurred(at int64) bool { return at <= g.clear }

// low is the least generous state; nil if it is not known.
func (g guess) low(at int64) model.State {
	if g.blurred(at) {
		return g.least
	}
	return g.most
}

// check steps a guess through a decision and tells what it says itself. It is refuted if it cannot say the same.
func (g guess) check(t timed) (next guess, want limiter.Decision, ok bool) {
	most, want := g.most.Check(t.Decision.At, t.Request)
	if !g.blurred(t.at) {
		g.most, g.least = most, nil
		return g, want, same(want, t.Decision)
	}
	if !t.Asked() {
		return g.checkHolder(t, want)
	}
	if !asGenerous(want, t.Decision) {
		return g, want, false
	}
	if t.Decision.Allowed {
		g.most = most
	}
	if g.least == nil {
		return g, want, true
	}
	least, low := g.least.Check(t.Decision.At, t.Request)
	switch {
	case !asGenerous(t.Decision, low):
		return g, low, false
	case low.Allowed:
		g.least = least
	case t.Decision.Allowed:
		g.least = nil // it has no room for what evidently came in
	}
	return g, want, true
}

// checkHolder steps a blurred guess through a call about a slot. When its lease ends may be what is blurred: at the earliest
// in the most generous state, at the latest in the least.
func (g guess) checkHolder(t timed, want limiter.Decision) (guess, limiter.Decision, bool) {
	said := t.Decision
	switch {
	case want.Allowed == said.Allowed && !asGenerous(want, said), want.Allowed && !said.Allowed:
		return g, want, false
	case said.Allowed:
		g.most, _ = g.most.Check(said.At, evident(t))
	}
	if g.least == nil {
		return g, want, true
	}
	_, low := g.least.Check(said.At, t.Request)
	switch {
	case low.Allowed == said.Allowed && !asGenerous(said, low):
		return g, low, false
	case said.Allowed && !low.Allowed:
		g.least = nil
	case said.Allowed:
		g.least, _ = g.least.Check(said.At, evident(t))
	case low.Allowed: // it is over already
		gone := t.Request
		gone.Act = model.Release
		g.least, _ = g.least.Check(said.At, gone)
	}
	return g, want, true
}

// evident is a call as the reply tells what it did, by whoever evidently held since whenever: to renew a lease is then to take
// one anew.
func evident(t timed) model.Request {
	r := t.Request
	if t.Renewed() {
		r.Act, r.Cost = model.Take, 1
	}
	return r
}

// asGenerous tells whether one decision grants no less than another.
func asGenerous(a, b limiter.Decision) bool {
	if a.Allowed != b.Allowed {
		return a.Allowed
	}
	return a.Remaining >= b.Remaining && a.RetryAfter <= b.RetryAfter && a.ResetAfter <= b.ResetAfter
}

// follow steps a guess through decisions of one microsecond, in some order that agrees with real time.
func (g guess) follow(group []timed, tries *int) (guess, bool) {
	if len(group) == 1 {
		next, _, ok := g.check(group[0])
		return next, ok
	}
	firstReturn := group[0].Return
	for _, t := range group {
		firstReturn = min(firstReturn, t.Return)
	}
	for i, t := range group {
		if t.Call > firstReturn {
			continue // another had returned by then
		}
		if *tries--; *tries < 0 {
			return g, false
		}
		next, _, ok := g.check(t)
		if !ok {
			continue
		}
		if end, ok := next.follow(without(group, i), tries); ok {
			return end, true
		}
	}
	return g, false
}

// among is how many orders of so many decisions are tried: enough for any number of equal requests.
func among(n int) int { return 1_000 + n*n }

// alike tells whether two guesses hold the same.
func (g guess) alike(h guess) bool {
	return g.clear == h.clear && model.Alike(g.most, h.most) && (g.least == nil) == (h.least == nil) &&
		(g.least == nil || model.Alike(g.least, h.least))
}
