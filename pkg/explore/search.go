package explore

import (
	"context"
	"fmt"
	"slices"
)

// A search keeps a graph of states. Each run goes from the start along a given beginning and on by the first choice at
// every state, until it ends or comes to a state that is known. Every other choice at a state that is new is a
// beginning to run later. Since every step adds to what a client was answered, or ends it, no state comes twice on one
// path: the graph has no circle, and what lies behind each state can be added up from its end.
type search struct {
	*explorer
	states map[string]*node
	root   *node
	todo   []beginning
	result Result
}

// node is a state.
type node struct {
	state snapshot
	next  []edge     // by each choice that could be made; none at an end
	wrong *Violation // of an end that breaks the rule

	orders, violating int64 // ways from here to an end, once summed
}

// edge is a step from one state to another.
type edge struct {
	choice  choice
	follows bool // as Step has it
	to      *node
}

// beginning is a way to a state, and the choice to be made there last.
type beginning struct {
	key     string  // of the state
	nodes   []*node // the start and all that each choice but the last led to
	choices []choice
}

func (x *explorer) search(ctx context.Context, progress func(int64)) (Result, error) {
	s := &search{explorer: x, states: map[string]*node{}, todo: []beginning{{}}, result: Result{Slots: x.judge.slots}}
	for len(s.todo) > 0 {
		b := s.todo[len(s.todo)-1]
		s.todo = s.todo[:len(s.todo)-1]
		if err := s.follow(ctx, b); err != nil {
			return s.result, err
		}
		s.result.Runs++
		if progress != nil {
			progress(s.result.Runs)
		}
		if s.result.Runs == maxRuns {
			return s.result, fmt.Errorf("more than %d runs", maxRuns)
		}
	}
	s.result.Orders, s.result.Violating = s.root.sum()
	if x.symmetric() {
		for n := range int64(x.plan.Clients) {
			s.result.Orders, s.result.Violating = s.result.Orders*(n+1), s.result.Violating*(n+1)
		}
	}
	s.result.States = int64(len(s.states))
	return s.result, s.show(ctx)
}

// follow runs one beginning, and on from it.
func (s *search) follow(ctx context.Context, b beginning) error {
	r, err := s.explorer.begin(ctx, false)
	if err != nil {
		return err
	}
	ok, err := s.along(ctx, r, b)
	if err != nil {
		return err
	}
	if !ok {
		return r.abandon(ctx)
	}
	choices, nodes := b.choices, b.nodes
	for {
		n, known := s.arrive(r, choices)
		s.link(r, nodes, choices, n)
		if known {
			return r.abandon(ctx)
		}
		can := r.can()
		if len(can) == 0 {
			return s.end(ctx, r, n)
		}
		key := s.keyOf(r, choices)
		nodes = append(slices.Clone(nodes), n)
		for _, c := range slices.Backward(can[1:]) {
			s.todo = append(s.todo, beginning{key, nodes, append(slices.Clone(choices), c)})
		}
		if _, err := r.step(ctx, can[0], nil); err != nil {
			return err
		}
		choices = append(slices.Clone(choices), can[0])
	}
}

// along brings a run to where the beginning ends. It is not ok if its last choice is a death and the client asks Redis
// nothing that it could die of. What Redis holds on the way is known, and looked at when it matters.
func (s *search) along(ctx context.Context, r *run, b beginning) (ok bool, err error) {
	last := len(b.choices) - 1
	for i, c := range b.choices {
		var known *snapshot
		if i < last-1 {
			known = &b.nodes[i+1].state
		}
		if i == last && !r.plan.Full && r.key() != b.key {
			return false, fmt.Errorf("%w: order %s came to another state when it was run again", ErrNotDeterministic, r.s.Order)
		}
		if ok, err := r.step(ctx, c, known); err != nil || !ok {
			return false, err
		}
	}
	if last >= 0 && b.choices[last].dies {
		s.result.Crashes++
	}
	return true, nil
}

// arrive finds the run's state.
func (s *search) arrive(r *run, choices []choice) (n *node, known bool) {
	key := s.keyOf(r, choices)
	if n, known = s.states[key]; !known {
		n = &node{state: r.state}
		s.states[key] = n
	}
	return n, known
}

