// Package policy decides what a caller is told when its limiter cannot decide: a decorator around any limiter, with a
// mode that has to be named and a time within which there is an answer. Another decorator, WithDenyCache, tells a client
// that has to wait so from memory, where the limiter need not be asked.
//
// Each call gets a deadline. What the limiter decides by then passes through untouched. Where it fails, the mode
// answers: Error hands the error on, Open allows and Closed denies, both marked Degraded, so that nobody takes them for
// a decision. The next call asks the limiter again, so that the policy is over as soon as the trouble is; a breaker, if
// one is asked for, lets a silent server rest in between.
//
// What it gives up. Open lets everybody pass while Redis is away, and Closed nobody: neither counts, and nothing is made
// up for afterwards. A failed call may have been counted all the same (limiter.Counted). It is never sent again, and
// the answer of Open or Closed hides it, so that the hook Failed is the only one to see it. The deadline is that of the
// context and no more: no goroutine waits for a limiter that does not heed it. Of go-redis that asks for clients made
// with ContextTimeoutEnabled, and with retries off, since pauses between them are part of the time.
package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// Mode is what a caller is told of a request that could not be decided.
type Mode string

// The modes.
const (
	Error  Mode = "error"  // the error
	Open   Mode = "open"   // allowed
	Closed Mode = "closed" // denied
)

// Modes are all of them.
func Modes() []Mode { return []Mode{Error, Open, Closed} }

// DefaultRetryAfter is how long a denial of Closed tells to wait unless the policy says otherwise.
const DefaultRetryAfter = time.Second

// Policy is what to do about failures. No mode is a default: the zero value is refused.
type Policy struct {
	Mode       Mode
	Timeout    time.Duration // of each call, above 0; a caller's own deadline may come before it
	RetryAfter time.Duration // what a denial of Closed tells to wait; 0 means DefaultRetryAfter
	Breaker    Breaker       // the zero value asks the limiter every time

	// Failed, if not nil, is told of each failure that the mode answers, Error included, before the caller is.
	// limiter.Counted tells whether the request may have been counted, and errors.Is(err, ErrNotAsked) whether a breaker
	// kept it back. It is called by many goroutines at once, and its time is the caller's.
	Failed func(ctx context.Context, err error)
}

// Validate names the field at fault.
func (p Policy) Validate() error {
	switch {
	case !slices.Contains(Modes(), p.Mode):
		return fmt.Errorf("policy: mode must be one of %s", words(Modes()))
	case p.Timeout <= 0:
		return errors.New("policy: timeout must be above 0")
	case p.RetryAfter < 0:
		return errors.New("policy: retry after must not be negative")
	}
	return p.Breaker.validate()
}

func words(modes []Mode) string {
	var all []string
	for _, m := range modes {
		all = append(all, string(m))
	}
	return strings.Join(all, ", ")
}

// New returns next under a policy. It is Identified if next is; other powers of next are not under a policy, and found by
// limiter.As. It may be used by as many goroutines as next. The error is that of Validate.
//
// Two failures are errors whatever the mode, and the hook is not told of them: what the caller did wrong
// (limiter.ClassInvalid), and a call whose caller has cancelled it. A caller's deadline is no cancelling: when it ends
// the call, the mode answers.
func New(next limiter.Limiter, p Policy) (limiter.Limiter, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.RetryAfter == 0 {
		p.RetryAfter = DefaultRetryAfter
	}
	g := &guard{Policy: p, next: next, breaker: newBreaker(p.Breaker)}
	if named, ok := next.(limiter.Identified); ok {
		return &identified{g, named}, nil
	}
	return g, nil
}

// guard is a limiter under a policy.
type guard struct {
	Policy
	next    limiter.Limiter
	breaker *breaker // nil if there is none
}

// identified is a guard whose limiter takes ids.
type identified struct {
	*guard
	named limiter.Identified
}

// Unwrap is the limiter.
func (g *guard) Unwrap() limiter.Limiter { return g.next }

// Check asks the limiter, or the policy where it cannot decide.
func (g *guard) Check(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	return g.decide(ctx, request{key, cost, ""}, func(ctx context.Context) (limiter.Decision, error) {
		return g.next.Check(ctx, key, cost)
	})
}

// CheckID is Check of the request with that id.
func (i *identified) CheckID(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
	return i.decide(ctx, request{key, cost, id}, func(ctx context.Context) (limiter.Decision, error) {
		return i.named.CheckID(ctx, key, cost, id)
	})
}

type request struct {
	key  string
	cost int64
	id   string
}

// asking is one call of the limiter.
type asking func(context.Context) (limiter.Decision, error)

func (g *guard) decide(ctx context.Context, r request, ask asking) (limiter.Decision, error) {
	d, err := g.breaker.call(ctx, r, func() (limiter.Decision, error) {
		timed, cancel := context.WithTimeout(ctx, g.Timeout)
		defer cancel()
		return ask(timed)
	})
	if err == nil || invalid(err) || errors.Is(ctx.Err(), context.Canceled) {
		return d, err
	}
	if g.Failed != nil {
		g.Failed(ctx, err)
	}
	if g.Mode == Error {
		return d, err
	}
	return g.answer(), nil
}

// answer is the policy's own.
func (g *guard) answer() limiter.Decision {
	d := limiter.Decision{Allowed: g.Mode == Open, Remaining: limiter.Untold, Degraded: true}
	if !d.Allowed {
		d.RetryAfter = g.RetryAfter
	}
	return d
}

// invalid tells whether the caller asked for what no limiter takes.
func invalid(err error) bool { return class(err) == limiter.ClassInvalid }

// class is what kind of failure err is, "" if no limiter classified it.
func class(err error) limiter.Class {
	var e *limiter.Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}
