package explore

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// position is a state of all clients and of the server. It is never changed: a step makes another one. The server takes
// part only for the length of a step: it is given the state, the command, and asked for the state again.
type position struct {
	state   *held
	actors  []actor
	calls   []Call
	ended   uint // a bit for each call that has ended
	crashed bool
}

// actor is a client in a position.
type actor struct {
	at      *behaviour
	begun   int // calls
	ended   int // calls
	dead    bool
	charged bool     // the call under way changed the state
	watch   []string // keys that it watches, which follows from at
	touched bool     // and one of them was written since
}

func (x *explorer) startPosition() position {
	p := position{state: x.hold(x.start), actors: make([]actor, len(x.clients))}
	for i := range x.clients {
		p.actors[i].at = x.place(nil, "")
	}
	p.calls = x.plan.lineUp()
	return p
}

func (p position) clone() position {
	p.actors, p.calls = slices.Clone(p.actors), slices.Clone(p.calls)
	return p
}

// can are the choices of the next step: each client with something left to do, and its death if nobody has died yet. Of
// clients that have not begun only the first may, unless they differ by their clocks; what the others would do is the
// same under another name.
func (x *explorer) can(p position) []choice {
	var can []choice
	begins := false
	for i, a := range p.actors {
		switch {
		case a.dead || a.ended == x.plan.calls():
			continue
		case a.begun == 0 && begins && x.symmetric():
			continue
		case a.begun == 0:
			begins = true
		}
		can = append(can, choice{client: i})
	}
	if x.plan.Crash && !p.crashed {
		for _, c := range can {
			can = append(can, choice{c.client, true})
		}
	}
	return can
}

func (x *explorer) symmetric() bool { return !x.plan.Skew }

// step is the position after a choice. It is not ok if a client is to die and asks Redis nothing that it could die of.
// When calls began and ended is told by which others had ended before, all that the judge asks for.
func (x *explorer) step(ctx context.Context, p position, who choice) (next position, follows, ok bool, err error) {
	p = p.clone()
	i, a := who.client, &p.actors[who.client]
	if a.begun == a.ended {
		call := i*x.plan.calls() + a.begun
		p.calls[call].First, p.calls[call].before = 0, p.ended
		a.begun++
		a.charged = false
		if a.at, err = x.after(ctx, i, a.at, ""); err != nil {
			return p, false, false, err
		}
	}
	q := a.at.parked
	if q == nil {
		if who.dies {
			return p, false, false, nil
		}
		x.endCall(&p, i)
		return p, false, true, nil
	}
	reply, err := x.execute(ctx, &p, i, q)
	if err != nil {
		return p, false, false, err
	}
	if who.dies {
		a.dead, p.crashed = true, true
		p.calls[i*x.plan.calls()+a.begun-1].Died = true
		return p, q.follows, true, nil
	}
	if a.at, err = x.after(ctx, i, a.at, reply); err != nil {
		return p, false, false, err
	}
	if a.at.parked == nil {
		x.endCall(&p, i)
	}
	return p, q.follows, true, nil
}

// endCall notes what client i was told.
func (x *explorer) endCall(p *position, i int) {
	a := &p.actors[i]
	n := i*x.plan.calls() + a.ended
	call := &p.calls[n]
	call.Last, call.Decision, call.Charged = 0, a.at.decision, a.charged && !a.at.decision.Allowed
	a.ended++
	a.watch, a.touched = nil, false
	p.ended |= 1 << n
}

// execute has the server run a command in the position and returns its reply.
func (x *explorer) execute(ctx context.Context, p *position, i int, q *question) (reply string, err error) {
	watchers, err := x.whoWatches(ctx, p, i, q)
	if err != nil {
		return "", err
	}
	got, err := x.answer(*p, i, q, watchers)
	if err != nil {
		return "", err
	}
	a := &p.actors[i]
	a.charged = a.charged || got.state != p.state
	p.state = got.state
	for n, w := range watchers {
		p.actors[w].touched = got.touched&(1<<n) != 0
	}
	switch {
	case q.block:
		a.watch, a.touched = nil, false
	case strings.EqualFold(q.args[0][0], "watch") && !strings.HasPrefix(got.reply, "-"):
		a.watch = append(slices.Clone(a.watch), q.args[0][1:]...)
	}
	return got.reply, nil
}

// whoWatches are the clients whose WATCH the command may touch. The client's own EXEC does not.
func (x *explorer) whoWatches(ctx context.Context, p *position, i int, q *question) (who []int, err error) {
	for n, a := range p.actors {
		if a.watch != nil && !a.touched && !a.dead && (n != i || !q.block) {
			who = append(who, n)
		}
	}
	if len(who) == 0 {
		return nil, nil
	}
	for _, args := range q.args {
		if reads, err := x.readOnly(ctx, strings.ToLower(args[0])); err != nil || !reads {
			return who, err
		}
	}
	return nil, nil
}

// key is what positions are told apart by: what Redis holds, where each client stands, and the order of calls as far as
// the judge will ask for it. It is bytes that nobody reads.
func (p position) key() string {
	b := binary.AppendVarint(make([]byte, 0, 128), p.state.n)
	for _, a := range p.actors {
		b = append(b, byte(a.begun), byte(a.ended), bits(a.dead))
		if !a.dead && a.begun > 0 && a.ended < p.perClient() { // it has still something to do
			b = binary.AppendVarint(append(b, bits(a.charged, a.touched)), a.at.n)
		}
	}
	for _, c := range p.calls {
		b = append(b, bits(c.First >= 0, c.Ended(), c.Charged))
		b = binary.AppendUvarint(b, uint64(c.before))
		if d := c.Decision; c.Ended() {
			b = append(b, bits(d.Allowed, d.Degraded))
			for _, n := range []int64{d.Remaining, int64(d.RetryAfter), int64(d.ResetAfter), d.At.UnixMicro()} {
				b = binary.AppendVarint(b, n)
			}
		}
	}
	return string(b)
}

func bits(facts ...bool) (b byte) {
	for i, fact := range facts {
		if fact {
			b |= 1 << i
		}
	}
	return b
}

func (p position) perClient() int { return len(p.calls) / len(p.actors) }

// finish judges a position in which nobody has anything left to do.
func (x *explorer) finish(ctx context.Context, p position) (*Violation, error) {
	if v := x.judge.verdict(p.calls, p.state.keys); v != nil {
		return v, nil
	}
	e := aftermath{state: p.state}
	i := slices.IndexFunc(p.actors, func(a actor) bool { return !a.dead })
	if i >= 0 {
		e.survivor = p.actors[i].at
	}
	if v, known := x.ends[e]; known {
		return v, nil
	}
	var survivor limiter.Limiter
	var err error
	if i >= 0 {
		if survivor, err = x.perform(ctx, i, e.survivor); err != nil {
			return nil, err
		}
	}
	if err := x.restore(p.state.keys); err != nil {
		return nil, err
	}
	x.ends[e], err = x.afterwards(ctx, survivor)
	return x.ends[e], err
}
