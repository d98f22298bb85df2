package hold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
)

// slot is one holder's place in a semaphore.
type slot struct {
	plan  Plan
	id    string
	until time.Time // by this machine's monotonic clock: the lease has not ended before

	rdb       redis.UniversalClient
	semaphore *limiter.Semaphore
	guarded   limiter.Identified // the semaphore under the policy
	perhaps   bool               // an acquisition failed that may have been counted
}

// tries is how often connecting may fail before the client library rests for a second, in which a short lease is lost. It
// rests after as many failures as it may have connections. There is never more than one; a lease is tried for 12 times.
const tries = 64

// dial opens the connection anew. What the old one is still waiting for ends, and is not sent if it was not yet.
func (s *slot) dial() error {
	s.hangUp()
	rdb, err := s.plan.Conn.Open(tries)
	if err != nil {
		return err
	}
	s.rdb = rdb
	limit := limiter.Limit{Events: s.plan.Limit, Window: s.plan.Lease}
	if s.semaphore, err = limiter.NewSemaphore(rdb, limit, limiter.WithPrefix(s.plan.Prefix)); err != nil {
		return err
	}
	return s.guard(s.plan.Policy)
}

// hangUp closes the connection, which ends a wait for an answer, too.
func (s *slot) hangUp() {
	if s.rdb != nil {
		_ = s.rdb.Close()
	}
}

// hangingUp hangs up when ctx ends, unless it is stopped before.
func (s *slot) hangingUp(ctx context.Context) (stop func() bool) {
	rdb := s.rdb
	return context.AfterFunc(ctx, func() { _ = rdb.Close() })
}

// guard puts acquisitions under a policy.
func (s *slot) guard(p policy.Policy) error {
	told := p.Failed
	p.Failed = func(ctx context.Context, err error) {
		s.doubt(err)
		if told != nil {
			told(ctx, err)
		}
	}
	guarded, err := policy.New(s.semaphore, p)
	if err != nil {
		return err
	}
	s.guarded = guarded.(limiter.Identified)
	return nil
}

// doubt notes whether an acquisition that ended in err may have been counted.
func (s *slot) doubt(err error) { s.perhaps = s.perhaps || limiter.Counted(err) }

// acquire asks once.
func (s *slot) acquire(ctx context.Context) (limiter.Decision, error) {
	d, err := s.ask(ctx, func(ctx context.Context, key, id string) (limiter.Decision, error) {
		return s.guarded.CheckID(ctx, key, 1, id)
	}, time.Now().Add(s.plan.Conn.Timeout))
	s.doubt(err)
	return d, err
}

// ask makes one call, and counts the lease from before it if that is granted.
func (s *slot) ask(
	ctx context.Context, call func(context.Context, string, string) (limiter.Decision, error), deadline time.Time,
) (limiter.Decision, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	sent := time.Now()
	d, err := call(ctx, s.plan.Key, s.id)
	if err == nil && d.Allowed {
		s.until = sent.Add(s.plan.Lease)
	}
	return d, err
}

// keep renews the lease until ctx ends, and then returns nil, or until it is lost, and then says why: what the last
// renewal failed of that the lease's end did not cut off, if there was one.
func (s *slot) keep(ctx context.Context) error {
	lease := s.plan.Lease
	var failed error // the last renewal since one was answered, but for one that the lease's end cut off
	for next := s.until.Add(-2 * lease / 3); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(next)):
		}
		if !time.Now().Before(s.until) {
			return s.unrenewed(next, failed)
		}
		deadline := earlier(time.Now().Add(s.plan.Conn.Timeout), s.until)
		d, err := s.ask(ctx, s.semaphore.Renew, deadline)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && !d.Allowed:
			return errOver
		case err == nil:
			next, failed = s.until.Add(-2*lease/3), nil
		case !time.Now().Before(s.until):
			return s.unrenewed(deadline, cmp.Or(failed, err))
		default:
			next, failed = earlier(time.Now().Add(lease/12), s.until), err
		}
	}
}

// errOver is what the server said of a lease that it no longer knows.
var errOver = errors.New("it had ended on the server before it was renewed")

// unrenewed says why a lease ended without an answer. Whoever goes on long after it was due stood still itself, and
// what its calls then say is not Redis's doing.
func (s *slot) unrenewed(due time.Time, failed error) error {
	if late := time.Since(due); failed == nil || late > s.plan.Lease/3 {
		return fmt.Errorf("hold stood still for %v, as when it is stopped or its machine is overloaded, and did not renew it in time",
			late.Round(time.Millisecond))
	}
	return &outage{s.plan.Lease, s.plan.why(failed)}
}

// over tells whether nothing is left of a lease that was lost: the server said so, or it is too long ago. A renewal that
// was not answered may have made it one lease longer, and no more, since one of an ended lease is denied.
func (s *slot) over(loss error) bool {
	return loss != nil && (errors.Is(loss, errOver) || time.Now().After(s.until.Add(s.plan.Lease)))
}

// outage is the loss of a lease that Redis did not renew in time.
type outage struct {
	lease time.Duration
	why   string
}

func (e *outage) Error() string {
	return fmt.Sprintf("it could not be renewed within %v (%s)", e.lease, e.why)
}

// giveBack gives the slot back, and tries again until it is answered or ctx ends, which ends a try as well. It is safe
// of a slot that was only perhaps taken: a release by one that does not hold changes nothing. held tells whether it was
// held up to now, as far as is known: of two tries the first may have been heard.
func (s *slot) giveBack(ctx context.Context) (held bool, err error) {
	defer s.hangingUp(ctx)()
	heard := false
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		timed, cancel := context.WithTimeout(ctx, s.plan.Conn.Timeout)
		d, tried := s.semaphore.Release(timed, s.plan.Key, s.id)
		cancel()
		if tried == nil || ctx.Err() == nil {
			err = tried // else it ended because ctx did, and tells nothing
		}
		if tried == nil || hopeless(err) {
			return d.Allowed || heard, err
		}
		heard = heard || limiter.Counted(tried)
		select {
		case <-ctx.Done():
			if err == nil {
				err = context.Cause(ctx)
			}
			return false, err
		case <-time.After(jittered(pause)):
		}
	}
}

// hopeless tells whether to ask again would be answered the same.
func hopeless(err error) bool {
	var e *limiter.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Class {
	case limiter.ClassAuth, limiter.ClassInvalid, limiter.ClassWrongType, limiter.ClassScript:
		return true
	}
	return false
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
