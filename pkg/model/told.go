package model

import (
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// Fields are what a limiter tells besides whether the request passed.
type Fields uint8

// The fields.
const (
	Remaining Fields = 1 << iota
	RetryAfter
	ResetAfter
	// Lifetime is none of a decision but of its key, as Redis tells it: that the key dies when the rule has no more need
	// of it, to the millisecond.
	Lifetime

	AllFields = Remaining | RetryAfter | ResetAfter | Lifetime
)

// Blank returns a decision without the fields: each of it is zero.
func (f Fields) Blank(d limiter.Decision) limiter.Decision {
	if f&Remaining != 0 {
		d.Remaining = 0
	}
	if f&RetryAfter != 0 {
		d.RetryAfter = 0
	}
	if f&ResetAfter != 0 {
		d.ResetAfter = 0
	}
	return d
}

// Told is the rule with decisions that lack its Untold fields, to compare with those of its limiter, less the same. It
// decides alike.
func (r Rule) Told() Rule {
	if r.Untold != 0 {
		r.Fresh = reticent{r.Fresh, r.Untold}
	}
	return r
}

// reticent is a state that does not tell all.
type reticent struct {
	State
	untold Fields
}

func (s reticent) Check(at time.Time, r Request) (State, limiter.Decision) {
	next, d := s.State.Check(at, r)
	return reticent{next, s.untold}, s.untold.Blank(d)
}

func (s reticent) alike(other State) bool {
	o, ok := other.(reticent)
	return ok && Alike(s.State, o.State)
}
