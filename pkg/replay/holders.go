package replay

import (
	"fmt"
	"sort"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// A rule of how many hold at once is also judged without its model: by the most that certainly held at one instant. A
// holder holds from its admission until it gives back or its lease is over, and from each renewal anew. On the server's clock that is from one
// decision to the other. Where decisions bear no time it is at least from the return of the one call to the beginning of
// the other; the lease, by whatever clock, begins after its call does. What is not certain, as after a release that was
// lost, is left out: it accuses nobody.

// holdings are spans in which somebody certainly held, on one clock: from included, until not.
type holdings []struct{ from, until int64 }

// most is the highest number of them at one instant.
func (h holdings) most() (most int64) {
	ends := make([]int64, len(h))
	sort.Slice(h, func(i, j int) bool { return h[i].from < h[j].from })
	for i := range h {
		ends[i] = h[i].until
	}
	sort.Slice(ends, func(i, j int) bool { return ends[i] < ends[j] })
	ended := 0
	for i := range h {
		for ended < len(ends) && ends[ended] <= h[i].from {
			ended++
		}
		most = max(most, int64(i+1-ended))
	}
	return most
}

func (h *holdings) add(from, until int64) {
	if until > from {
		*h = append(*h, struct{ from, until int64 }{from, until})
	}
}

// ends are the calls by which each id was to be given back, or held anew.
type ends map[string][]*history.Op

func endsOf(ops []history.Op) ends {
	all := ends{}
	for i := range ops {
		if op := &ops[i]; op.Released() || op.Renewed() {
			all[op.Request.ID] = append(all[op.Request.ID], op)
		}
	}
	return all
}

// after is the first call after which somebody no longer holds by an earlier one; nil if there is none.
func (e ends) after(begun *history.Op) (first *history.Op) {
	for _, op := range e[begun.Request.ID] {
		if op.Call > begun.Call && (first == nil || op.Call < first.Call) {
			first = op
		}
	}
	return first
}

// holders is the most that certainly held at once.
func holders(ops []history.Op, eras []era) (most int64) {
	given := endsOf(ops)
	ours := holdings{}                  // in ns
	servers := map[int]holdings{-1: {}} // in µs, by era
	for i := range ops {
		op := &ops[i]
		if !op.Renewed() && (!op.Admitted() || op.Request.Cost == 0) {
			continue
		}
		back := given.after(op)
		if op.Decision.At.IsZero() {
			until := op.Call + shorter(op.Request.Limit.Window.Nanoseconds()).Nanoseconds()
			if back != nil {
				until = min(until, back.Call)
			}
			ours.add(op.Return, until)
			continue
		}
		at := op.Decision.At.UnixMicro()
		until, n := at+op.Request.Limit.Window.Microseconds(), place(eras, op)
		switch {
		case back == nil:
		case back.Outcome == history.Decided && place(eras, back) == n:
			until = min(until, back.Decision.At.UnixMicro())
		default:
			until = at
		}
		h := servers[n]
		h.add(at, until)
		servers[n] = h
	}
	most = ours.most()
	for _, h := range servers {
		most = max(most, h.most())
	}
	return most
}

// made is how many slots may have been given back before their leases ended.
func made(ops []history.Op) (room int64) {
	for i := range ops {
		if op := &ops[i]; op.Released() && op.Outcome != history.Failed && (op.Outcome != history.Decided || op.Decision.Allowed) {
			room++
		}
	}
	return room
}

// hold compares the most that held at once with the limit, where the rule is of that. most is what it admits in that time
// if nobody gives anything back.
func (j *Judgement) hold(ops []history.Op, rule model.Rule, eras []era, most int64) {
	j.bound(plus(most, made(ops)))
	if len(ops) > 0 {
		j.Holders = holders(ops, eras)
		if over := j.Holders - ops[0].Request.Limit.Events; over > 0 {
			j.Overshoot = over
		}
	}
}

// tooMany says what is wrong if more held at once than may.
func (j Judgement) tooMany(l limiter.Limit) string {
	if j.Holders > l.Events {
		return fmt.Sprintf("%d held at once where %d may", j.Holders, l.Events)
	}
	return fmt.Sprintf("%d admitted where slots came free for %d", j.Allowed, j.Allowance)
}
