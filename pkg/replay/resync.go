package replay

// A limiter that broke its rule once holds, from then on, something else than the model. To count what it does wrong
// later, the model has to take over what the server evidently holds: what it would hold if only the reply had been
// wrong, or what it held before, if the request took nothing. The decisions that follow must bear one of the two out.
// If they do not, the state is not known, as after a lost call, until later replies tell it; decisions in between are
// replayed against nothing, and only the bound over the whole history holds for them. What that gives up: of a limiter
// that is wrong in every few replies only the first is counted; and a state that makes so many decisions is very likely the
// server's, but need not be. The verdict does not rest on it, nor on anything after the first difference.

import "github.com/rlctl/rlctl/pkg/model"

// differ counts a difference and looks for a state to go on from. Of several decisions in one microsecond, all of which
// may be the wrong one, none is taken over.
func (s *search) differ(d *Difference, decided []timed, at int, group []timed) {
	if s.difference == nil {
		s.difference = d
	}
	s.under += undershootOf(*d)
	s.over += overshootOf(*d)
	s.loose += int64(len(group))
	next := at + len(group)
	s.settle()
	if len(s.guesses) > 0 && len(group) == 1 {
		state := s.guesses[0].most
		would, _ := state.Check(group[0].Decision.At, group[0].Request)
		for _, state := range []model.State{would, state} {
			if s.makes(state, decided[next:], probation) {
				s.know(state)
				return
			}
		}
	}
	s.guesses, s.without, s.fuzzy = nil, nil, false
	s.guessed = group[len(group)-1]
	s.again, s.pause = next, 1
}

// resumes tries to tell the state before the decisions at a place. After a difference it does so ever more seldom, since
// a limiter that goes on being wrong never tells it.
func (s *search) resumes(decided []timed, at int) bool {
	if at < s.again {
		return false
	}
	if s.recover(decided, at) {
		s.again, s.pause = 0, 0
		return true
	}
	s.again, s.pause = at+s.pause, 2*s.pause
	return false
}

// overshootOf is the cost of a request that was admitted where the model denies it.
func overshootOf(d Difference) int64 {
	if !d.Want.Allowed && d.Op.Decision.Allowed {
		return d.Op.Request.Cost
	}
	return 0
}
