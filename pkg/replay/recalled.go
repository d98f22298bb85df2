package replay

// A limiter may answer a refusal from memory (model.Rule.Recalls). Such an answer bears no server time: no server decided.
// It is right if two things hold, and each of them is looked at here.
//
// The same process was refused that cost of that key before, by a decision that bears a time, and what it is told now is
// what it was told then, less the time since; a memory that confuses clients or costs, or invents, has no such decision.
//
// At some instant of the call the server would have refused as well, for at least as long as is told. What the key held
// then is known from the replay of all decisions that bear a time: the instant lies between those that had returned when
// the call was made and those that were made when it had returned, and where the readings of the server's clock place it.
// A memory that keeps a refusal too long is found by this, if anybody asks then.
//
// A call whose reply was lost excuses nothing: it can only have taken, and what was told before holds without it.
//
// What it gives up: while lost calls leave the state unknown, and where the clock was set since the server refused, nothing
// is compared, and the refusal is counted as loose. An answer that admits from memory is wrong whenever it is given.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// mark is what a key may have held from a time on, of which timed.at tells; nothing where that is not known.
type mark struct {
	at     int64
	states []model.State
}

// noted has the replay keep what the key held after the decisions of one microsecond.
func (s *search) noted(at int64) {
	if !s.rule.Recalls {
		return
	}
	m := mark{at: at}
	if !slices.ContainsFunc(s.guesses, func(g guess) bool { return g.blurred(at) }) {
		for _, g := range s.guesses {
			m.states = append(m.states, g.most)
		}
	}
	s.marks = append(s.marks, m)
}

// spanned tells in which era a call was under way, and between which times of the server's clock; number is -1 if that clock
// was set meanwhile.
type spanned func(op *history.Op) (number int64, from, to time.Time)

// inOne are the spanned on a clock that was read before all calls and after them, and not set.
func (c clock) inOne(op *history.Op) (int64, time.Time, time.Time) {
	return 0, c.earliest(op.Call), c.latest(op.Return)
}

// inEras are the spanned on a clock that was read often and set at times.
func inEras(eras []era) spanned {
	return func(op *history.Op) (number int64, from, to time.Time) {
		number = -1
		for _, e := range eras {
			if op.Return < e.from || op.Call > e.to {
				continue
			}
			if number >= 0 || len(e.readings) == 0 {
				return -1, from, to
			}
			number = int64(e.number)
			from, _ = e.bounds(op.Call)
			_, to = e.bounds(op.Return)
		}
		return number, from, to
	}
}

// recollection is what answers from memory are held against.
type recollection struct {
	where    spanned
	refused  map[memorized][]timed // decisions that bear a time, by call
	longest  int64                 // ns: from the call of one of them until nobody can be told of it any more
	returned []timed               // by return; at is the latest time so far
	called   []timed               // by call; at is the earliest time from there on
	marks    []mark
}

// memorized is who remembers what.
type memorized struct {
	proc int
	cost int64
}

// recollect prepares for answers from memory among decisions that bear a time.
func recollect(decided []timed, fresh model.State, marks []mark, where spanned) recollection {
	r := recollection{
		where: where, refused: map[memorized][]timed{}, marks: append([]mark{{math.MinInt64, []model.State{fresh}}}, marks...),
		returned: slices.Clone(decided), called: slices.Clone(decided),
	}
	slices.SortFunc(r.returned, func(a, b timed) int { return cmp.Compare(a.Return, b.Return) })
	slices.SortFunc(r.called, func(a, b timed) int { return cmp.Compare(a.Call, b.Call) })
	for i, t := range r.called {
		if t.Denied() {
			r.longest = max(r.longest, t.Return-t.Call+t.Decision.RetryAfter.Nanoseconds())
			by := memorized{t.Proc, t.Request.Cost}
			r.refused[by] = append(r.refused[by], t)
		}
		if i > 0 {
			r.returned[i].at = max(r.returned[i].at, r.returned[i-1].at)
		}
	}
	for i := len(r.called) - 2; i >= 0; i-- {
		r.called[i].at = min(r.called[i].at, r.called[i+1].at)
	}
	return r
}

// opinion is what is thought of an answer from memory.
type opinion struct {
	loose bool             // nothing can be said of it
	wrong string           // why it is; empty if it is right
	want  limiter.Decision // of a refusal, what the rule says instead
}

