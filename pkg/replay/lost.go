package replay

// A call whose reply was lost is put in before the reply that shows it, which is the very next one: remaining is lower by
// its cost. All sets of calls that may have come in are tried, each call at all the times that matter to the rule.

import (
	"slices"
	"sort"
	"time"

	"github.com/rlctl/rlctl/pkg/model"
)

// placing is a guess while lost calls are put into it.
type placing struct {
	guess
	base  model.State // most, before the first of them
	in    []timed
	at    time.Time // when the last of them came in, at the earliest
	after int       // the place in lost at which, or behind which, the next stands: at one time the order does not matter
}

// expand adds to a list what a guess may have become after decisions of one microsecond: nothing if they refute it.
func (s *search) expand(g guess, group []timed, list []guess) []guess {
	tries := among(len(group))
	next, ok := g.follow(group, &tries)
	if ok {
		list = append(list, next)
	}
	s.gaveUp = s.gaveUp || tries < 0
	if len(g.lost) == 0 || ok && !g.blurred(group[0].at) && !s.hides(group[0]) && !(s.rule.AtOnce && g.trades(group)) {
		return list // no event came in that the reply does not show
	}
	return s.withLost(placing{guess: g, base: g.most, at: s.earliest(group[0])}, group, list)
}

// hides tells whether an event may have come in without a trace in a reply: into a window that then ended.
func (s *search) hides(t timed) bool {
	return s.rule.Memory == model.Shares && s.earliest(t).Before(opening(t))
}

// trades tells whether lost calls may have come in without a trace in a reply: one that took a slot and one that gave one
// back, or one that renewed a lease, where a later one ends last.
func (g guess) trades(group []timed) bool {
	var took, gave, renewed bool
	for _, t := range g.lost {
		if t.Call < latestReturn(group) {
			took, gave = took || t.Asked(), gave || t.Released()
			renewed = renewed || !t.Asked() && !t.Released()
		}
	}
	return took && gave || renewed
}

// opening is when the window of a decision began.
func opening(t timed) time.Time {
	w := t.Request.Limit.Window.Microseconds()
	return time.UnixMicro(t.Decision.At.UnixMicro() / w * w)
}

// earliest is the time from which a call can have come in that was not shown before a decision.
func (s *search) earliest(t timed) time.Time {
	if s.previous.Op == nil || s.previous.era() != t.era() {
		return time.UnixMicro(0)
	}
	return s.previous.Decision.At
}

// called is the earliest that the server's clock can have shown when a call was made, in the era of a decision.
func (s *search) called(lost, t timed) time.Time {
	least, _ := s.eras[t.era()].bounds(lost.Call)
	return least
}

// withLost adds the guesses with more of the lost calls in.
func (s *search) withLost(p placing, group []timed, list []guess) []guess {
	var tried []model.Request
	for i, t := range p.lost {
		if t.Call >= latestReturn(group) {
			break
		}
		if s.rule.AtOnce && !s.goesOn() {
			return list
		}
		if !s.matters(p, t, group[0]) || slices.Contains(tried, s.likeness(t)) {
			continue
		}
		tried = append(tried, s.likeness(t))
		for _, next := range s.put(p, i, group) {
			if !s.goesOn() {
				return list
			}
			tries := among(len(group))
			if g, ok := next.follow(group, &tries); ok {
				list = append(list, g)
			}
			if s.room(next, group) {
				list = s.withLost(next, group, list)
			}
		}
	}
	return list
}

// goesOn counts a try, and tells whether there are any left.
func (s *search) goesOn() bool {
	*s.tries--
	s.gaveUp = s.gaveUp || *s.tries < 0
	return *s.tries >= 0
}

// matters tells whether a lost call changes anything: one that takes something, or is about what is held.
func (s *search) matters(p placing, t, head timed) bool {
	switch {
	case t.Asked():
		return t.Request.Cost > 0
	case !t.Released():
		return true // that the lease is over by now tells nothing
	}
	_, d := p.most.Check(head.Decision.At, t.Request)
	return d.Allowed
}

// likeness is a request that stands for all that come to the same: of a holder whom no other call names, without its id.
func (s *search) likeness(t timed) model.Request {
	r := t.Request
	if s.alone[r.ID] {
		r.ID = ""
	}
	return r
}

// room tells whether the replies of a group may show still more lost calls than were put in.
func (s *search) room(p placing, group []timed) bool {
	if s.rule.Untold != 0 || s.rule.AtOnce { // slots that were taken hide those that were given back
		return len(p.in) < 8
	}
	head := group[0]
	_, left := p.most.Check(head.Decision.At, model.Request{Limit: head.Request.Limit})
	told := head.Decision.Remaining
	for _, t := range group {
		told = min(told, t.Decision.Remaining)
	}
	for _, t := range group {
		if t.Decision.Allowed {
			told += t.Request.Cost
		}
	}
	return left.Remaining > told
}

