package hold

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
)

// slot is one holder's place in a semaphore.
type slot struct {
	semaphore *limiter.Semaphore
	key, id   string
	lease     time.Duration
	timeout   time.Duration // of each call
	until     time.Time     // by this machine's monotonic clock: the lease has not ended before

	guarded  limiter.Identified // the semaphore under the policy
	doubtful bool               // the last acquisition failed, and may have been counted
	without  atomic.Bool        // it was lost, and the command runs on
}

// guard puts acquisitions under a policy.
func (s *slot) guard(p policy.Policy) error {
	told := p.Failed
	p.Failed = func(ctx context.Context, err error) {
		s.doubtful = limiter.Counted(err)
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

// acquire asks once.
func (s *slot) acquire(ctx context.Context) (limiter.Decision, error) {
	s.doubtful = false
	return s.ask(ctx, func(ctx context.Context, key, id string) (limiter.Decision, error) {
		return s.guarded.CheckID(ctx, key, 1, id)
	}, time.Now().Add(s.timeout))
}

// ask makes one call, and counts the lease from before it if that is granted.
func (s *slot) ask(
	ctx context.Context, call func(context.Context, string, string) (limiter.Decision, error), deadline time.Time,
) (limiter.Decision, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	sent := time.Now()
	d, err := call(ctx, s.key, s.id)
	if err == nil && d.Allowed {
		s.until = sent.Add(s.lease)
	}
	return d, err
}

// keep renews the lease until ctx ends, and then returns nil, or until it is lost, and then says why: what the last
// renewal failed of that the lease's end did not cut off, if there was one.
func (s *slot) keep(ctx context.Context) error {
	var why error
	for next := s.until.Add(-2 * s.lease / 3); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(next)):
		}
		d, err := s.ask(ctx, s.semaphore.Renew, earlier(time.Now().Add(s.timeout), s.until))
		over := !time.Now().Before(s.until)
		if why == nil || !over {
			why = err
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && !d.Allowed:
			return fmt.Errorf("it had ended on the server before it was renewed")
		case err == nil:
			next = s.until.Add(-2 * s.lease / 3)
		case over:
			return fmt.Errorf("it could not be renewed within %v (%w)", s.lease, why)
		default:
			next = earlier(time.Now().Add(s.lease/12), s.until)
		}
	}
}

// release gives the slot back, whatever else has ended. held tells whether it was held up to now.
func (s *slot) release() (held bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	d, err := s.semaphore.Release(ctx, s.key, s.id)
	return d.Allowed, err
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
