package replay

// A call whose reply was lost is put in where a later reply shows it. When it came in is a guess, so what was guessed last
// is kept, and tried at other times when a reply shows that it was wrong.

import (
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/model"
)

// checkpoint is where lost calls were put in last, and at what times.
type checkpoint struct {
	state    model.State // before them; nil if there is none
	previous timed
	at       timed // the head of the decisions that showed them
	in       []timed
	times    []time.Time
}

// retime looks whether lost calls came in at another time than was guessed: a log's reply points at the time of the
// event that has to leave it. All decisions since have to follow from that, too.
func (s *search) retime(decided []timed, at int, group []timed) bool {
	c := s.last
	if c.state == nil || c.at.era() != group[0].era() {
		return false
	}
	from := at
	for from > 0 && decided[from-1].at >= c.at.at {
		from--
	}
	d, w := group[0].Decision, group[0].Request.Limit.Window
	for _, hint := range []time.Time{d.At.Add(d.RetryAfter - w), d.At.Add(d.ResetAfter - w)} {
		if hint.After(c.at.Decision.At) || c.previous.Op != nil && c.previous.era() == c.at.era() && hint.Before(c.previous.Decision.At) {
			continue
		}
		for i := range c.in {
			times := slices.Clone(c.times)
			times[i] = hint
			if *s.tries--; *s.tries < 0 {
				return false
			}
			if state, ok := c.replay(times, decided[from:at+len(group)]); ok {
				s.state, s.last.times = state, times
				return true
			}
		}
	}
	return false
}

// replay is the state after the decisions if the lost calls came in at those times.
func (c checkpoint) replay(times []time.Time, decided []timed) (model.State, bool) {
	order := make([]int, len(times))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return times[i].Compare(times[j]) })
	state := c.state
	for _, i := range order {
		next, d := state.Check(times[i], c.in[i].Request)
		if !d.Allowed {
			return nil, false
		}
		state = next
	}
	probe := search{state: state}
	for len(decided) > 0 {
		n := tie(decided)
		next, d := probe.anyOrder(decided[:n])
		if d != nil {
			return nil, false
		}
		probe.state, decided = next, decided[n:]
	}
	return probe.state, true
}

// putIn settles lost calls: they had counted.
func (s *search) putIn(group, in []timed, next model.State) {
	s.guess(group)
	s.state = next
	s.settledN += int64(len(in))
	for _, t := range in {
		for i := range s.lost {
			if s.lost[i].Op == t.Op {
				s.lost = without(s.lost, i)
				break
			}
		}
	}
}

// instants are the times at which lost calls may have been decided so that the group's replies follow: just before them,
// just after what came before, the time that a reply's own reset or retry points at, and the time that makes up for what
// a bucket had refilled since.
func (s *search) instants(in, group []timed) []time.Time {
	w := in[0].Request.Limit.Window
	head := group[0].Decision
	candidates := []time.Time{head.At, head.At.Add(head.ResetAfter - w), head.At.Add(head.RetryAfter - w)}
	if state, ok := takeAll(s.state, in, head.At); ok {
		_, got := state.Check(head.At, group[0].Request)
		candidates = append(candidates, head.At.Add(head.ResetAfter-got.ResetAfter))
	}
	var previous time.Time
	if s.previous.Op != nil && s.previous.era() == group[0].era() {
		previous = s.previous.Decision.At
		candidates = append(candidates, previous)
	}
	possible := candidates[:0]
	for _, at := range candidates {
		if !at.IsZero() && !at.Before(previous) && !at.After(head.At) {
			possible = append(possible, at)
		}
	}
	return possible
}
