package replay

import (
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// search replays decisions in their order. Where the model disagrees, it first tries the other orders of decisions that
// bear the same microsecond, then calls before them whose replies were lost: a lost admission shows in the very next
// reply, whose remaining is lower by it. What no order and no lost call explains is a difference. The first is what the
// verdict rests on; what it admits or denies wrongly is counted, and so is that of later ones, see resync.go.
//
// When a lost call came in is a guess between two replies, and a log can show much later that it was wrong. So for as
// long as such a guess weighs, and while a call may still come in, a decision that does not follow is open, and accuses
// nobody. The search then lets go of the state and waits until replies tell it again. What does accuse in the meantime is
// a decision more generous than the rule makes with every lost call left out, for a lost call can only take; unless one
// was to give something back.
type search struct {
	fresh    model.State
	state    model.State // nil while it is not known
	previous timed       // the last decision
	lost     []timed     // not yet put in, by call
	tries    *int        // how many more places for lost calls to try: all subsets of many would take for ever
	gaveUp   bool        // more decisions bore one microsecond than could be ordered
	gives    bool        // a lost call may have given something back

	without model.State // with every lost call left out; nil while nothing is guessed
	guessed timed       // the decision before which the last guess was made
	fuzzy   bool        // the state may lie within a microsecond of the true one
	last    checkpoint  // of the last guess
	eras    []era
	expired bool // the key may have been gone when the clock was last set
	again   int  // the place in all at which to look for the state again after a difference, and how many decisions
	pause   int  // to leave out after that, if it is not found
	found
}

// found is what a search came to.
type found struct {
	difference *Difference // the first that nothing explains
	over       int64       // events admitted where the rule denies, in all differences
	under      int64       // events denied where the rule admits
	open       *Difference // the first that a lost call may explain, though none was found that does
	replayed   int64       // decisions that the model makes too
	loose      int64       // decisions made while the state was not known
	settledN   int64       // lost calls of which later replies told that they had counted
	excused    bool        // open, and the state was never known again
}

// replay follows the model through all decisions.
func replay(decided, lost []timed, fresh model.State, eras []era) found {
	tries := 10_000 + 500*len(lost) // enough for some lost calls before each reply that shows them
	s := search{fresh: fresh, state: fresh, lost: lost, tries: &tries, eras: eras}
	s.gives = slices.ContainsFunc(lost, func(t timed) bool { return t.Released() })
	for at := 0; at < len(decided); {
		group := decided[at : at+tie(decided[at:])]
		s.step(decided, at, group)
		at += len(group)
	}
	s.excused = s.state == nil
	return s.found
}

// step takes the decisions of one microsecond, which begin at a place in all.
func (s *search) step(decided []timed, at int, group []timed) {
	defer func() { s.previous = group[0] }()
	s.expired = false
	if s.previous.Op != nil && s.previous.era() != group[0].era() {
		s.newEra(group[0])
	}
	s.forget(group)
	if d := s.generous(group); d != nil {
		s.differ(d, decided, at, group)
		return
	}
	if s.state == nil && !s.resumes(decided, at) {
		s.loose += int64(len(group))
		return
	}
	d := s.follow(group)
	if known := s.state; d != nil && s.expired {
		s.state = s.fresh
		if s.follow(group) == nil {
			d = nil
		} else {
			s.state = known
		}
	}
	switch {
	case d == nil, s.guessing(group) && s.retime(decided, at, group):
		s.replayed += int64(len(group))
	case s.guessing(group) || s.gaveUp || s.fuzzy && near(*d):
		if s.open == nil {
			s.open = d
		}
		s.guess(group)
		s.state, s.fuzzy = nil, false
		s.loose += int64(len(group))
	default:
		s.differ(d, decided, at, group)
	}
}

// newEra goes over a step of the clock. What was guessed weighs for two windows of the new clock; and the state without
// lost calls is pulled to it by the first request, even if that was denied. A key whose TTL had passed before a step back
// may have been taken away by then, or not, and lives on if not; and where a lost call may have been the first, the time of
// the pull is not known, and all that can be said is that nothing is more generous than a fresh key.
func (s *search) newEra(first timed) {
	if s.guessed.Op != nil {
		s.guessed = first
	}
	pulled := slices.ContainsFunc(s.lost, func(t timed) bool { return t.Call < first.Return }) // by a lost call, at its time
	_, end := s.eras[s.previous.era()].bounds(s.eras[s.previous.era()].to)
	gone := func(state model.State) bool { return state != nil && !end.IsZero() && state.Expires().Before(end) }
	s.expired = gone(s.state)
	switch {
	case s.expired, pulled, gone(s.without):
		s.without, s.guessed = s.fresh, first
	case s.without != nil:
		pull := first.Request
		pull.Cost, pull.Act = limiter.MaxCost, model.Take
		s.without, _ = s.without.Check(first.Decision.At, pull)
	}
}

// guessing tells whether a lost call that may still come in, or a guess at when one did, can explain anything.
func (s *search) guessing(group []timed) bool {
	for _, t := range s.lost {
		if t.Call < latestReturn(group) {
			return true
		}
	}
	return s.without != nil
}

// forget drops the lost calls that can no longer come in, and ends the time of guesses when all that was guessed has
// left the window.
func (s *search) forget(group []timed) {
	call := group[0].Call
	for _, t := range group {
		call = min(call, t.Call)
	}
	for i := 0; i < len(s.lost); i++ {
		if until := s.lost[i].Until; until != 0 && until < call && s.previous.Op != nil && until < s.previous.Call {
			s.lost = without(s.lost, i)
			i--
		}
	}
	if s.without != nil && s.state != nil && weighsNoMore(s.guessed, group[0]) {
		s.without = nil
	}
}

// weighsNoMore tells whether what happened at one decision is forgotten at another by every rule that forgets.
func weighsNoMore(then, now timed) bool {
	return now.era() == then.era() && now.Decision.At.Sub(then.Decision.At) > 2*now.Request.Limit.Window
}

// recover tries to tell the state before the decisions at a place from replies: from what was admitted in the last two
// windows, where that is all that still weighs; or from what a single take would have left, which is all that a bucket
// knows. It has to make the decisions that follow.
func (s *search) recover(decided []timed, at int) bool {
	if s.guessed.Op != nil && weighsNoMore(s.guessed, decided[at]) {
		if state := s.since(decided[:at], decided[at]); s.makes(state, decided[at:], probation) {
			s.state = state
			return true
		}
	}
	if at == 0 {
		return false
	}
	for _, state := range s.takes(decided[at-1]) {
		if s.makes(state, decided[at:], 5*probation) {
			s.state, s.fuzzy = state, true
			return true
		}
	}
	return false
}

// probation is how many decisions a state that was recovered has to make before it is believed.
const probation = 10

// since is the state after all that was admitted in the last two windows.
func (s *search) since(decided []timed, now timed) model.State {
	from := len(decided)
	for from > 0 && !weighsNoMore(decided[from-1], now) && decided[from-1].era() == now.era() {
		from--
	}
	state := s.fresh
	for _, t := range decided[from:] {
		if t.Decision.Allowed {
			state, _ = state.Check(t.Decision.At, t.Request)
		}
	}
	return state
}

// takes are states that one take on a fresh key can have left so that a decision says what it says.
func (s *search) takes(t timed) (states []model.State) {
	const most = 200
	d, w := t.Decision, t.Request.Limit.Window
	if d.ResetAfter <= 0 || d.ResetAfter > w*most {
		return nil
	}
	for cost := int64(1); cost <= most; cost++ {
		r := t.Request
		r.Cost = cost
		_, full := s.fresh.Check(d.At, r)
		if !full.Allowed {
			break
		}
		if full.ResetAfter < d.ResetAfter {
			continue
		}
		state, _ := s.fresh.Check(d.At.Add(d.ResetAfter-full.ResetAfter), r)
		peek := r
		peek.Cost = 0
		if _, got := state.Check(d.At, peek); got.Remaining == d.Remaining && got.ResetAfter == d.ResetAfter {
			states = append(states, state)
		}
	}
	return states
}

// makes tells whether a state leads to the next n decisions.
func (s *search) makes(state model.State, decided []timed, n int) bool {
	probe := search{state: state}
	for at := 0; at < min(n, len(decided)); {
		group := decided[at : at+tie(decided[at:])]
		next, d := probe.anyOrder(group)
		if d != nil {
			return false
		}
		probe.state = next
		at += len(group)
	}
	return len(decided) > 0
}

// near tells whether a decision differs from the rule's by a microsecond of waiting alone.
func near(d Difference) bool {
	off := func(a, b time.Duration) bool { return (a - b).Abs() <= time.Microsecond }
	got := d.Op.Decision
	return got.Allowed == d.Want.Allowed && got.Remaining == d.Want.Remaining && off(got.RetryAfter, d.Want.RetryAfter) &&
		off(got.ResetAfter, d.Want.ResetAfter)
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
		s.state = next
		return nil
	}
	if s.together(group) || s.apart(group) {
		return nil
	}
	return difference
}

