// Package target holds the catalogue of limiters, atomic and naive, and the connections they are run on.
package target

import (
	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
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
	Twin     string // of a naive row, whom it imitates; empty for an atomic limiter
	Flaw     string // of a naive row, what is wrong with it
	BrokenBy BrokenBy
	State    string     // what Redis keeps for a key, in a few words
	Worst    string     // the most in any trailing window
	Rule     model.Rule // a naive row names its twin's
	New      func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error)
}

// NoState is the State of a limiter that asks Redis nothing.
const NoState = "none"

// Atomic tells whether the limiter claims to keep its rule whatever the order of requests.
func (e Entry) Atomic() bool { return e.Twin == "" }
