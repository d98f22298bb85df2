package replay

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// semaphore is what decides the calls of a history: the rule, or one that breaks it.
type semaphore func(state model.State, at time.Time, r model.Request) (model.State, limiter.Decision)

func sound(state model.State, at time.Time, r model.Request) (model.State, limiter.Decision) {
	return state.Check(at, r)
}

// oneMore lets one more hold than may.
func oneMore(state model.State, at time.Time, r model.Request) (model.State, limiter.Decision) {
	r.Limit.Events++
	next, d := state.Check(at, r)
	d.Remaining = max(0, d.Remaining-1)
	return next, d
}

// freesOthers has a release by one that does not hold free somebody else's slot.
func freesOthers(holders func() string) semaphore {
	return func(state model.State, at time.Time, r model.Request) (model.State, limiter.Decision) {
		next, d := state.Check(at, r)
		if r.Act == model.Release && !d.Allowed {
			other := r
			other.ID = holders()
			next, _ = next.Check(at, other)
		}
		return next, d
	}
}

var slots = limiter.Limit{Events: 5, Window: 20 * time.Millisecond}

// client takes and gives back as the clients of a race do.
type client struct {
	free    int64 // ns: it has returned by then
	held    []string
	refused int
	next    *model.Request
}

// turnover makes the history of n calls of six clients, of which some replies are lost, on a server that stops now and then.
func turnover(decide semaphore, n int, losses int, seed uint64) ([]history.Op, Course) {
	r := rand.New(rand.NewPCG(seed, 2))
	state, mono := model.Semaphore().Fresh, int64(0)
	var c Course
	var ops []history.Op
	clients := make([]client, 6)
	read := func() {
		at := epoch.Add(time.Duration(mono)).Truncate(time.Microsecond)
		c.Readings = append(c.Readings, history.Reading{Server: at, Before: mono - 50_000, After: mono + 50_000})
	}
	for i := range n {
		mono += r.Int64N(300_000) + 1_000
		if i%40 == 0 {
			read()
		}
		k := r.IntN(len(clients))
		who := &clients[k]
		mono = max(mono, who.free+1_000)
		call := max(who.free, mono-r.Int64N(100_000))
		request := model.Request{Limit: slots, Cost: 1, ID: fmt.Sprintf("%d-%d", k, i)}
		if who.next != nil {
			request, who.next = *who.next, nil
		}
		at := epoch.Add(time.Duration(mono)).Truncate(time.Microsecond)
		op := history.Op{Client: k, Seq: int64(i), Outcome: history.Decided, Request: request, Call: call, Return: mono + r.Int64N(100_000) + 1_000}
		lost := losses > 0 && r.IntN(losses) == 0
		if !lost || r.IntN(3) > 0 {
			state, op.Decision = decide(state, at, request)
			op.Decision.At = at
		}
		who.answered(request, op.Decision, lost)
		if lost {
			op.Outcome, op.Decision = history.Unknown, limiter.Decision{}
			op.Until = op.Return + r.Int64N(3_000_000)
		}
		who.free = op.Return
		ops = append(ops, op)
	}
	mono += 1_000_000
	read()
	return ops, c
}

// answered decides what the client does next.
func (c *client) answered(r model.Request, d limiter.Decision, lost bool) {
	about := model.Request{Limit: slots, Act: []model.Act{model.Release, model.Renew, model.Renew, model.Release}[c.refused%4], ID: r.ID}
	switch {
	case r.Act != model.Take || lost:
	case d.Allowed:
		c.held = append(c.held, r.ID)
	default:
		if turn := c.refused % 4; turn >= 2 && len(c.held) > 0 {
			if about.ID = c.held[0]; turn == 3 {
				c.held = c.held[1:]
			}
		}
		c.refused++
		c.next = &about
	}
}

// TestHoldersAreReplayed: a semaphore that keeps its rule holds, whatever replies are lost; one that does not is found,
// by the replay and by the count of those who held at once.
func TestHoldersAreReplayed(t *testing.T) {
	var settled, unknown int64
	for seed := range uint64(20) {
		ops, course := turnover(sound, 1500, 0, seed)
		if j := JudgeCourse(ops, model.Semaphore(), course); j.Verdict != Held || j.Replayed != 1500 || j.Holders != slots.Events || j.Released == 0 {
			t.Errorf("seed %d: %s: %s, %d replayed, %d held, %d released", seed, j.Verdict, j.Reason, j.Replayed, j.Holders, j.Released)
		}
		for _, losses := range []int{300, 60, 15} {
			ops, course := turnover(sound, 1500, losses, seed)
			j := JudgeCourse(ops, model.Semaphore(), course)
			if j.Verdict == Broken || losses > 15 && j.Verdict != Held { // of many it cannot be told which came in
				t.Errorf("seed %d, 1 of %d lost: %s: %s", seed, losses, j.Verdict, j.Reason)
			}
			settled, unknown = settled+j.Settled, unknown+j.Unknown
		}
		ops, course = turnover(oneMore, 1500, 0, seed)
		if j := JudgeCourse(ops, model.Semaphore(), course); j.Verdict != Broken || j.Holders != slots.Events+1 || j.Overshoot != 1 {
			t.Errorf("seed %d, one more: %s: %s, %d held, overshoot %d", seed, j.Verdict, j.Reason, j.Holders, j.Overshoot)
		}
	}
	if settled == 0 || settled >= unknown {
		t.Errorf("%d of %d lost calls are said to have counted", settled, unknown)
	}
}

