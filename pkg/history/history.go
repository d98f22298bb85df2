// Package history says what happened: each call becomes an Op, written by a recorder that decorates any limiter.
//
// A call is written twice, when it begins (Open) and when it ends. A process that dies leaves its last call Open, and
// whoever reads the history takes that call as Unknown: a lost reply is never a denial, and never nothing.
package history

import (
	"errors"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// Outcome is how a call ended.
type Outcome int

// The outcomes.
const (
	Open    Outcome = iota // begun, not ended
	Decided                // the limiter answered
	Failed                 // an error; it was certainly not counted
	Unknown                // an error, or no end at all; it may have been counted
)

// ClassDied is the class of a call whose process died before it ended.
const ClassDied limiter.Class = "died"

// Op is one call. A client's calls follow one another, numbered by Seq.
type Op struct {
	Proc, Client int
	Seq          int64
	Key          string
	Request      model.Request
	Call, Return int64 // ns of CLOCK_MONOTONIC, which all processes of one machine share; Return is 0 while Open
	Until        int64 // ns; of an Unknown call: by then it had counted if it ever did; 0 is not known
	Outcome      Outcome
	Class        limiter.Class // of the error; empty when Decided
	Decision     limiter.Decision
}

// Admitted tells whether the call was decided and allowed.
func (o Op) Admitted() bool { return o.Outcome == Decided && o.Decision.Allowed && o.Asked() }

// Denied tells whether the call was decided and denied.
func (o Op) Denied() bool { return o.Outcome == Decided && !o.Decision.Allowed && o.Asked() }

// Asked tells whether the call was to take something, or to peek. A call about what was taken before, by which its holder
// keeps it or gives it back, is neither admitted nor denied.
func (o Op) Asked() bool { return o.Request.Act == model.Take }

// Released tells whether the call was to give something back.
func (o Op) Released() bool { return o.Request.Act == model.Release }

// Renewed tells whether the lease of a holder began anew.
func (o Op) Renewed() bool {
	return o.Request.Act == model.Renew && o.Outcome == Decided && o.Decision.Allowed
}

// outcomeOf tells how a call that returned err ended. An error that no limiter of ours classified may hide a decision.
func outcomeOf(err error) (Outcome, limiter.Class) {
	var e *limiter.Error
	switch {
	case err == nil:
		return Decided, ""
	case !errors.As(err, &e):
		return Unknown, limiter.ClassOther
	case e.Unknown:
		return Unknown, e.Class
	default:
		return Failed, e.Class
	}
}
