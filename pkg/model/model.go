// Package model holds the rules as pure functions of (state, time, request): no I/O, no clock, no goroutine.
//
// They are written from the rules, not from the scripts, so that a difference between the two is a fault in one of
// them. All arithmetic is exact.
package model

import (
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// Request is one call as the rule sees it. The limit may change from call to call. Its values lie within the bounds
// that limiters accept; a rule has no errors.
type Request struct {
	Limit limiter.Limit
	Cost  int64
	ID    string
	Act   Act // of a semaphore's holder; of all other requests Take
}

// Act is what a request wants. Renew and Release are a semaphore's alone; they take no events, and their cost is 0.
type Act string

// The acts.
const (
	Take    Act = ""
	Renew   Act = "renew"   // the lease of a holder begins anew
	Release Act = "release" // a holder gives its slot back
)

// State is what a key holds. States are values: an old one stays usable, to go back to. States that came from one
// another are not for use by two goroutines at once, since logs share what they have in common.
type State interface {
	// Check returns the next state and the decision of a request that arrives at the given time of the server's clock,
	// and changes nothing. A state whose TTL has passed at that time is a fresh key.
	Check(at time.Time, r Request) (State, limiter.Decision)
	// Expires is the last millisecond at which the key may still live, as PEXPIRETIME tells it: the first that begins when
	// the state no longer counts, or later, since in Redis 8 the key may be gone as soon as it begins. It is zero if there is no key,
	// time.UnixMilli(math.MaxInt64) if it has no TTL.
	Expires() time.Time
}

// Persist returns s as PERSIST leaves it: a key without TTL, until the next write gives it one. It changes only states
// of this package.
func Persist(s State) State {
	if p, ok := s.(interface{ persist() State }); ok {
		return p.persist()
	}
	return s
}

// Alike tells whether two states of this package hold the same.
func Alike(a, b State) bool {
	x, ok := a.(interface{ alike(State) bool })
	return ok && x.alike(b)
}

// Rule is one algorithm.
type Rule struct {
	// Fresh is the state of a key that does not exist.
	Fresh State
	// Most is the most events that the rule can admit on a fresh key from one instant of the server's clock to
	// another, both included, whatever the requests.
	Most func(l limiter.Limit, from, to time.Time) int64
	// Memory is how the rule forgets what it admitted.
	Memory Memory
	// Charges says that a refused request counts as well. Then it is no fault that it changes the key.
	Charges bool
	// AtOnce says that the limit is of how many hold at one instant, each from its admission until it gives back or its
	// window is over. Most then says what is admitted if nobody gives anything back.
	AtOnce bool
	// Recalls says that the limiter which keeps this rule may answer refusals from memory. These bear no server time, repeat
	// what its process was told before, less the time since, and agree with the rule at some instant of the call.
	Recalls bool
	// Untold are fields that the limiter which claims this rule does not tell, or rounds: they are not compared, and it
	// is judged by the rest. The limiters of this module tell all.
	Untold Fields
}

// Memory is how a rule forgets. It tells what the time of an event that was admitted between two decisions can matter.
type Memory int

// The ways to forget.
const (
	Events  Memory = iota // each event, one window after it came
	Windows               // all events of a window at once
	Shares                // as Windows, but share by share, of which replies round what is left
	Level                 // a key holds one level that falls, and ResetAfter tells it to the microsecond
)

// Capacity is the most events that a fresh key admits at once: the burst of a bucket, the limit of all else.
func (r Rule) Capacity(l limiter.Limit) int64 {
	now := time.Unix(0, 0)
	return r.Most(l, now, now)
}

// Longest is the most that a key can take until it is as good as unused, and so the longest TTL that it needs.
func (r Rule) Longest(l limiter.Limit) time.Duration {
	cost := r.Capacity(l)
	if r.AtOnce {
		cost = min(cost, 1)
	}
	_, d := r.Fresh.Check(time.Unix(0, 0), Request{Limit: l, Cost: cost, ID: "all"})
	return d.ResetAfter
}
