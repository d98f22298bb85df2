package explore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// run is one way of live clients through their commands, as far as it has come.
type run struct {
	*explorer
	s       Schedule
	state   snapshot
	ended   uint // a bit for each call that has ended
	observe bool // as a person would, after each step
}

// begin restores the start and gives every client a fresh limiter. Where the start is not in Redis but in the process,
// the first client's limiter makes it again.
func (x *explorer) begin(ctx context.Context) (*run, error) {
	for _, c := range x.clients {
		if err := x.renew(c); err != nil {
			return nil, err
		}
	}
	if err := x.restore(x.start); err != nil {
		return nil, err
	}
	r := &run{explorer: x, state: x.start}
	r.lineUp()
	return r, x.refill(ctx, 0)
}

func (r *run) lineUp() {
	r.s.Calls = r.plan.lineUp()
}

// call is the index of a client's call.
func (r *run) call(client, n int) int { return client*r.plan.calls() + n }

func (r *run) canGo(i int) bool {
	c := r.clients[i]
	return !c.dead && c.ended < r.plan.calls()
}

// step lets a client's parked command run, or lets it begin with the first of a call, and waits for what it does next.
// A client that is to die and then asks Redis nothing cannot: ok is false.
func (r *run) step(ctx context.Context, who choice) (ok bool, err error) {
	c, step := r.clients[who.client], Step{Client: who.client, Died: who.dies, Ended: -1}
	if c.begun == c.ended {
		if err := r.beginCall(ctx, who.client, &step); err != nil {
			return false, err
		}
	}
	if c.parked == nil && who.dies {
		return false, nil
	}
	if c.parked != nil {
		if err := r.command(ctx, who, &step); err != nil {
			return false, err
		}
	}
	r.s.Steps = append(r.s.Steps, step)
	r.s.Order += who.String()
	return true, nil
}

// beginCall lets a client begin its next call.
func (r *run) beginCall(ctx context.Context, who int, step *Step) error {
	c := r.clients[who]
	call := &r.s.Calls[r.call(who, c.begun)]
	c.begun++
	c.charged = false
	call.First, call.before = len(r.s.Steps), r.ended
	id := Name(who) + strconv.Itoa(c.begun)
	ask := func() (limiter.Decision, error) { return check(ctx, c.limiter, r.client, 1, id) }
	if call.Release {
		id = Name(who) + strconv.Itoa(c.begun-1) // of the call before
		ask = func() (limiter.Decision, error) { return r.giveBack(ctx, c.limiter, id) }
	}
	go func() {
		d, err := ask()
		r.tell(event{client: who, decision: r.plan.Entry.Rule.Untold.Blank(d), err: err})
	}()
	return r.await(ctx, who, step)
}

// command runs a client's parked command.
func (r *run) command(ctx context.Context, who choice, step *Step) error {
	c, cmd := r.clients[who.client], r.clients[who.client].parked
	c.parked = nil
	reply, err := cmd.Run()
	if err != nil {
		return err
	}
	step.Args, step.Block, step.Follows, step.Reply = cmd.Args, cmd.Block, cmd.Follows, reply
	if r.observe {
		if step.After, err = r.explorer.observe(ctx); err != nil {
			return err
		}
	}
	if r.judge.minds() {
		before := r.state
		if r.state, err = r.take(); err != nil {
			return err
		}
		c.charged = c.charged || !slices.Equal(before, r.state)
	}
	if who.dies {
		c.dead = true
		r.s.Calls[r.call(who.client, c.begun-1)].Died = true
		if err := cmd.Refuse(); err != nil {
			return err
		}
		return r.dismiss(ctx, who.client)
	}
	if err := cmd.Answer(reply.Raw); err != nil {
		return err
	}
	return r.await(ctx, who.client, step)
}

// await waits until the client has a command parked or its call has ended.
func (r *run) await(ctx context.Context, who int, step *Step) error {
	e, err := r.next(ctx, who)
	if err != nil {
		return err
	}
	c := r.clients[who]
	if e.parked != nil {
		c.parked = e.parked
		return nil
	}
	i := r.call(who, c.ended)
	c.ended++
	call := &r.s.Calls[i]
	call.Last, call.Decision, call.Charged = len(r.s.Steps), e.decision, c.charged && !e.decision.Allowed
	step.Ended = i
	r.ended |= 1 << i
	if e.err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, e.err)
	}
	return nil
}

