package explore

import (
	"fmt"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// judge knows the rule and the state from which all schedules start.
type judge struct {
	plan  Plan
	at    time.Time
	start model.State
	slots int64
}

// newJudge brings the model to the same state: all but one event taken.
func newJudge(p Plan, at time.Time) (judge, error) {
	j := judge{plan: p, at: at, start: p.Entry.Rule.Fresh}
	for left, n := p.Entry.Rule.Capacity(p.Limit)-1, 0; left > 0; n++ {
		cost := min(left, limiter.MaxLogCost)
		next, d := j.start.Check(at, model.Request{Limit: p.Limit, Cost: cost, ID: fmt.Sprint("fill-", n)})
		if !d.Allowed {
			return j, fmt.Errorf("the rule itself refuses with %d to go", left)
		}
		j.start, left = next, left-cost
	}
	_, d := j.start.Check(at, model.Request{Limit: p.Limit})
	j.slots = d.Remaining
	return j, nil
}

// verdict judges a complete schedule and what it left behind; nil if the rule was kept.
func (j judge) verdict(s Schedule, left snapshot) *Violation {
	admitted, last, refused := int64(0), -1, -1
	for who, c := range s.Calls {
		if !c.Decision.Allowed {
			refused = who
			continue
		}
		admitted++
		if last < 0 || c.Last > s.Calls[last].Last {
			last = who
		}
	}
	switch {
	case admitted > j.slots:
		return &Violation{Over, last, fmt.Sprintf("%d admitted where %d was left", admitted, j.slots)}
	case left.immortal() != "":
		return &Violation{Immortal, -1, "a key was left without a TTL"}
	case j.explained(s.Calls, 0, j.start):
		return nil
	case admitted < j.slots && refused >= 0:
		return &Violation{Under, refused, "refused although there was room"}
	}
	return &Violation{Differs, 0, "no order of the calls explains what they were told"}
}

// explained tells whether the rule decides the calls alike in some order that agrees with when they began and ended.
// done holds a bit for each call that came before.
func (j judge) explained(calls []Call, done uint, state model.State) bool {
	if done == 1<<len(calls)-1 {
		return true
	}
	for who, c := range calls {
		if done&(1<<who) != 0 || !first(calls, done, c) {
			continue
		}
		next, d := state.Check(j.at, model.Request{Limit: j.plan.Limit, Cost: 1, ID: Name(who)})
		if j.same(c.Decision, d) && j.explained(calls, done|1<<who, next) {
			return true
		}
	}
	return false
}

// first tells whether no other open call had ended before c began.
func first(calls []Call, done uint, c Call) bool {
	for i, other := range calls {
		if done&(1<<i) == 0 && other.Last < c.First {
			return false
		}
	}
	return true
}

// same compares a decision with the rule's: of an atomic limiter every field, of others what they were told.
func (j judge) same(got, want limiter.Decision) bool {
	if !j.plan.Entry.Atomic() {
		return got.Allowed == want.Allowed
	}
	return got.Allowed == want.Allowed && got.Remaining == want.Remaining && got.RetryAfter == want.RetryAfter &&
		got.ResetAfter == want.ResetAfter && (got.At.IsZero() || got.At.Equal(want.At))
}