// put puts in one more of the lost calls, at each of the times that may matter.
func (s *search) put(p placing, i int, group []timed) []placing {
	t, head := p.lost[i], group[0]
	now, floor := head.Decision.At, lastOf(p.at, s.called(t, head))
	switch {
	case s.rule.Memory == model.Level && s.rule.Untold == 0:
		if i < p.after { // what is used up adds up in any order
			return nil
		}
		return s.pour(p.with(i), group)
	case s.rule.Memory == model.Windows || s.rule.Memory == model.Shares:
		var found []placing
		if !p.at.Equal(now) || i >= p.after {
			found = p.with(i).take(now)
		}
		if end := opening(head).Add(-time.Microsecond); s.hides(head) && !end.Before(floor) && (!p.at.Equal(end) || i >= p.after) {
			found = append(found, p.with(i).take(end)...)
		}
		return found
	}
	switch {
	case t.Released():
		return p.with(i).give(floor, now)
	case i < p.after && !s.rule.AtOnce:
		return nil
	}
	return p.with(i).spread(head, lastOf(floor, now.Add(time.Microsecond-t.Request.Limit.Window))) // what came before has left
}

// with is p with one of the lost calls moved to those that came in.
func (p placing) with(i int) placing {
	p.in, p.lost, p.settled, p.after = append(slices.Clip(p.in), p.lost[i]), without(p.lost, i), p.settled+1, i
	return p
}

// take lets the last call of in come in at a time before a decision. It leaves no trace where there is no room for it.
func (p placing) take(at time.Time) []placing {
	most, d := p.most.Check(at, p.in[len(p.in)-1].Request)
	if !d.Allowed {
		return nil
	}
	p.most, p.at = most, at
	return []placing{p}
}

// give lets the last call of in give back what it took, as early as it can have: that shows nowhere but in who may have
// come in since. The least generous state, into which all comes as late as can be, gets it back at the decision.
func (p placing) give(at, now time.Time) []placing {
	r := p.in[len(p.in)-1].Request
	if p.least != nil {
		p.least, _ = p.least.Check(now, r)
	}
	return p.take(at)
}

// spread lets the events of the last call come in from a time up to a decision: one by one as early as there is room for
// each, and all as late as can be.
func (p placing) spread(head timed, from time.Time) []placing {
	r, now, low := p.in[len(p.in)-1].Request, head.Decision.At, p.low(head.at)
	each, calls := r, int64(1)
	if r.ID == "" { // else it must stay one call, to be known again
		each.Cost, calls = 1, r.Cost
	}
	p.at = from
	for range calls {
		at, ok := whenRoom(p.most, each, p.at, now)
		if !ok {
			return nil
		}
		p.most, _ = p.most.Check(at, each)
		p.at = at
	}
	p.clear, p.least = max(p.clear, head.at+r.Limit.Window.Microseconds()), nil
	if low != nil {
		if least, d := low.Check(now, r); d.Allowed {
			p.least = least
		}
	}
	return []placing{p}
}

// pour solves for the time at which lost calls began to come in, of a key that holds a level: as early as makes up for
// what the replies say is used.
func (s *search) pour(p placing, group []timed) []placing {
	head := group[0]
	now, from := head.Decision.At, lastOf(s.earliest(head), s.called(p.in[0], head))
	told := head.Decision.ResetAfter
	for _, t := range group {
		told = max(told, t.Decision.ResetAfter)
	}
	span := int(now.Sub(from)/time.Microsecond) + 1
	i := sort.Search(span, func(i int) bool {
		state, ok := s.fill(p, from.Add(time.Duration(i)*time.Microsecond), head)
		return ok && resetAfter(state, group) >= told
	})
	state, ok := s.fill(p, from.Add(time.Duration(min(i, span-1))*time.Microsecond), head)
	if !ok {
		return nil
	}
	p.most = state
	return []placing{p}
}

// fill is the level after the calls of p came in from a time on, each as soon as there was room for it.
func (s *search) fill(p placing, from time.Time, head timed) (model.State, bool) {
	state := p.base
	for _, t := range p.in {
		at, ok := whenRoom(state, t.Request, lastOf(from, s.called(t, head)), head.Decision.At)
		if !ok {
			return nil, false
		}
		state, _ = state.Check(at, t.Request)
		from = at
	}
	return state, true
}

// resetAfter is what a state tells after the admissions of a group.
func resetAfter(state model.State, group []timed) time.Duration {
	for _, t := range group {
		if t.Decision.Allowed {
			state, _ = state.Check(t.Decision.At, t.Request)
		}
	}
	_, d := state.Check(group[0].Decision.At, model.Request{Limit: group[0].Request.Limit})
	return d.ResetAfter
}

// whenRoom is the earliest time from one to another at which a state has room for a call.
func whenRoom(state model.State, r model.Request, from, to time.Time) (at time.Time, ok bool) {
	if _, d := state.Check(from, r); d.Allowed {
		return from, !from.After(to)
	}
	span := int(to.Sub(from)/time.Microsecond) + 1
	i := sort.Search(span, func(i int) bool {
		_, d := state.Check(from.Add(time.Duration(i)*time.Microsecond), r)
		return d.Allowed
	})
	return from.Add(time.Duration(i) * time.Microsecond), i < span
}

func lastOf(ts ...time.Time) time.Time { return slices.MaxFunc(ts, time.Time.Compare) }