// together puts some of the lost calls in at one instant: those that a server did in one go when it went on.
func (s *search) together(group []timed) bool {
	var may []int
	for i, t := range s.lost {
		if t.Call < latestReturn(group) && t.Request.Cost > 0 && len(may) < 8 {
			may = append(may, i)
		}
	}
	for set := 1; set < 1<<len(may); set++ {
		var in []timed
		for bit, i := range may {
			if set>>bit&1 == 1 {
				in = append(in, s.lost[i])
			}
		}
		for _, at := range s.instants(in, group) {
			if *s.tries--; *s.tries < 0 {
				return false
			}
			if state, ok := takeAll(s.state, in, at); ok {
				branch := search{state: state}
				if next, d := branch.anyOrder(group); d == nil {
					s.last = checkpoint{s.state, s.previous, group[0], in, slices.Repeat([]time.Time{at}, len(in))}
					s.putIn(group, in, next)
					return true
				}
			}
		}
	}
	return false
}

// takeAll is the state after calls that were all admitted at one time.
func takeAll(state model.State, in []timed, at time.Time) (model.State, bool) {
	for _, t := range in {
		next, d := state.Check(at, t.Request)
		if !d.Allowed {
			return nil, false
		}
		state = next
	}
	return state, true
}

// apart puts lost calls in one by one, each at an instant of its own.
func (s *search) apart(group []timed) bool {
	for i, t := range s.lost {
		if t.Call >= latestReturn(group) {
			break
		}
		for _, at := range s.instants(s.lost[i:i+1], group) {
			with, d := s.state.Check(at, t.Request)
			if !d.Allowed {
				continue // leaves no trace
			}
			if *s.tries--; *s.tries < 0 {
				return false
			}
			branch := search{state: with, previous: s.previous, lost: without(s.lost, i), tries: s.tries, without: s.state}
			if branch.follow(group) == nil {
				s.guess(group)
				s.last = checkpoint{}
				s.state, s.lost, s.settledN = branch.state, branch.lost, s.settledN+1+branch.settledN
				return true
			}
		}
	}
	return false
}

// guess begins to follow what the rule does without the lost calls, from before the group on.
func (s *search) guess(group []timed) {
	s.guessed = group[len(group)-1]
	if s.without == nil && s.state != nil {
		s.without = s.state
		s.take(group)
	}
}

// generous finds a decision that no lost call can explain.
func (s *search) generous(group []timed) *Difference {
	if s.without == nil {
		return nil
	}
	if len(group) == 1 && !s.gives && !group[0].Released() { // of what else is held, without may know too little
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
