// Package target holds the catalogue of limiters, atomic and naive, and the connections they are run on.
package target

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/outside"
)

// BrokenBy is what makes a limiter break its twin's rule.
type BrokenBy string

// What can break a limiter.
const (
	Nothing BrokenBy = "nothing"
	Race    BrokenBy = "race"   // concurrent callers
	Skew    BrokenBy = "skew"   // callers whose clocks differ
	Denial  BrokenBy = "denial" // a client that keeps asking
	Crash   BrokenBy = "crash"  // a client that dies between two commands
)

// Entry is one row of the catalogue.
type Entry struct {
	Name     string
	Summary  string // the rule in a few words; of a naive row, what it does
	Twin     string // of a naive row, whom it imitates; of one from outside, whose rule it claims; else empty
	Flaw     string // of a naive row, what is wrong with it
	BrokenBy BrokenBy
	State    string     // what Redis keeps for a key, in a few words
	Worst    string     // the most in any trailing window
	Rule     model.Rule // a naive row names its twin's
	New      func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error)
	Outside  *outside.Terms // of one from outside, on which it was opened; else nil
	Unit     bool           // a request takes one event: more is not asked of it
	Callers  bool           // of one from outside: it decides on its caller's clock
	Service  bool           // it is asked over HTTP, and asks no Redis that we know of
}

// NoState is the State of a limiter that asks Redis nothing.
const NoState = "none"

// Own tells whether the rule is the limiter's own, so that its key is known by its name, and its decisions tell all that
// the rule does.
func (e Entry) Own() bool { return e.Twin == "" }

// Terms are those on which one from outside was opened.
func (e Entry) Terms() outside.Terms {
	if e.Outside == nil {
		return outside.Terms{}
	}
	return *e.Outside
}

// Atomic tells whether the limiter claims to keep its rule whatever the order of requests.
func (e Entry) Atomic() bool { return e.Own() || e.Outside != nil }

// Releases tells whether what was taken can be given back: its limiter is a limiter.Releaser.
func (e Entry) Releases() bool { return e.Rule.AtOnce && e.Outside == nil }

// tick is the coarsest clock that a service is taken to decide on: nginx's shows whole milliseconds, of a clock that the
// kernel sets forward every 1 to 10 ms.
const tick = 10 * time.Millisecond

// Judged is the rule by which its decisions are judged. A service does not tell on what clock it decides, so as much more
// time may have passed for it as one tick of a coarse one.
func (e Entry) Judged() model.Rule {
	if !e.Service {
		return e.Rule
	}
	rule := e.Rule
	rule.Most = func(l limiter.Limit, from, to time.Time) int64 {
		if to.After(from) { // the capacity is what is admitted at one instant
			to = to.Add(tick)
		}
		return e.Rule.Most(l, from, to)
	}
	return rule
}