// of judges one answer.
func (r *recollection) of(op *history.Op) opinion {
	if op.Decision.Allowed {
		return opinion{wrong: "admitted from memory"}
	}
	source, ok := r.source(op)
	number, from, to := r.where(op)
	switch {
	case ok && (number < 0 || number != source.era()):
		return opinion{loose: true}
	case ok:
		return r.around(op, number, from, to, time.Duration(op.Return-source.Call)/drift)
	case number >= 0:
		if o := r.around(op, number, from, to, 0); o.want.Allowed {
			return o
		}
	}
	return opinion{wrong: "refused from memory what its process had not been refused so before"}
}

// around holds a refusal against what the key held while it was given. slack is by how much clocks may differ meanwhile.
func (r *recollection) around(op *history.Op, number int64, from, to time.Time, slack time.Duration) opinion {
	least, most := number<<eraBits+from.UnixMicro(), number<<eraBits+to.UnixMicro()
	if i := sort.Search(len(r.returned), func(i int) bool { return r.returned[i].Return >= op.Call }); i > 0 {
		least = max(least, r.returned[i-1].at)
	}
	if i := sort.Search(len(r.called), func(i int) bool { return r.called[i].Call > op.Return }); i < len(r.called) {
		most = min(most, r.called[i].at-1) // what that left was not there yet
	}
	return r.between(op, least, most, slack+2*time.Microsecond) // states may be known to one, and waits are told in whole ones
}

// between looks for an instant at which the rule refuses for as long as is told. Of the time in which a key holds the same,
// the wait is longest at the beginning.
func (r *recollection) between(op *history.Op, least, most int64, slack time.Duration) (o opinion) {
	held := sort.Search(len(r.marks), func(i int) bool { return r.marks[i].at >= least }) - 1
	for i := max(0, held); i < len(r.marks) && (i <= held || r.marks[i].at <= most); i++ {
		if len(r.marks[i].states) == 0 {
			return opinion{loose: true}
		}
		at := max(least, r.marks[i].at) & (1<<eraBits - 1)
		for _, state := range r.marks[i].states {
			_, want := state.Check(time.UnixMicro(at), op.Request)
			if want.RetryAfter == limiter.Never || want.RetryAfter+slack >= op.Decision.RetryAfter {
				return opinion{}
			}
			if o.wrong == "" || !want.Allowed { // allowed is what it was at no instant refused
				o = opinion{wrong: "refused from memory for longer than the rule refuses", want: want}
			}
		}
	}
	return o
}

// source is the decision that an answer repeats.
func (r *recollection) source(op *history.Op) (timed, bool) {
	told := op.Decision
	for _, t := range slices.Backward(r.refused[memorized{op.Proc, op.Request.Cost}]) {
		if op.Call-t.Call > r.longest {
			break
		}
		d := t.Decision
		since := d.RetryAfter - told.RetryAfter
		if t.Call <= op.Return && told.Remaining == d.Remaining && told.ResetAfter == max(0, d.ResetAfter-since) &&
			since >= time.Duration(max(0, op.Call-t.Return)) && since <= time.Duration(op.Return-t.Call)+time.Microsecond {
			return t, true
		}
	}
	return timed{}, false
}

// fromMemory are the decisions that bear no time, and all other calls, where the rule is one whose limiter may answer from
// memory and any decision bears a time.
func fromMemory(ops []history.Op, rule model.Rule) (others []history.Op, recalled []*history.Op) {
	timed, untimed := countTimed(ops)
	if !rule.Recalls || timed == 0 || untimed == 0 {
		return ops, nil
	}
	others = make([]history.Op, 0, len(ops)-untimed)
	for i := range ops {
		if op := &ops[i]; op.Outcome == history.Decided && op.Decision.At.IsZero() {
			recalled = append(recalled, op)
		} else {
			others = append(others, *op)
		}
	}
	return others, recalled
}

// recall judges what was answered from memory. The first that is wrong breaks the history.
func (j *Judgement) recall(recalled []*history.Op, r recollection) (wrong string) {
	under := int64(0)
	for _, op := range recalled {
		o := r.of(op)
		switch {
		case o.loose:
			j.Loose++
			continue
		case o.wrong == "":
			j.Recalled++
			continue
		case o.want.Allowed:
			under += op.Request.Cost
		}
		if wrong == "" {
			wrong = fmt.Sprintf("%s: %s: %s", name(op), o.wrong, describe(op.Decision))
			if o.want != (limiter.Decision{}) {
				wrong += " where the rule says " + describe(o.want)
			}
		}
	}
	j.Undershoot = max(j.Undershoot, under)
	return wrong
}
