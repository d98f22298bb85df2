package limiter

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/scripts"
)

// semaphore is the last word of a semaphore's keys, and its name in errors.
const semaphore = "semaphore"

// Semaphore lets at most so many hold a key at once. A holder is an id with a lease, which ends by the server's clock
// unless it is renewed, so that the slot of a holder that died comes back by itself. It may be used by many goroutines
// at once.
//
// Each call is one script call, under the same promises as that of a Script. An error is never a denial. All three
// calls are safe to send again under the same id: to acquire what one holds is to renew it.
//
// What it cannot do for its caller: stop the caller when its lease has ended. Who holds on to a slot counts its lease from
// before the call that was granted, and renews or stops in time.
type Semaphore struct{ acquire, renew, release *Script }

// NewSemaphore returns a semaphore: Limit.Events, 0 to 10^9, is how many may hold a key at once, Limit.Window the lease,
// 1 ms to 366 days; Limit.Burst is ignored. It does no I/O. An error is of ClassInvalid and names the field at fault.
func NewSemaphore(rdb redis.UniversalClient, l Limit, opts ...Option) (*Semaphore, error) {
	source := func(name string) string { text, _ := scripts.Source(name); return text }
	return NewSemaphoreScripts(rdb, semaphore, source, l, opts...)
}

// NewSemaphoreScripts returns a semaphore of three scripts that keep the contract of those in package scripts: source
// returns the text of each by its name there. The name is the last word of the semaphore's keys. It does no I/O.
func NewSemaphoreScripts(
	rdb redis.UniversalClient, name string, source func(script string) string, l Limit, opts ...Option,
) (*Semaphore, error) {
	s := &Semaphore{}
	for script, made := range map[string]**Script{
		scripts.SemaphoreAcquire: &s.acquire, scripts.SemaphoreRenew: &s.renew, scripts.SemaphoreRelease: &s.release,
	} {
		var err error
		if *made, err = newScript(rdb, name, source(script), l, append([]Option{WithFile(script + ".lua")}, opts...)...); err != nil {
			return nil, err
		}
		(*made).rule = rules[semaphore]
	}
	return s, nil
}

// Acquire takes a slot of key for id, 1 to MaxID bytes, for one lease from now. An id that holds already is allowed and
// its lease begins anew. RetryAfter of a denial is when enough leases will have ended, Never at a limit of 0.
// Remaining are the slots that are free afterwards, ResetAfter is when the last lease ends.
func (s *Semaphore) Acquire(ctx context.Context, key, id string) (Decision, error) {
	return s.acquire.CheckID(ctx, key, 1, id)
}

// Renew begins the lease of a holder anew. Of one that does not hold, or no longer, it is denied, and RetryAfter is Never.
func (s *Semaphore) Renew(ctx context.Context, key, id string) (Decision, error) {
	return s.renew.CheckID(ctx, key, 1, id)
}

// Release gives the slot of a holder back. Of one that does not hold, or no longer, it is denied and changes nothing.
func (s *Semaphore) Release(ctx context.Context, key, id string) (Decision, error) {
	return s.release.CheckID(ctx, key, 1, id)
}

// Check is Acquire under an id that nobody else has, or, at cost 0, Peek. A cost above 1 is refused. It makes of the
// semaphore a Limiter, whose slots come back when leases end.
func (s *Semaphore) Check(ctx context.Context, key string, cost int64) (Decision, error) {
	return s.acquire.Check(ctx, key, cost)
}

// CheckID is Check under the caller's id.
func (s *Semaphore) CheckID(ctx context.Context, key string, cost int64, id string) (Decision, error) {
	return s.acquire.CheckID(ctx, key, cost, id)
}

// Peek takes nothing, and tells how many slots of key are free and when the last lease ends.
func (s *Semaphore) Peek(ctx context.Context, key string) (Decision, error) {
	return s.acquire.CheckID(ctx, key, 0, "")
}

// Reset takes the slots of key from all its holders.
func (s *Semaphore) Reset(ctx context.Context, key string) error { return s.acquire.Reset(ctx, key) }
