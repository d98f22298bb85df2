package explore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// A search keeps a graph of positions. Since every step adds to what a client was answered, or ends it, no position comes
// twice on one way: the graph has no circle, and what lies behind each position can be added up from its end.
type search struct {
	*explorer
	known  map[string]*node
	nodes  []*node // as they were met; the first is the start
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
	if err := s.count(root); err != nil {
		return s.result, err
	}
	simplest := root.ways((*path).simpler)
	if err := s.confirm(ctx, simplest); err != nil {
		return s.result, err
	}
	return s.result, s.show(ctx, simplest)
}

// count adds up what was found.
func (s *search) count(root *node) error {
	r := &s.result
	r.Orders, r.Violating = root.sum()
	for n := int64(1); s.symmetric() && n <= int64(s.plan.Clients); n++ {
		r.Orders, r.Violating = times(r.Orders, n), times(r.Violating, n)
	}
	if r.Orders == math.MaxInt64 {
		return errors.New("more orders than can be counted")
	}
	r.States, r.Retries = int64(len(s.nodes)), root.retries()
	return nil
}

// node finds a position in the graph, or puts it there.
func (s *search) node(p position) *node {
	key := p.key()
	n, known := s.known[key]
	if !known {
		n = &node{position: p}
		s.known[key], s.nodes, s.todo = n, append(s.nodes, n), append(s.todo, n)
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
