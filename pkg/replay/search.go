package replay

import (
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// search replays decisions in their order. Where the model disagrees, it first tries the other orders of decisions that
// bear the same microsecond, then a lost call before them: a lost admission shows in the very next reply, whose
// remaining is lower by it. When it came in is then a guess between two replies, and a log can show much later that it
// was wrong. So once a call was lost, a difference accuses nobody. What does is a decision more generous than the rule
// makes with every lost call left out, for a lost call can only take.
type search struct {
	state    model.State
	previous time.Time   // of the last decision
	lost     []timed     // not yet put in, by call
	without  model.State // with every lost call left out; nil while nothing was guessed
	gaveUp   bool        // more decisions bore one microsecond than could be ordered
	tries    *int        // how many more places for lost calls to try: all subsets of many would take for ever
}

// replay returns the first decision that the model does not make, nil if there is none, and whether a lost call may
// explain it.
func replay(decided, lost []timed, fresh model.State) (first *Difference, excused bool) {
	tries := 1_000 + 20*len(lost) // enough for some lost calls before each reply that shows them
	s := search{state: fresh, lost: lost, tries: &tries}
	for n := 0; len(decided) > 0; decided = decided[n:] {
		n = tie(decided)
		group := decided[:n]
		if generous := s.generous(group); generous != nil {
			return generous, false
		}
		if first != nil {
			continue // the state is not known any more
		}
		if first = s.follow(group); first == nil {
			continue
		}
		if len(lost) == 0 {
			return first, s.gaveUp
		}
		s.guess(group)
	}
	return first, first != nil
}

// tie is how many decisions at the head bear the same time.
func tie(decided []timed) int {
	n := 1
	for n < len(decided) && decided[n].at == decided[0].at {
		n++
	}
	return n
}

// follow steps the state through decisions of one microsecond, with lost calls before them if it must.
func (s *search) follow(group []timed) *Difference {
	next, difference := s.anyOrder(group)
	if difference == nil {
		s.state, s.previous = next, group[0].Decision.At
		return nil
	}
	for i, t := range s.lost {
		if t.Call >= latestReturn(group) {
			break
		}
		for _, at := range instants(s.previous, t, group) {
			with, d := s.state.Check(at, t.Request)
			if !d.Allowed {
				continue // leaves no trace
			}
			if *s.tries--; *s.tries < 0 {
				return difference
			}
			branch := search{state: with, previous: at, lost: without(s.lost, i), tries: s.tries}
			if branch.follow(group) == nil {
				s.guess(group)
				s.state, s.previous, s.lost = branch.state, branch.previous, branch.lost
				return nil
			}
		}
	}
	return difference
}

// guess begins to follow what the rule does without the lost calls, from before the group on.
func (s *search) guess(group []timed) {
	if s.without == nil {
		s.without = s.state
		s.take(group)
	}
}

// generous finds a decision that no lost call can explain.
func (s *search) generous(group []timed) *Difference {
	if s.without == nil {
		return nil
	}
	if len(group) == 1 {
		t := group[0]
		_, want := s.without.Check(t.Decision.At, t.Request)
		if t.Decision.Allowed && !want.Allowed || t.Decision.Allowed == want.Allowed && t.Decision.Remaining > want.Remaining {
			return &Difference{Op: *t.Op, Want: want}
		}
	}
	s.take(group)
	return nil
}

func (s *search) take(group []timed) {
	for _, t := range group {
		if t.Decision.Allowed {
			s.without, _ = s.without.Check(t.Decision.At, t.Request)
		}
	}
}

// anyOrder steps the model through a group in some order that agrees with real time and with every decision.
func (s *search) anyOrder(group []timed) (model.State, *Difference) {
	next, got := s.state.Check(group[0].Decision.At, group[0].Request)
	if len(group) == 1 && same(got, group[0].Decision) {
		return next, nil
	}
	if len(group) > 1 {
		tries := 1_000 + len(group)*len(group) // enough for any number of equal requests
		if next, ok := permute(s.state, group, &tries); ok {
			return next, nil
		}
		s.gaveUp = s.gaveUp || tries < 0
	}
	return nil, &Difference{Op: *group[0].Op, Want: got}
}

func permute(state model.State, group []timed, tries *int) (model.State, bool) {
	if len(group) == 0 {
		return state, true
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
			return nil, false
		}
		next, got := state.Check(t.Decision.At, t.Request)
		if !same(got, t.Decision) {
			continue
		}
		if end, ok := permute(next, without(group, i), tries); ok {
			return end, true
		}
	}
	return nil, false
}

// instants are the times at which a lost call may have been decided so that the group's replies follow: just before
// them, just after what came before, and the time that a reply's own reset or retry points at.
func instants(previous time.Time, lost timed, group []timed) []time.Time {
	w := lost.Request.Limit.Window
	head := group[0].Decision
	candidates := []time.Time{head.At, head.At.Add(head.ResetAfter - w), head.At.Add(head.RetryAfter - w), previous}
	possible := candidates[:0]
	for _, at := range candidates {
		if !at.IsZero() && !at.Before(previous) && !at.After(head.At) {
			possible = append(possible, at)
		}
	}
	return possible
}

func same(a, b limiter.Decision) bool {
	return a.Allowed == b.Allowed && a.Remaining == b.Remaining && a.RetryAfter == b.RetryAfter && a.ResetAfter == b.ResetAfter
}

func latestReturn(group []timed) int64 {
	latest := group[0].Return
	for _, t := range group {
		latest = max(latest, t.Return)
	}
	return latest
}

func without(ts []timed, i int) []timed {
	rest := make([]timed, 0, len(ts)-1)
	return append(append(rest, ts[:i]...), ts[i+1:]...)
}
