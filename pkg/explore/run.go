package explore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// a run is one way through the clients' commands, as far as it has come.
type run struct {
	*explorer
	s       Schedule
	state   snapshot
	crashed bool
	ended   uint   // a bit for each call that has ended
	before  []uint // for each call, those that had ended when it began
	observe bool   // look at Redis after each step
}

// begin restores the start and gives every client a fresh limiter. Where the start is not in Redis but in the process,
// the first client's limiter makes it again.
func (x *explorer) begin(ctx context.Context, observe bool) (*run, error) {
	for _, c := range x.clients {
		if err := x.renew(c); err != nil {
			return nil, err
		}
	}
	if err := x.restore(ctx, x.start); err != nil {
		return nil, err
	}
	if len(x.start) == 0 {
		x.passing.Store(true)
		if err := x.fill(ctx); err != nil {
			return nil, err
		}
	}
	x.passing.Store(false)
	r := &run{explorer: x, observe: observe, state: x.start}
	for i := range x.clients {
		for range x.plan.Calls {
			r.s.Calls = append(r.s.Calls, Call{Client: i, First: -1, Last: -1})
		}
	}
	r.before = make([]uint, len(r.s.Calls))
	var err error
	if observe {
		r.s.Before, err = x.observe(ctx)
	}
	return r, err
}

// can are the choices of the next step: each client with something left to do, and its death if nobody has died yet. Of
// clients that have not begun only the first may, unless they differ by their clocks; what the others would do is the
// same under another name.
func (r *run) can() []choice {
	var can []choice
	begins := false
	for i, c := range r.clients {
		switch {
		case c.dead || c.ended == r.plan.Calls:
			continue
		case c.begun == 0 && begins && r.symmetric():
			continue
		case c.begun == 0:
			begins = true
		}
		can = append(can, choice{client: i})
	}
	if r.plan.Crash && !r.crashed {
		for _, c := range can {
			can = append(can, choice{c.client, true})
		}
	}
	return can
}

func (x *explorer) symmetric() bool { return !x.plan.Skew && !x.plan.Full }

// call is the index of a client's call.
func (r *run) call(client, n int) int { return client*r.plan.Calls + n }

// step lets a client's parked command run, or lets it begin with the first of a call, and waits for what it does next.
// A client that is to die and then asks Redis nothing cannot: ok is false. known is what Redis holds after the step,
// where that is known.
func (r *run) step(ctx context.Context, who choice, known *snapshot) (ok bool, err error) {
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
		if err := r.command(ctx, who, &step, known); err != nil {
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
	i := r.call(who, c.begun)
	c.begun++
	c.replies, c.charged = c.replies[:0], false
	r.s.Calls[i].First, r.before[i] = len(r.s.Steps), r.ended
	id := Name(who) + strconv.Itoa(c.begun)
	go func() {
		d, err := check(ctx, c.limiter, r.client, 1, id)
		r.tell(event{client: who, decision: d, err: err})
	}()
	return r.await(ctx, who, step)
}

// command runs a client's parked command.
func (r *run) command(ctx context.Context, who choice, step *Step, known *snapshot) error {
	c, cmd := r.clients[who.client], r.clients[who.client].parked
	c.parked = nil
	reply, err := cmd.Run()
	if err != nil {
		return err
	}
	step.Args, step.Block, step.Follows, step.Reply = cmd.Args, cmd.Block, cmd.Follows, reply
	if err := r.look(ctx, c, step, known); err != nil {
		return err
	}
	c.replies = append(c.replies, reply.Raw...)
	if err := r.follow(ctx, c, *step); err != nil {
		return err
	}
	if who.dies {
		r.crashed, c.dead = true, true
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

// look notes what Redis holds after a step of c.
func (r *run) look(ctx context.Context, c *client, step *Step, known *snapshot) (err error) {
	if r.observe {
		if step.After, err = r.explorer.observe(ctx); err != nil {
			return err
		}
	}
	before := r.state
	if known != nil {
		r.state = *known
	} else if r.state, err = r.take(ctx); err != nil {
		return err
	}
	c.charged = c.charged || !slices.Equal(before, r.state)
	return nil
}

// follow notes since when a client watches. What it watches for is writes of others, so only those are counted.
func (r *run) follow(ctx context.Context, c *client, step Step) error {
	name := strings.ToLower(step.Args[0][0])
	if name == "watch" {
		c.watch = make([]int, len(r.clients))
		for i, other := range r.clients {
			c.watch[i] = other.writes
		}
		return nil
	}
	if step.Block {
		c.watch = nil
	}
	for _, args := range step.Args {
		reads, err := r.readOnly(ctx, strings.ToLower(args[0]))
		if err != nil {
			return err
		}
		if !reads {
			c.writes++
			return nil
		}
	}
	return nil
}

// readOnly asks the server whether a command cannot write, once.
func (x *explorer) readOnly(ctx context.Context, name string) (bool, error) {
	if reads, known := x.reads[name]; known {
		return reads, nil
	}
	info, err := x.control.Do(ctx, "command", "info", name).Slice()
	if err != nil {
		return false, fmt.Errorf("ask what %s does: %w", name, err)
	}
	fields, _ := info[0].([]any)
	reads := len(fields) > 2 && strings.Contains(fmt.Sprint(fields[2]), "readonly")
	x.reads[name] = reads
	return reads, nil
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
	c.watch = nil
	call := &r.s.Calls[i]
	call.Last, call.Decision, call.Charged = len(r.s.Steps), e.decision, c.charged && !e.decision.Allowed
	step.Ended = i
	r.ended |= 1 << i
	return e.err
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
		return event{}, fmt.Errorf("client %s did not go on for %v", Name(who), patience)
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
		if err := r.dismiss(ctx, i); err != nil {
			return err
		}
		c.parked = nil
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
	r.s.Violation = r.judge.verdict(r.s, r.state)
	if r.s.Violation != nil {
		return nil
	}
	v, err := r.afterwards(ctx)
	r.s.Violation = v
	return err
}

// afterwards lets time pass until the key is as good as unused, and a client that lived through the run ask; then again,
// and one that was not there. Whoever is refused has been locked out.
func (r *run) afterwards(ctx context.Context) (*Violation, error) {
	state := r.key()
	v, known := r.later[state]
	if known {
		return v, nil
	}
	r.passing.Store(true)
	defer r.setClock(r.at)
	t, asking := r.at, []limiter.Limiter{r.late}
	if i := slices.IndexFunc(r.clients, func(c *client) bool { return !c.dead }); i >= 0 {
		asking = append(asking, r.clients[i].limiter)
	}
	for n, l := range slices.Backward(asking) {
		t = t.Add(r.judge.longest + time.Millisecond)
		r.setClock(t)
		d, err := check(ctx, l, r.client, 1, "later-"+strconv.Itoa(n))
		if err != nil {
			return nil, fmt.Errorf("ask when all is over: %w", err)
		}
		if !d.Allowed {
			v = &Violation{Locked, -1, fmt.Sprintf("refused %v later, when the key must be as good as unused", t.Sub(r.at))}
			break
		}
	}
	r.later[state] = v
	return v, nil
}
