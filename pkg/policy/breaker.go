package policy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// Breaker stops asking a server that is silent: after so many silent calls in a row nobody asks for the length of a
// pause, and then one call tries while the others still go without. If it is answered, all ask again.
//
// Silence is no connection, no answer in time, or an error that no limiter classified. A server that says anything,
// LOADING, OOM or READONLY included, is asked again each time: it costs no wait, and the end of the trouble is seen at
// once. A denial is an answer as well. What the caller did wrong, or had no more time for, tells nothing of the server.
type Breaker struct {
	Failures int           // silent calls in a row, 1 or more; 0 is no breaker
	Pause    time.Duration // above 0

	// Opened, if not nil, is told when nobody asks any more, and when all ask again: not of each pause after which the server
	// is silent still. It is called by one of the callers, whose time it is.
	Opened func(open bool)
}

// ErrNotAsked is in the error of a call that a Breaker kept back. It was certainly not counted.
var ErrNotAsked = errors.New("not asked")

func (b Breaker) validate() error {
	switch {
	case b.Failures < 0:
		return errors.New("policy: failures of the breaker must not be negative")
	case b.Failures > 0 && b.Pause <= 0:
		return errors.New("policy: pause of the breaker must be above 0")
	case b.Failures == 0 && b.Pause != 0:
		return errors.New("policy: pause of the breaker needs failures")
	}
	return nil
}

// breaker is a Breaker at work; nil lets every call through.
type breaker struct {
	circuit *gobreaker.CircuitBreaker[limiter.Decision]
	last    atomic.Pointer[limiter.Error] // the last silence, of which the errors of the pause tell
	opened  func(open bool)
	news    atomic.Pointer[bool] // whether it is open, until that is told
}

func newBreaker(b Breaker) *breaker {
	if b.Failures == 0 {
		return nil
	}
	made := &breaker{opened: b.Opened}
	made.circuit = gobreaker.NewCircuitBreaker[limiter.Decision](gobreaker.Settings{
		Timeout:      b.Pause,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return int64(c.ConsecutiveFailures) >= int64(b.Failures) },
		IsSuccessful: func(err error) bool { return !silent(err) },
		IsExcluded:   func(err error) bool { return invalid(err) || errors.As(err, new(hurried)) },
		OnStateChange: func(_ string, from, to gobreaker.State) { // under its lock, where nobody should be called
			if from == gobreaker.StateClosed || to == gobreaker.StateClosed {
				made.news.Store(new(to == gobreaker.StateOpen))
			}
		},
	})
	made.last.Store(asError(errors.New("a panic"))) // which is a failure too, and passes by call
	return made
}

// hurried is the error of a call whose caller went away or gave it less time than the policy does.
type hurried struct{ error }

func (h hurried) Unwrap() error { return h.error }

// call asks unless it is time to rest. A request that no limiter takes is refused then too.
func (b *breaker) call(ctx context.Context, r request, ask func() (limiter.Decision, error)) (limiter.Decision, error) {
	if b == nil {
		return ask()
	}
	d, err := b.circuit.Execute(func() (limiter.Decision, error) {
		d, err := ask()
		switch {
		case err != nil && ctx.Err() != nil:
			return d, hurried{err}
		case silent(err):
			b.last.Store(asError(err))
		}
		return d, err
	})
	if open := b.news.Swap(nil); open != nil && b.opened != nil {
		b.opened(*open)
	}
	var h hurried
	switch {
	case errors.As(err, &h):
		return d, h.error
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return d, b.keptBack(r)
	}
	return d, err
}

// keptBack is the error of a request that nobody was asked about.
func (b *breaker) keptBack(r request) error {
	last := b.last.Load()
	if err := limiter.CheckRequest(r.key, r.cost, r.id); err != nil {
		return limiter.Classify(last.Limiter, err, false)
	}
	return &limiter.Error{
		Limiter: last.Limiter, Class: limiter.ClassUnreachable, Err: fmt.Errorf("%w, after: %w", ErrNotAsked, last.Err),
	}
}

// silent tells whether err says that there was no answer at all.
func silent(err error) bool {
	if err == nil {
		return false
	}
	switch class(err) {
	case limiter.ClassUnreachable, limiter.ClassNoAnswer, "":
		return true
	}
	return false
}

// asError is err as a limiter would have classified it.
func asError(err error) *limiter.Error {
	var e *limiter.Error
	if !errors.As(err, &e) {
		e = &limiter.Error{Limiter: "limiter", Class: limiter.ClassOther, Unknown: true, Err: err}
	}
	return e
}
