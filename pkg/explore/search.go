package explore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// A search keeps a graph of positions. Since every step adds to what a client was answered, or ends it, no position comes
// twice on one way: the graph has no circle, and what lies behind each position can be added up from its end.
type search struct {
	*explorer
	known  map[string]*node
	todo   []*node
	result Result
}

// node is a position in the graph.
type node struct {
	position
	next  []edge     // by each choice that can be made; none at an end
	wrong *Violation // of an end that breaks the rule

	orders, violating int64 // ways from here to an end, once summed
}

// edge is a step from one position to another.
type edge struct {
	choice  choice
	follows bool  // as Step has it
	retries int64 // that the limiter counted meanwhile
	to      *node
}

func (x *explorer) search(ctx context.Context, progress func(int64)) (Result, error) {
	s := &search{explorer: x, known: map[string]*node{}, result: Result{Slots: x.judge.slots}}
	root := s.node(x.startPosition())
	for len(s.todo) > 0 {
		n := s.todo[len(s.todo)-1]
		s.todo = s.todo[:len(s.todo)-1]
		if err := s.goOn(ctx, n, progress); err != nil {
			return s.result, err
		}
	}
	s.result.Orders, s.result.Violating = root.sum()
	for n := int64(1); x.symmetric() && n <= int64(x.plan.Clients); n++ {
		s.result.Orders, s.result.Violating = times(s.result.Orders, n), times(s.result.Violating, n)
	}
	if s.result.Orders == math.MaxInt64 {
		return s.result, errors.New("more orders than can be counted")
	}
	s.result.States, s.result.Retries = int64(len(s.known)), root.retries()
	return s.result, s.show(ctx, root)
}

// node finds a position in the graph, or puts it there.
func (s *search) node(p position) *node {
	key := p.key()
	n, known := s.known[key]
	if !known {
		n = &node{position: p}
		s.known[key], s.todo = n, append(s.todo, n)
	}
	return n
}

// goOn makes every step that can be made from a position, or judges it.
func (s *search) goOn(ctx context.Context, n *node, progress func(int64)) (err error) {
	can := s.can(n.position)
	if len(can) == 0 {
		n.wrong, err = s.finish(ctx, n.position)
		return err
	}
	for _, c := range can {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		next, follows, ok, err := s.step(ctx, n.position, c)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		retries := next.actors[c.client].at.retries - n.actors[c.client].at.retries
		n.next = append(n.next, edge{c, follows, retries, s.node(next)})
		if s.result.Steps++; s.result.Steps > maxSteps {
			return fmt.Errorf("more than %d steps", maxSteps)
		}
		if c.dies {
			s.result.Crashes++
		}
		if progress != nil {
			progress(s.result.Steps)
		}
	}
	return nil
}

// sum adds up the ways from a state to an end, and those of them that break the rule.
func (n *node) sum() (orders, violating int64) {
	if n.orders > 0 {
		return n.orders, n.violating
	}
	for _, e := range n.next {
		o, v := e.to.sum()
		n.orders, n.violating = plus(n.orders, o), plus(n.violating, v)
	}
	if len(n.next) == 0 {
		n.orders = 1
		if n.wrong != nil {
			n.violating = 1
		}
	}
	return n.orders, n.violating
}

// retries are the most on any way from a position.
func (root *node) retries() int64 {
	most := map[*node]int64{}
	for _, n := range slices.Backward(root.sorted()) {
		for _, e := range n.next {
			most[n] = max(most[n], e.retries+most[e.to])
		}
	}
	return most[root]
}

// plus and times stop at the largest number there is.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(a, b int64) int64 {
	if a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

// path is a way from the start.
type path struct {
	choices []choice
	splits  int // pipelines taken apart
	deaths  int
}

// simpler tells whether p shows the same as another without a death, or in fewer steps, or in as many with fewer
// pipelines taken apart.
func (p *path) simpler(than *path) bool {
	switch {
	case p.deaths != than.deaths:
		return p.deaths < than.deaths
	case len(p.choices) != len(than.choices):
		return len(p.choices) < len(than.choices)
	case p.splits != than.splits:
		return p.splits < than.splits
	}
	return order(p.choices) < order(than.choices)
}

// longer tells whether the clients got more in each other's way on p than on another.
func (p *path) longer(than *path) bool {
	if len(p.choices) != len(than.choices) {
		return len(p.choices) > len(than.choices)
	}
	return p.simpler(than)
}

func (p *path) then(e edge) *path {
	next := &path{append(slices.Clone(p.choices), e.choice), p.splits, p.deaths}
	if e.choice.dies {
		next.deaths++
	}
	if n := len(p.choices); e.follows && p.choices[n-1].client != e.choice.client {
		next.splits++
	}
	return next
}

// ways are the best of the ways from the start to each position.
func (root *node) ways(better func(p, than *path) bool) map[*node]*path {
	best := map[*node]*path{root: {}}
	for _, n := range root.sorted() {
		for _, e := range n.next {
			if q := best[n].then(e); best[e.to] == nil || better(q, best[e.to]) {
				best[e.to] = q
			}
		}
	}
	return best
}

// ending is a way to an end, and what is wrong there; nil if the rule was kept.
type ending struct {
	*path
	wrong *Violation
}

// broken are the simplest ways to each kind of violation, the simplest first.
func (root *node) broken() []ending {
	of := map[Kind]ending{}
	for n, p := range root.ways((*path).simpler) {
		if n.wrong != nil && (of[n.wrong.Kind].path == nil || p.simpler(of[n.wrong.Kind].path)) {
			of[n.wrong.Kind] = ending{p, n.wrong}
		}
	}
	return slices.SortedFunc(maps.Values(of), func(a, b ending) int {
		if a.simpler(b.path) {
			return -1
		}
		return 1
	})
}

// longest is a way on which the clients got in each other's way the most.
func (root *node) longest() (chosen ending) {
	for n, p := range root.ways((*path).longer) {
		if len(n.next) == 0 && (chosen.path == nil || p.longer(chosen.path)) {
			chosen = ending{p, n.wrong}
		}
	}
	return chosen
}

// sorted are all states from n on, each before those that it leads to.
func (n *node) sorted() []*node {
	var out []*node
	seen := map[*node]bool{}
	var visit func(*node)
	visit = func(n *node) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, e := range n.next {
			visit(e.to)
		}
		out = append(out, n)
	}
	visit(n)
	slices.Reverse(out)
	return out
}

// show runs the schedule to be shown again, and looks at Redis after each step.
func (s *search) show(ctx context.Context, root *node) error {
	broken := root.broken()
	for _, e := range broken {
		s.result.Found = append(s.result.Found, Found{*e.wrong, order(e.choices)})
	}
	if len(broken) == 0 {
		broken = []ending{root.longest()}
	}
	chosen := broken[0]
	again, err := s.watch(ctx, chosen.choices)
	if err != nil {
		return err
	}
	s.result.Shown = again
	if again.Order != order(chosen.choices) || !sameKind(again.Violation, chosen.wrong) {
		return fmt.Errorf("%w: order %s came out differently when it was run again", ErrNotDeterministic, order(chosen.choices))
	}
	return nil
}

func sameKind(a, b *Violation) bool {
	return a == b || a != nil && b != nil && a.Kind == b.Kind
}
