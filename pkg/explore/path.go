package explore

import (
	"slices"
	"strings"
)

// path is a way from the start: its last step, and the way there. The way of no steps is nil.
type path struct {
	before *path
	last   choice
	steps  int
	splits int // pipelines taken apart
	deaths int
}

// then is p and a step more.
func (p *path) then(e edge) *path {
	next := path{before: p, last: e.choice, steps: 1}
	if p != nil {
		next.steps, next.splits, next.deaths = p.steps+1, p.splits, p.deaths
	}
	if e.choice.dies {
		next.deaths++
	}
	if p != nil && e.follows && p.last.client != e.choice.client {
		next.splits++
	}
	return &next
}

func (p *path) choices() (all []choice) {
	for ; p != nil; p = p.before {
		all = append(all, p.last)
	}
	slices.Reverse(all)
	return all
}

// simpler tells whether p shows the same as another without a death, or in fewer steps, or in as many with fewer
// pipelines taken apart.
func (p *path) simpler(than *path) bool {
	switch {
	case p.deaths != than.deaths:
		return p.deaths < than.deaths
	case p.steps != than.steps:
		return p.steps < than.steps
	case p.splits != than.splits:
		return p.splits < than.splits
	}
	return p.compare(than) < 0
}

// longer tells whether the clients got more in each other's way on p than on another.
func (p *path) longer(than *path) bool {
	if p.steps != than.steps {
		return p.steps > than.steps
	}
	return p.simpler(than)
}

// compare sorts ways of as many steps as their orders read: by the first letter that differs.
func (p *path) compare(with *path) int {
	if p == with {
		return 0
	}
	if earlier := p.before.compare(with.before); earlier != 0 {
		return earlier
	}
	return strings.Compare(p.last.String(), with.last.String())
}

// ways are the best ways to all positions behind the start.
func (root *node) ways(better func(p, than *path) bool) map[*node]*path {
	best := map[*node]*path{}
	for _, n := range root.sorted() {
		for _, e := range n.next {
			if p := best[n].then(e); best[e.to] == nil || better(p, best[e.to]) {
				best[e.to] = p
			}
		}
	}
	return best
}