// link notes the step that led to n.
func (s *search) link(r *run, nodes []*node, choices []choice, n *node) {
	if len(nodes) == 0 {
		s.root = n
		return
	}
	from, at := nodes[len(nodes)-1], len(choices)-1
	from.next = append(from.next, edge{choices[at], r.s.Steps[at].Follows, n})
}

// keyOf is what states are told apart by. In a full search every order is a state of its own.
func (s *search) keyOf(r *run, choices []choice) string {
	if s.plan.Full {
		return order(choices)
	}
	return r.key()
}

// end judges a complete schedule.
func (s *search) end(ctx context.Context, r *run, n *node) error {
	if err := r.finish(ctx); err != nil {
		return err
	}
	s.result.Retries = max(s.result.Retries, r.s.Retries)
	n.wrong = r.s.Violation
	return nil
}

// sum adds up the ways from a state to an end, and those of them that break the rule.
func (n *node) sum() (orders, violating int64) {
	if n.orders > 0 {
		return n.orders, n.violating
	}
	for _, e := range n.next {
		o, v := e.to.sum()
		n.orders, n.violating = n.orders+o, n.violating+v
	}
	if len(n.next) == 0 {
		n.orders = 1
		if n.wrong != nil {
			n.violating = 1
		}
	}
	return n.orders, n.violating
}

// path is a way from the start.
type path struct {
	choices []choice
	splits  int // pipelines taken apart
}

// simpler tells whether p shows the same as another in fewer steps, or in as many with fewer pipelines taken apart.
func (p *path) simpler(than *path) bool {
	switch {
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
	next := &path{append(slices.Clone(p.choices), e.choice), p.splits}
	if n := len(p.choices); e.follows && p.choices[n-1].client != e.choice.client {
		next.splits++
	}
	return next
}

// way returns the best of the ways from the start to an end that breaks the rule, or to one that keeps it; nil if there
// is none.
func (s *search) way(broken bool, better func(p, than *path) bool) (chosen *path, wrong *Violation) {
	best := map[*node]*path{s.root: {}}
	for _, n := range s.root.sorted() {
		p := best[n]
		for _, e := range n.next {
			if q := p.then(e); best[e.to] == nil || better(q, best[e.to]) {
				best[e.to] = q
			}
		}
		if len(n.next) == 0 && (n.wrong != nil) == broken && (chosen == nil || better(p, chosen)) {
			chosen, wrong = p, n.wrong
		}
	}
	return chosen, wrong
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
func (s *search) show(ctx context.Context) error {
	chosen, wrong := s.way(true, (*path).simpler)
	if chosen == nil {
		chosen, _ = s.way(false, (*path).longer)
	}
	again, err := s.explorer.watch(ctx, chosen.choices, true)
	if err != nil {
		return err
	}
	s.result.Shown = again
	if again.Order != order(chosen.choices) || !sameKind(again.Violation, wrong) {
		return fmt.Errorf("%w: order %s came out differently when it was run again", ErrNotDeterministic, order(chosen.choices))
	}
	return nil
}

func sameKind(a, b *Violation) bool {
	return a == b || a != nil && b != nil && a.Kind == b.Kind
}

// watch runs one schedule, if asked to with a look at Redis after each step. Where the choices end before all clients have, the
// first that can goes on.
func (x *explorer) watch(ctx context.Context, choices []choice, observe bool) (Schedule, error) {
	r, err := x.begin(ctx, observe)
	if err != nil {
		return Schedule{}, err
	}
	for can := r.can(); len(can) > 0; can = r.can() {
		who := can[0]
		if at := len(r.s.Steps); at < len(choices) {
			who = choices[at]
		}
		if !r.alive(who) {
			return r.s, fmt.Errorf("%w: client %s had ended before step %d", ErrNotDeterministic, Name(who.client), len(r.s.Steps)+1)
		}
		if ok, err := r.step(ctx, who, nil); err != nil {
			return r.s, err
		} else if !ok {
			return r.s, fmt.Errorf("%w: client %s asks nothing in step %d", ErrNotDeterministic, Name(who.client), len(r.s.Steps)+1)
		}
	}
	return r.s, r.finish(ctx)
}

func (r *run) alive(who choice) bool {
	c := r.clients[who.client]
	return !c.dead && c.ended < r.plan.Calls
}
