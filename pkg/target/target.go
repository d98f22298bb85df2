// Package target holds the catalogue of limiters, atomic and naive, and the connections they are run on.
package target

import (
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
	Unit     bool           // a request takes one event, whatever it is asked for
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
