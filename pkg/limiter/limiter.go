// Package limiter says what a rate limiter is and holds the atomic ones.
//
// Every decision is made by a Lua script inside Redis, in one round trip and on the server's clock; this package
// sends it, decodes its five integers and says of every error whether the request may have been counted all the
// same. It depends on nothing but the scripts and go-redis, so that any service can embed it.
package limiter

import (
	"context"
	"time"
)

// Never is the RetryAfter of a request whose cost exceeds the capacity: waiting does not help.
const Never time.Duration = -1

// What Remaining holds where a limiter that nobody here wrote tells no number. Ours always tells.
const (
	Untold  = -1 // it says nothing
	Garbled = -2 // it says what is no number of events
)

// Decision is what a limiter answered to one request.
type Decision struct {
	Allowed    bool
	Remaining  int64         // events that would be allowed right after this one, 0 to the capacity
	RetryAfter time.Duration // 0 if allowed, Never if this cost can never be allowed
	ResetAfter time.Duration // until the key is as good as unused
	At         time.Time     // the server's clock when it decided; zero if the limiter does not say
	Degraded   bool          // a failure policy answered, not the server
}

// Limiter decides whether a request may pass.
type Limiter interface {
	// Check takes cost events, 0 (a peek) to MaxCost, from key, the client's id of 1 to 65536 bytes, and says whether
	// they were allowed. A denial is a Decision; an error is never a denial, and Counted tells whether the request may
	// have been counted in spite of it.
	Check(ctx context.Context, key string, cost int64) (Decision, error)
}

// Identified is a Limiter that can take the request's id from its caller. An id that was already counted is answered
// again and not charged again by limiters that keep ids, which makes a retry safe there.
type Identified interface {
	Limiter
	// CheckID is Check of the request with that id, 1 to MaxID bytes.
	CheckID(ctx context.Context, key string, cost int64, id string) (Decision, error)
}

// Releaser is a Limiter of how many hold at once: what a request took can be given back.
type Releaser interface {
	Identified
	// Release gives back what the request with that id took. Of one that holds nothing, or no longer, it is denied and
	// changes nothing.
	Release(ctx context.Context, key, id string) (Decision, error)
}

// Renewer is a Releaser that keeps a slot for a time only, which its holder can have begin anew.
type Renewer interface {
	Releaser
	// Renew begins the lease of the request with that id anew. Of one that holds nothing, or no longer, it is denied and
	// changes nothing.
	Renew(ctx context.Context, key, id string) (Decision, error)
}

// Resetter is a Limiter that can forget a key.
type Resetter interface {
	// Reset deletes all that the limiter keeps for key, by name.
	Reset(ctx context.Context, key string) error
}

// Retrier is a Limiter that sends a request again when others got in its way.
type Retrier interface {
	// Retries counts the attempts beyond the first since the limiter was made. It may be called at any time.
	Retries() int64
}

// Wrapper is a Limiter around another, as a policy is.
type Wrapper interface {
	Limiter
	// Unwrap returns the Limiter that is asked.
	Unwrap() Limiter
}

// As looks for what is a T: l, or else what l is wrapped around, the outermost first. A decorator that is no Wrapper hides
// what is beneath it. A call of what is found passes by the decorators around it: no policy guards it, nothing counts it. So
// As tells whether a Limiter can release or reset; what decides, such as CheckID, is to be asked of l itself.
func As[T any](l Limiter) (found T, ok bool) {
	for l != nil {
		if found, ok = l.(T); ok {
			return found, true
		}
		w, wraps := l.(Wrapper)
		if !wraps {
			break
		}
		l = w.Unwrap()
	}
	return found, false
}

// Func is a function as a Limiter; decorators and tests use it.
type Func func(ctx context.Context, key string, cost int64) (Decision, error)

// Check calls f.
func (f Func) Check(ctx context.Context, key string, cost int64) (Decision, error) {
	return f(ctx, key, cost)
}
