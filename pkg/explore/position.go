package explore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/wire"
)

// position is a state of all clients and of the server. It is never changed: a step makes another one. The server takes
// part only for the length of a step: it is given the state, the command, and asked for the state again.
type position struct {
	state   snapshot
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
	watch   []string // keys that it watches
	touched bool     // and one of them was written since
}

func (x *explorer) startPosition() position {
	p := position{state: x.start, actors: make([]actor, len(x.clients))}
	for i := range x.clients {
		p.actors[i].at = &behaviour{next: map[string]*behaviour{}}
		for range x.plan.Calls {
			p.calls = append(p.calls, Call{Client: i, First: -1, Last: -1})
		}
	}
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
		case a.dead || a.ended == x.plan.Calls:
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
		call := i*x.plan.Calls + a.begun
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
		p.calls[i*x.plan.Calls+a.begun-1].Died = true
		return p, q.follows, true, nil
	}
	if a.at, err = x.after(ctx, i, a.at, string(reply)); err != nil {
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
	n := i*x.plan.Calls + a.ended
	call := &p.calls[n]
	call.Last, call.Decision, call.Charged = 0, a.at.decision, a.charged && !a.at.decision.Allowed
	a.ended++
	a.watch, a.touched = nil, false
	p.ended |= 1 << n
}

// execute has the server run a command in the position and returns its reply.
func (x *explorer) execute(ctx context.Context, p *position, i int, q *question) ([]byte, error) {
	a, before := &p.actors[i], p.state
	watchers, err := x.whoWatches(ctx, p, i, q)
	if err != nil {
		return nil, err
	}
	var reply wire.Value
	if guarded := q.block && a.watch != nil; guarded || len(watchers) > 0 {
		reply, err = x.contended(p, i, q, guarded, watchers)
	} else {
		reply, err = x.ask(p, q)
	}
	if err != nil {
		return nil, err
	}
	a.charged = a.charged || !slices.Equal(before, p.state)
	switch {
	case q.block:
		a.watch, a.touched = nil, false
	case strings.EqualFold(q.args[0][0], "watch") && !reply.Err():
		a.watch = append(slices.Clone(a.watch), q.args[0][1:]...)
	}
	return reply.Raw, nil
}

// ask runs a command on the restored state, in one round trip.
func (x *explorer) ask(p *position, q *question) (wire.Value, error) {
	restore, n := restoring(p.state)
	all, err := x.direct.Ask(append(append(restore, q.raw...), x.taking...), n+q.replies+1)
	if err != nil {
		return wire.Value{}, err
	}
	if err := refusedAny(all[:n]); err != nil {
		return wire.Value{}, err
	}
	p.state, err = taken(all[len(all)-1])
	return all[n+q.replies-1], err
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

// contended runs a command that a WATCH matters to, and lets the server say so: a guarded block goes over a connection
// that watches what its client does, touched or not as the client's was; and for each of those who watch, another such
// connection tells afterwards whether it was.
func (x *explorer) contended(p *position, i int, q *question, guarded bool, watchers []int) (reply wire.Value, err error) {
	on, a := x.direct, p.actors[i]
	do := func(u *wire.Upstream, commands []byte, replies int) (all []wire.Value) {
		if err == nil {
			all, err = u.Ask(commands, replies)
		}
		return all
	}
	if guarded {
		on = x.watching[i]
	}
	if guarded && a.touched {
		do(on, watchCommand(a.watch), 1)
		for _, key := range a.watch {
			do(x.direct, wire.AppendCommand(nil, "SET", key, ""), 1)
		}
	}
	restore, n := restoring(p.state)
	restored := do(x.direct, restore, n)
	if guarded && !a.touched {
		do(on, watchCommand(a.watch), 1)
	}
	for _, w := range watchers {
		do(x.watching[w], watchCommand(p.actors[w].watch), 1)
	}
	replies := do(on, q.raw, q.replies)
	state := do(x.direct, x.taking, 1)
	for _, w := range watchers {
		if exec := do(x.watching[w], probe, 3); err == nil {
			p.actors[w].touched = exec[2].Null
		}
	}
	if err == nil {
		err = refusedAny(restored)
	}
	if err == nil {
		p.state, err = taken(state[0])
	}
	if err != nil {
		return reply, err
	}
	return replies[q.replies-1], nil
}

func watchCommand(keys []string) []byte {
	return wire.AppendCommand(nil, append([]string{"WATCH"}, keys...)...)
}

// probe is a block that does nothing. A connection whose watch was touched is answered nil.
var probe = []byte("*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nEXEC\r\n")

// key is what positions are told apart by: what Redis holds, where each client stands, and the order of calls as far as
// the judge will ask for it.
func (p position) key() string {
	var b strings.Builder
	number := func(n int64) { b.WriteString(strconv.FormatInt(n, 10)); b.WriteByte(' ') }
	for _, k := range p.state {
		number(int64(len(k.name)))
		b.WriteString(k.name)
		number(int64(len(k.dump)))
		b.WriteString(k.dump)
		number(k.dies)
	}
	for _, a := range p.actors {
		b.WriteByte('\n')
		number(int64(a.begun))
		if a.dead {
			b.WriteByte('x') // what it was answered is of no interest to anybody
			continue
		}
		number(int64(a.ended))
		if a.ended < a.begun || a.begun > 0 && a.ended < p.perClient() { // it has still something to do
			fmt.Fprintf(&b, "%p %t %t %q", a.at, a.charged, a.touched, a.watch)
		}
	}
	for i, c := range p.calls {
		if c.First < 0 {
			continue
		}
		b.WriteByte('\n')
		number(int64(i))
		number(int64(c.before))
		if c.Ended() {
			fmt.Fprint(&b, c.Decision, c.Charged)
		}
	}
	return b.String()
}

func (p position) perClient() int { return len(p.calls) / len(p.actors) }

// finish judges a position in which nobody has anything left to do.
func (x *explorer) finish(ctx context.Context, p position) (*Violation, error) {
	if v := x.judge.verdict(p.calls, p.state); v != nil {
		return v, nil
	}
	var survivor limiter.Limiter
	if i := slices.IndexFunc(p.actors, func(a actor) bool { return !a.dead }); i >= 0 {
		var err error
		if survivor, err = x.perform(ctx, i, p.actors[i].at); err != nil {
			return nil, err
		}
	}
	if err := x.restore(p.state); err != nil {
		return nil, err
	}
	return x.afterwards(ctx, survivor)
}
