package explore

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// heldSample is how many of the ends that keep the rule are reached once more by live clients.
const heldSample = 100

// confirm has live clients go one way to each end that breaks the rule, and to some of those that keep it: all must come
// out as the search says. What it remembers of Redis and of clients is checked in whole schedules here.
func (s *search) confirm(ctx context.Context, ways map[*node]*path) error {
	for _, n := range s.sample() {
		choices := ways[n].choices()
		again, err := s.live(ctx, choices, false)
		if err != nil {
			return err
		}
		if !s.cameOut(again, n) {
			return fmt.Errorf("%w: order %s came out differently when live clients ran it", ErrNotDeterministic, order(choices))
		}
	}
	return nil
}

// sample are the ends that break the rule, and at most heldSample of the others, from all over the search.
func (s *search) sample() (ends []*node) {
	var held []*node
	for _, n := range s.nodes {
		switch {
		case len(n.next) > 0:
		case n.wrong != nil:
			ends = append(ends, n)
		default:
			held = append(held, n)
		}
	}
	for i := range min(heldSample, len(held)) {
		ends = append(ends, held[i*len(held)/min(heldSample, len(held))])
	}
	return ends
}

// cameOut tells whether a schedule ended as n does, in all that the judge looks at.
func (s *search) cameOut(as Schedule, n *node) bool {
	for i, c := range n.calls {
		if got := as.Calls[i]; got.Ended() != c.Ended() || got.Died != c.Died || !s.judge.same(got.Decision, c.Decision) {
			return false
		}
	}
	return sameKind(as.Violation, n.wrong)
}

// show runs the schedule to be shown again, and looks at Redis after each step.
func (s *search) show(ctx context.Context, ways map[*node]*path) (err error) {
	s.result.Found = s.found(ways)
	end := s.best(ways, true, (*path).simpler)
	if end == nil {
		ways = s.nodes[0].ways((*path).longer)
		end = s.best(ways, false, (*path).longer)
	}
	choices := ways[end].choices()
	if s.result.Shown, err = s.live(ctx, choices, true); err != nil {
		return err
	}
	if !s.cameOut(s.result.Shown, end) {
		return fmt.Errorf("%w: order %s came out differently when it was run again", ErrNotDeterministic, order(choices))
	}
	return nil
}

// found are the simplest ways to each kind of violation, the simplest first.
func (s *search) found(ways map[*node]*path) (all []Found) {
	ends := map[Kind]*node{}
	for _, n := range s.nodes {
		if n.wrong != nil && (ends[n.wrong.Kind] == nil || ways[n].simpler(ways[ends[n.wrong.Kind]])) {
			ends[n.wrong.Kind] = n
		}
	}
	for _, n := range slices.SortedFunc(maps.Values(ends), func(a, b *node) int {
		if ways[a].simpler(ways[b]) {
			return -1
		}
		return 1
	}) {
		all = append(all, Found{*n.wrong, order(ways[n].choices())})
	}
	return all
}

// best is the end with the best way to it, of those that break the rule or those that keep it; nil if there is none.
func (s *search) best(ways map[*node]*path, broken bool, better func(p, than *path) bool) (end *node) {
	for _, n := range s.nodes {
		if len(n.next) == 0 && (n.wrong != nil) == broken && (end == nil || better(ways[n], ways[end])) {
			end = n
		}
	}
	return end
}

func sameKind(a, b *Violation) bool {
	return a == b || a != nil && b != nil && a.Kind == b.Kind
}
