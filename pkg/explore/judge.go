package explore

import (
	"fmt"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/target"
)

// Kind is what a schedule did wrong.
type Kind string

// The kinds.
const (
	Over     Kind = "over"     // admitted more than there was room for
	Under    Kind = "under"    // refused although there was room
	Differs  Kind = "differs"  // no order of the calls explains what they were told
	Lifetime Kind = "lifetime" // left a key without a TTL, or with one longer than the rule needs
	Charged  Kind = "charged"  // a refused call changed the state
	Locked   Kind = "locked"   // refused when the key must be as good as unused
)

// Violation is how a schedule broke the rule.
type Violation struct {
	Kind   Kind
	Call   int // the call that it shows in; -1 for what was left behind
	Reason string
}

// judge knows the rule and the state from which all schedules start.
type judge struct {
	plan    Plan
	at      time.Time
	start   model.State
	slots   int64
	longest time.Duration // until a key of the rule is as good as unused
}

// newJudge brings the model to the same start.
func newJudge(p Plan, at time.Time) (judge, error) {
	rule, capacity := p.Entry.Rule, p.Entry.Rule.Capacity(p.Limit)
	j := judge{plan: p, at: at, start: rule.Fresh}
	if p.Start == OneLeft {
		for left, n := capacity-1, 0; left > 0; n++ {
			cost := min(left, limiter.MaxLogCost)
			if rule.AtOnce {
				cost = 1
			}
			next, d := j.start.Check(at, model.Request{Limit: p.Limit, Cost: cost, ID: fmt.Sprint("fill-", n)})
			if !d.Allowed {
				return j, fmt.Errorf("the rule itself refuses with %d to go", left)
			}
			j.start, left = next, left-cost
		}
	}
	_, d := j.start.Check(at, model.Request{Limit: p.Limit})
	j.slots = d.Remaining
	j.longest = rule.Longest(p.Limit)
	return j, nil
}

// verdict judges a complete schedule and what it left behind; nil if the rule was kept.
func (j judge) verdict(calls []Call, left snapshot) *Violation {
	open, refused, charged := int64(0), -1, -1
	for i, c := range calls {
		switch {
		case c.Died:
			open++
		case !c.Ended() || c.Decision.Allowed:
		default:
			refused = i
			if c.Charged {
				charged = i
			}
		}
	}
	admitted, last := atOnce(calls)
	if admitted > j.slots {
		return &Violation{Over, last, fmt.Sprintf("%d admitted where %d could be", admitted, j.slots)}
	}
	if v := j.lifetimes(left); v != nil {
		return v
	}
	if j.plan.Skew { // the rule knows one clock
		return nil
	}
	var end model.State // of an order that explains what was told
	fits := j.explained(calls, 0, j.start, func(s model.State) bool {
		end = s
		return !j.plan.Entry.Own() || j.plan.Entry.Rule.Untold&model.Lifetime != 0 || left.diesAs(s)
	})
	switch {
	case end == nil && refused >= 0 && admitted+open < j.slots && !j.plan.Release:
		return &Violation{Under, refused, "refused although there was room"}
	case end == nil:
		return &Violation{Differs, -1, "no order of the calls explains what they were told"}
	case charged >= 0 && j.minds():
		return &Violation{Charged, charged, "a refused call changed what Redis holds"}
	case !fits:
		return &Violation{Lifetime, -1, fmt.Sprintf("the rule gives the key a TTL of %v, and what was left has %s",
			end.Expires().Sub(j.at.Truncate(time.Millisecond)), left.ttls(j.at))}
	}
	return nil
}

// minds tells whether it is a fault of this limiter if a refusal changes the state: of one that nothing breaks, and of one
// that this does, unless the rule itself charges it.
func (j judge) minds() bool {
	if j.plan.Entry.Rule.Charges {
		return false
	}
	return j.plan.Entry.BrokenBy == target.Nothing || j.plan.Entry.BrokenBy == target.Denial
}

// lifetimes looks at the TTLs that were left, which no order of the calls excuses. They are whole milliseconds
// and must not end early, so that less than two are not too much.
func (j judge) lifetimes(left snapshot) *Violation {
	for _, k := range left {
		ttl := k.ttl(j.at)
		switch {
		case k.dies < 0:
			return &Violation{Lifetime, -1, "a key was left without a TTL"}
		case ttl > j.longest+2*time.Millisecond && !j.plan.Skew:
			return &Violation{Lifetime, -1, fmt.Sprintf("a key was left with a TTL of %v, where %v suffices", ttl, j.longest)}
		}
	}
	return nil
}

// explained tells whether the rule decides the calls alike in some order that agrees with when they began and ended, and
// comes to a state that will do. A call whose client died may be in it, at any time after it began, or not. done holds a
// bit for each call before.
func (j judge) explained(calls []Call, done uint, state model.State, willDo func(model.State) bool) bool {
	open := false
	for i, c := range calls {
		if done&(1<<i) != 0 || c.First < 0 {
			continue
		}
		open = open || c.Ended()
		if c.before&^done != 0 {
			continue
		}
		next, d := state.Check(j.at, j.request(c, i))
		if (c.Died || j.same(c.Decision, d)) && j.explained(calls, done|1<<i, next, willDo) {
			return true
		}
	}
	return !open && willDo(state)
}

// request is call i as the rule sees it.
func (j judge) request(c Call, i int) model.Request {
	r := model.Request{Limit: j.plan.Limit, Cost: 1, ID: fmt.Sprint(Name(c.Client), i)}
	if c.Release {
		r.ID, r.Cost, r.Act = fmt.Sprint(Name(c.Client), i-1), 0, model.Release
	}
	return r
}

// same compares a decision with the rule's: every field that it tells of a limiter whose own rule it is, and of one that
// tells the server's time; of others whether they were let in.
func (j judge) same(got, want limiter.Decision) bool {
	if !j.plan.Entry.Own() && (!j.plan.Entry.Atomic() || got.At.IsZero()) {
		return got.Allowed == want.Allowed
	}
	want = j.plan.Entry.Rule.Untold.Blank(want)
	return got.Allowed == want.Allowed && got.Remaining == want.Remaining && got.RetryAfter == want.RetryAfter &&
		got.ResetAfter == want.ResetAfter && (got.At.IsZero() || got.At.Equal(want.At))
}