// TestAReleaseOfAnothersSlotIsFound, in the very next reply.
func TestAReleaseOfAnothersSlotIsFound(t *testing.T) {
	last := ""
	decide := freesOthers(func() string { return last })
	ops, course := turnover(func(state model.State, at time.Time, r model.Request) (model.State, limiter.Decision) {
		next, d := decide(state, at, r)
		if d.Allowed && r.Act == model.Take {
			last = r.ID
		}
		return next, d
	}, 500, 0, 1)
	if j := JudgeCourse(ops, model.Semaphore(), course); j.Verdict != Broken || j.Difference == nil {
		t.Errorf("%s: %s", j.Verdict, j.Reason)
	}
}

// TestARenewalByAStrangerIsFound: one that takes a slot instead of changing nothing, also if the reply says that it did not.
func TestARenewalByAStrangerIsFound(t *testing.T) {
	for _, admits := range []bool{true, false} {
		ops, course := turnover(func(state model.State, at time.Time, r model.Request) (model.State, limiter.Decision) {
			next, d := state.Check(at, r)
			if r.Act == model.Renew && !d.Allowed {
				r.Act, r.Cost, r.Limit.Events = model.Take, 1, 6
				taken, would := state.Check(at, r)
				if next = taken; admits {
					d = would
				}
			}
			return next, d
		}, 500, 100, 1)
		if j := JudgeCourse(ops, model.Semaphore(), course); j.Verdict != Broken || j.Difference == nil || j.Holders <= slots.Events && admits {
			t.Errorf("%v: %s: %s, %d held", admits, j.Verdict, j.Reason, j.Holders)
		}
	}
}

// TestHoldersWithoutTimesAreCounted: where replies bear no time, only what certainly held at once counts: from the return
// of an admission to the call of its release.
func TestHoldersWithoutTimesAreCounted(t *testing.T) {
	const ms = int64(time.Millisecond)
	one := limiter.Limit{Events: 1, Window: time.Second}
	op := func(client int, act model.Act, id string, call, ret int64, allowed bool) history.Op {
		d := limiter.Decision{Allowed: allowed}
		if !allowed {
			d.RetryAfter = time.Second
		}
		cost := int64(1)
		if act == model.Release {
			cost = 0
		}
		return history.Op{Client: client, Outcome: history.Decided, Call: call * ms, Return: ret * ms, Decision: d,
			Request: model.Request{Limit: one, Cost: cost, ID: id, Act: act}}
	}
	for _, c := range []struct {
		what    string
		holders int64
		ops     []history.Op
	}{
		{"one after the other", 1, []history.Op{op(0, "", "a", 0, 1, true), op(0, model.Release, "a", 2, 3, true), op(1, "", "b", 3, 4, true)}},
		{"while the release is under way", 1, []history.Op{op(0, "", "a", 0, 1, true), op(0, model.Release, "a", 2, 9, true), op(1, "", "b", 3, 4, true)}},
		{"before the release", 2, []history.Op{op(0, "", "a", 0, 1, true), op(0, model.Release, "a", 5, 6, true), op(1, "", "b", 3, 4, true)}},
		{"after the lease", 1, []history.Op{op(0, "", "a", 0, 1, true), op(1, "", "b", 1000, 1001, true)}},
		{"before the end of the lease", 2, []history.Op{op(0, "", "a", 0, 1, true), op(1, "", "b", 900, 901, true)}},
		{"released by another", 2, []history.Op{op(0, "", "a", 0, 1, true), op(1, model.Release, "b", 1, 2, false), op(1, "", "b", 3, 4, true)}},
	} {
		readings := []history.Reading{{Server: epoch, Before: -ms, After: -ms}, {Server: epoch.Add(1101 * time.Millisecond), Before: 1100 * ms, After: 1100 * ms}}
		j := Judge(c.ops, model.Semaphore(), readings[0], readings[1])
		if broken := c.holders > 1; j.Holders != c.holders || (j.Verdict == Broken) != broken || broken && j.Overshoot != 1 {
			t.Errorf("%s: %s: %s, %d held", c.what, j.Verdict, j.Reason, j.Holders)
		}
	}
}
