// Package history says what happened: one Op a call, written by a recorder as a decorator around any limiter.
package history

import (
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// Outcome is how a call ended.
type Outcome int

// A call is Open from when it is sent until it ends; one that stays open, because its process died, is Unknown.
const (
	Open    Outcome = iota
	Decided         // the limiter answered
	Failed          // it was certainly not counted
	Unknown         // it may have been counted
)

// Op is one call.
type Op struct {
	Proc, Client int
	Seq          int64
	Key          string
	Request      model.Request
	Call, Return int64 // ns of CLOCK_MONOTONIC, which all processes of one machine share; Return is 0 while Open
	Outcome      Outcome
	Class        limiter.Class // of the error; empty when Decided
	Decision     limiter.Decision
}
