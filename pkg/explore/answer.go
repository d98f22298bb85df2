package explore

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/rlctl/rlctl/pkg/wire"
)

// What a command is answered, what it leaves in Redis and whose WATCH it touches follow from what Redis held, from the
// command's bytes, from what its connection watches and from what the others do: the clock stands still, scripts are
// loaded, and connections hold nothing else. So the server is asked only when the same command meets the same state for
// the first time, and once more when it is needed again: a server that says something else then is not under control.
// From there on the answer is remembered. Positions are many and states few, so that nearly all steps are answered from
// memory.

// memory is what a search need not ask twice.
type memory struct {
	states  map[string]*held
	answers map[string]remembered
	ends    map[aftermath]*Violation
	reads   map[string]bool // commands that cannot write, and others
	places  int64           // of behaviour, that were met
}

func newMemory() memory {
	return memory{
		states: map[string]*held{}, answers: map[string]remembered{}, ends: map[aftermath]*Violation{}, reads: map[string]bool{},
	}
}

// held is what Redis holds. There is one for each state, so that equal states are the same pointer.
type held struct {
	n    int64 // of all that were met
	keys snapshot
}

// hold finds what Redis holds among what it held before.
func (x *explorer) hold(keys snapshot) *held {
	key := string(keys.bytes())
	h, known := x.states[key]
	if !known {
		h = &held{n: int64(len(x.states)), keys: keys}
		x.states[key] = h
	}
	return h
}

// holding is what the server holds, as its reply to taking says.
func (x *explorer) holding(reply wire.Value) (*held, error) {
	keys, err := taken(reply)
	if err != nil {
		return nil, err
	}
	return x.hold(keys), nil
}

// answer is what came of a command.
type answer struct {
	reply   string // bytes
	state   *held
	touched uint // a bit for each of those who watch, in their order
}

type remembered struct {
	answer
	confirmed bool
}

// aftermath is all that counts when time passes after the last step: what Redis holds, and how far a client is that lived
// through it; nil if none did.
type aftermath struct {
	state    *held
	survivor *behaviour
}

// answer is what comes of a command of client i. watchers are those whose WATCH it may touch.
func (x *explorer) answer(p position, i int, q *question, watchers []int) (answer, error) {
	key := p.meeting(i, q, watchers)
	known, again := x.answers[key]
	if known.confirmed {
		return known.answer, nil
	}
	ask := x.ask
	if p.guarded(i, q) || len(watchers) > 0 {
		ask = x.contended
	}
	got, err := ask(p, i, q, watchers)
	if err != nil {
		return got, err
	}
	if again && got != known.answer {
		return got, fmt.Errorf("%w: Redis answers %s in the same state differently", ErrNotDeterministic, strings.ToUpper(q.args[0][0]))
	}
	x.answers[key] = remembered{got, again}
	return got, nil
}

// guarded tells whether a command is a block that a WATCH guards.
func (p position) guarded(i int, q *question) bool { return q.block && p.actors[i].watch != nil }

// meeting is all that a command's outcome follows from. Its parts tell their own lengths.
func (p position) meeting(i int, q *question, watchers []int) string {
	key := binary.AppendVarint(make([]byte, 0, 256), p.state.n)
	key = append(key, q.raw...)
	a, guarded := p.actors[i], p.guarded(i, q)
	key = append(key, bits(guarded, guarded && a.touched))
	if guarded {
		key = append(key, watchCommand(a.watch)...)
	}
	key = append(key, byte(len(watchers)))
	for _, w := range watchers {
		key = append(key, watchCommand(p.actors[w].watch)...)
	}
	return string(key)
}

// ask runs a command that no WATCH matters to on the restored state, in one round trip.
func (x *explorer) ask(p position, _ int, q *question, _ []int) (got answer, err error) {
	restore, n := restoring(p.state.keys)
	all, err := x.direct.Ask(append(append(restore, q.raw...), x.taking...), n+q.replies+1)
	if err != nil {
		return got, err
	}
	if err := refusedAny(all[:n]); err != nil {
		return got, err
	}
	got.reply = string(all[n+q.replies-1].Raw)
	got.state, err = x.holding(all[len(all)-1])
	return got, err
}

// contended runs a command that a WATCH matters to, and lets the server say so: a guarded block goes over a connection
// that watches what its client does, touched or not as the client's was; and for each of those who watch, another such
// connection tells afterwards whether it was.
func (x *explorer) contended(p position, i int, q *question, watchers []int) (got answer, err error) {
	on, a := x.direct, p.actors[i]
	guarded := p.guarded(i, q)
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
	restore, n := restoring(p.state.keys)
	restored := do(x.direct, restore, n)
	if guarded && !a.touched {
		do(on, watchCommand(a.watch), 1)
	}
	for _, w := range watchers {
		do(x.watching[w], watchCommand(p.actors[w].watch), 1)
	}
	replies := do(on, q.raw, q.replies)
	state := do(x.direct, x.taking, 1)
	for n, w := range watchers {
		if exec := do(x.watching[w], probe, 3); err == nil && exec[2].Null {
			got.touched |= 1 << n
		}
	}
	if err == nil {
		err = refusedAny(restored)
	}
	if err != nil {
		return got, err
	}
	got.reply = string(replies[q.replies-1].Raw)
	got.state, err = x.holding(state[0])
	return got, err
}

func watchCommand(keys []string) []byte {
	return wire.AppendCommand(nil, append([]string{"WATCH"}, keys...)...)
}

// probe is a block that does nothing. A connection whose watch was touched is answered nil.
var probe = []byte("*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nEXEC\r\n")
