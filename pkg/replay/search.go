package replay

import (
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// search replays decisions in their order. Where the model disagrees, it first tries the other orders of decisions that
// bear the same microsecond, then calls before them whose replies were lost, see guess.go. What no order and no lost call
// explains is a difference. The first is what the verdict rests on; what it admits or denies wrongly is counted, and so is
// that of later ones, see resync.go.
//
// There are times when nothing can be guessed: after a difference that leaves the state unknown, around a step of the clock
// with a lost call about, and where there were too many guesses. Then the search waits until replies tell the state again.
// A decision in the meantime accuses only if it is more generous than the rule makes with every lost call left out, for a
// lost call can only take; by a rule of how many at once, where it can also give back, none accuses then.
type search struct {
	rule     model.Rule
	guesses  []guess // what the key may hold; none while that is not known
	spare    []guess
	previous timed           // the last decision
	era      int64           // its era; 0 before the first
	lost     []timed         // what may come in yet, by call
	allLost  []timed         // what ever may have
	tries    *int            // how many more places for lost calls to try: all sets of many would take for ever
	alone    map[string]bool // ids that but one lost call bears, by a rule of how many at once
	gaveUp   bool            // there were too many of them, or of decisions that bore one microsecond

	without model.State // while nothing is known: with every lost call left out; nil if that is not known either
	guessed timed       // the decision since which that is so
	fuzzy   bool        // the state may lie within a microsecond of the true one
	eras    []era
	again   int // the place in all at which to look for the state again after a difference, and how many decisions
	pause   int // to leave out after that, if it is not found
	found
}

// found is what a search came to.
type found struct {
	difference *Difference // the first that nothing explains
	over       int64       // events admitted where the rule denies, in all differences
	under      int64       // events denied where the rule admits
	open       *Difference // the first that lost calls may explain, though they were too many to tell
	replayed   int64       // decisions that the model makes too
	loose      int64       // decisions made while the state was not known
	settledN   int64       // lost calls of which later replies told that they had counted
	marks      []mark      // what the key held; by a rule whose limiter may answer from memory
	excused    bool        // nothing was known again at the end
}

// mostGuesses is how many guesses are followed at once.
const mostGuesses = 64

// triesAtOnce is how many lost calls are looked at by a rule of how many at once, where any may come in anywhere unseen.
const triesAtOnce = 100_000

// replay follows the model through all decisions.
func replay(decided, lost []timed, rule model.Rule, eras []era) found {
	tries := 10_000 + 500*len(lost) // enough for some lost calls before each reply that shows them
	unnamed := nameless(decided, lost)
	s := search{rule: rule, tries: &tries, eras: eras, alone: map[string]bool{}}
	if rule.AtOnce { // where two of no name would be one holder
		for i := range lost {
			s.alone[lost[i].Request.ID] = unnamed[i].Request.ID == ""
		}
		unnamed, tries = lost, triesAtOnce
	}
	s.lost, s.allLost = unnamed, unnamed
	s.guesses = []guess{{most: rule.Fresh, lost: s.lost}}
	for at := 0; at < len(decided); {
		group := decided[at : at+tie(decided[at:])]
		s.step(decided, at, group)
		s.noted(group[0].at)
		at += len(group)
	}
	s.excused = len(s.guesses) == 0
	s.settle()
	return s.found
}

// nameless are the lost calls, without the ids that no other call bears, since by those alone they differ from others of
// their cost.
func nameless(decided, lost []timed) []timed {
	calls := map[string]int{}
	for _, t := range lost {
		calls[t.Request.ID]++
	}
	for _, t := range decided {
		if n, ok := calls[t.Request.ID]; ok {
			calls[t.Request.ID] = n + 1
		}
	}
	lost = slices.Clone(lost)
	for i, t := range lost {
		if calls[t.Request.ID] == 1 {
			op := *t.Op
			op.Request.ID = ""
			lost[i].Op = &op
		}
	}
	return lost
}

// step takes the decisions of one microsecond, which begin at a place in all.
func (s *search) step(decided []timed, at int, group []timed) {
	defer func() { s.previous, s.era = group[0], group[0].era() }()
	if s.era != group[0].era() {
		s.newEra(group[0])
	}
	s.forget(group)
	if len(s.guesses) == 0 {
		if d := s.generous(group); d != nil {
			s.differ(d, decided, at, group)
			return
		}
		if !s.resumes(decided, at) {
			s.loose += int64(len(group))
			return
		}
	}
	s.gaveUp = false
	next := s.spare[:0]
	for _, g := range s.guesses {
		next = s.expand(g, group, next)
	}
	if len(next) > 1 {
		next = distinct(next)
	}
	if len(next) > 0 && len(next) <= mostGuesses && !s.gaveUp { // else the true one may be missing
		s.guesses, s.spare = next, s.guesses
		s.replayed += int64(len(group))
		return
	}
	_, want, _ := s.guesses[0].check(group[0])
	d := &Difference{Op: *group[0].Op, Want: want}
	if len(next) == 0 && !s.gaveUp && !(s.fuzzy && near(*d)) {
		s.differ(d, decided, at, group)
		return
	}
	if s.open == nil {
		s.open = d
	}
	s.loosen(group[len(group)-1])
	s.take(group)
	s.loose += int64(len(group))
}

// distinct makes one of guesses that hold the same, after which all may come in that may after any of them.
func distinct(guesses []guess) []guess {
	kept := guesses[:0]
	for _, g := range guesses {
		if i := slices.IndexFunc(kept, g.alike); i >= 0 {
			kept[i].lost = union(kept[i].lost, g.lost)
		} else {
			kept = append(kept, g)
		}
	}
	return kept
}

// union is two lists by call as one.
func union(a, b []timed) []timed {
	all := slices.Concat(a, b)
	sortTimed(all)
	return slices.CompactFunc(all, func(x, y timed) bool { return x.Op == y.Op })
}

// loosen lets go of all guesses: at a decision, and for two windows from it, nothing is known but that the key was fresh
// once.
func (s *search) loosen(at timed) {
	s.settle()
	s.guesses, s.without, s.guessed, s.fuzzy = nil, s.rule.Fresh, at, false
}

// settle counts the lost calls that came in.
func (s *search) settle() {
	if len(s.guesses) > 0 {
		s.settledN += s.guesses[0].settled
	}
}

// newEra goes over a step of the clock. The first request pulls the state to the new clock, even if it was denied. If it
// may have been a lost one, or a guess was blurred, the time of that is not known, and all that can be said for two windows
// is that nothing is more generous than a fresh key. A key whose TTL had passed before a step back may have been taken
// away by then, or not, and lives on if not.
func (s *search) newEra(first timed) {
	_, end := s.eras[s.era].bounds(s.eras[s.era].to)
	gone := func(state model.State) bool { return !end.IsZero() && state.Expires().Before(end) }
	if len(s.guesses) == 0 {
		s.guessed = first
		switch {
		case s.without == nil:
		case s.pulled(first) || gone(s.without):
			s.without = s.rule.Fresh
		default:
			pull := first.Request
			pull.Cost, pull.Act = limiter.MaxCost, model.Take
			s.without, _ = s.without.Check(first.Decision.At, pull)
		}
		return
	}
	if s.pulled(first) || slices.ContainsFunc(s.guesses, func(g guess) bool { return g.blurred(s.previous.at) }) {
		s.loosen(first)
		return
	}
	if g := s.guesses[0]; slices.ContainsFunc(s.guesses, func(g guess) bool { return gone(g.most) }) {
		g.most = s.rule.Fresh
		s.guesses = append(s.guesses, g)
	}
}

// pulled tells whether a lost call may have been the first of an era.
func (s *search) pulled(first timed) bool {
	return slices.ContainsFunc(s.lost, func(t timed) bool { return t.Call < first.Return })
}

// forget drops the lost calls that can no longer come in.
func (s *search) forget(group []timed) {
	if len(s.lost) == 0 || s.previous.Op == nil {
		return
	}
	call := s.previous.Call
	for _, t := range group {
		call = min(call, t.Call)
	}
	over := func(t timed) bool { return t.Until != 0 && t.Until < call }
	if !slices.ContainsFunc(s.lost, over) {
		return
	}
	left := func(lost []timed) []timed { return slices.DeleteFunc(slices.Clone(lost), over) }
	s.lost = left(s.lost)
	for i := range s.guesses {
		s.guesses[i].lost = left(s.guesses[i].lost)
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
	if s.guessed.Op != nil && weighsNoMore(s.guessed, decided[at]) && !s.hidden(decided, at) {
		if state := s.since(decided[:at], decided[at]); s.makes(state, decided[at:], probation) {
			s.know(state)
			return true
		}
	}
	if at == 0 || s.rule.AtOnce {
		return false
	}
	for _, state := range s.takes(decided[at-1]) {
		if s.makes(state, decided[at:], 5*probation) {
			s.know(state)
			s.fuzzy = true
			return true
		}
	}
	return false
}

// hidden tells whether lost calls may have come in, in the last two windows before a place, that the replies after it need
// not show: of how many at once they tell which lease ends first and which last, and nothing of those in between.
func (s *search) hidden(decided []timed, at int) bool {
	if !s.rule.AtOnce {
		return false
	}
	from := s.weighing(decided[:at], decided[at])
	return slices.ContainsFunc(s.allLost, func(t timed) bool {
		return t.Call < decided[at].Return && (t.Until == 0 || t.Until >= decided[from].Call)
	})
}

// know takes a state for what the key holds.
func (s *search) know(state model.State) {
	s.guesses, s.without = []guess{{most: state, lost: s.lost}}, nil
}

// probation is how many decisions a state that was recovered has to make before it is believed.
const probation = 10

// weighing is the place of the first decision of the last two windows.
func (s *search) weighing(decided []timed, now timed) int {
	from := len(decided)
	for from > 0 && !weighsNoMore(decided[from-1], now) && decided[from-1].era() == now.era() {
		from--
	}
	return from
}

// since is the state after all that was admitted in the last two windows.
func (s *search) since(decided []timed, now timed) model.State {
	state := s.rule.Fresh
	for _, t := range decided[s.weighing(decided, now):] {
		if t.Decision.Allowed {
			state, _ = state.Check(t.Decision.At, evident(t))
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
		_, full := s.rule.Fresh.Check(d.At, r)
		if !full.Allowed {
			break
		}
		if full.ResetAfter < d.ResetAfter {
			continue
		}
		state, _ := s.rule.Fresh.Check(d.At.Add(d.ResetAfter-full.ResetAfter), r)
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
	g := guess{most: state}
	for at := 0; at < min(n, len(decided)); {
		group := decided[at : at+tie(decided[at:])]
		tries := among(len(group))
		var ok bool
		if g, ok = g.follow(group, &tries); !ok {
			return false
		}
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

// generous finds a decision that no lost call can explain.
func (s *search) generous(group []timed) *Difference {
	if s.without == nil {
		return nil
	}
	for _, t := range group {
		if s.rule.AtOnce {
			continue
		}
		_, want := s.without.Check(t.Decision.At, t.Request)
		if t.Decision.Allowed && !want.Allowed || t.Decision.Allowed == want.Allowed && t.Decision.Remaining > want.Remaining {
			return &Difference{Op: *t.Op, Want: want}
		}
	}
	s.take(group)
	return nil
}

// take lets the state without lost calls take what was admitted.
func (s *search) take(group []timed) {
	for _, t := range group {
		if t.Decision.Allowed {
			s.without, _ = s.without.Check(t.Decision.At, t.Request)
		}
	}
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