// next waits for what a client does.
func (r *run) next(ctx context.Context, who int) (event, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case e := <-r.events:
		if e.client != who {
			return e, fmt.Errorf("%w: client %s went on while %s was to run", ErrNotDeterministic, Name(e.client), Name(who))
		}
		return e, nil
	case <-timer.C:
		return event{}, fmt.Errorf("%w: client %s did not go on for %v", ErrHung, Name(who), patience)
	case <-ctx.Done():
		return event{}, context.Cause(ctx)
	}
}

// dismiss refuses whatever a client still sends until its call has ended.
func (r *run) dismiss(ctx context.Context, who int) error {
	for {
		e, err := r.next(ctx, who)
		if err != nil {
			return err
		}
		if e.parked == nil {
			return nil
		}
		if err := e.parked.Refuse(); err != nil {
			return err
		}
	}
}

// abandon ends a run in the middle.
func (r *run) abandon(ctx context.Context) error {
	for i, c := range r.clients {
		if c.parked == nil {
			continue
		}
		if err := c.parked.Refuse(); err != nil {
			return err
		}
		c.parked = nil
		if err := r.dismiss(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// finish judges a run in which nobody has anything left to do.
func (r *run) finish(ctx context.Context) error {
	for _, c := range r.clients {
		if l, ok := c.limiter.(limiter.Retrier); ok {
			r.s.Retries += l.Retries()
		}
	}
	left, err := r.take()
	if err != nil {
		return err
	}
	if r.s.Violation = r.judge.verdict(r.s.Calls, left); r.s.Violation != nil {
		return nil
	}
	var survivor limiter.Limiter
	if i := slices.IndexFunc(r.clients, func(c *client) bool { return !c.dead }); i >= 0 {
		survivor = r.clients[i].limiter
	}
	v, err := r.afterwards(ctx, survivor)
	r.s.Violation = v
	return err
}

// afterwards lets time pass until the key is as good as unused, and a client that lived through it all ask; then again,
// and one that was not there. Whoever is refused has been locked out.
func (x *explorer) afterwards(ctx context.Context, survivor limiter.Limiter) (*Violation, error) {
	x.passing.Store(true)
	defer x.passing.Store(false)
	defer x.setClock(x.at)
	t := x.at
	for n, l := range []limiter.Limiter{survivor, x.late} {
		if l == nil {
			continue
		}
		t = t.Add(x.judge.longest + 2*time.Millisecond)
		x.setClock(t)
		d, err := patiently(ctx, l, x.client, 1, "later-"+strconv.Itoa(n))
		if err != nil {
			return nil, fmt.Errorf("ask when all is over: %w", err)
		}
		if !d.Allowed {
			return &Violation{Locked, -1, fmt.Sprintf("refused %v later, when the key must be as good as unused", t.Sub(x.at))}, nil
		}
	}
	return nil, nil
}

// live runs one schedule of live clients and, if it is to be shown, looks at Redis after each step. Where the choices end
// before all clients have, the first that can goes on.
func (x *explorer) live(ctx context.Context, choices []choice, shown bool) (Schedule, error) {
	r, err := x.begin(ctx)
	if err != nil {
		return Schedule{}, err
	}
	if r.observe = shown; shown {
		if r.s.Before, err = x.observe(ctx); err != nil {
			return r.s, err
		}
	}
	for {
		who, more := r.choose(choices)
		if done := len(r.s.Steps); !more && done < len(choices) {
			return r.s, fmt.Errorf("%w: all clients had ended after step %d of %d", ErrNotDeterministic, done, len(choices))
		}
		if !more {
			return r.s, r.finish(ctx)
		}
		if !r.canGo(who.client) {
			return r.s, fmt.Errorf("%w: client %s had ended before step %d", ErrNotDeterministic, Name(who.client), len(r.s.Steps)+1)
		}
		if ok, err := r.step(ctx, who); err != nil {
			return r.s, err
		} else if !ok {
			return r.s, fmt.Errorf("%w: client %s asks nothing in step %d", ErrNotDeterministic, Name(who.client), len(r.s.Steps)+1)
		}
	}
}

// choose is who goes next.
func (r *run) choose(choices []choice) (who choice, more bool) {
	first := -1
	for i := range r.clients {
		if r.canGo(i) {
			first = i
			break
		}
	}
	if at := len(r.s.Steps); at < len(choices) && first >= 0 {
		return choices[at], true
	}
	return choice{client: first}, first >= 0
}
