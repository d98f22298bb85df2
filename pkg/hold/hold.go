// Package hold runs a command while it holds a slot of a semaphore.
//
// The slot is a lease. It is taken before the command starts, renewed three times as often as it would end, and given
// back when the command has ended, however that was. Who is killed together with its command gives nothing back; then
// the lease ends by itself.
//
// The lease is the server's, and is counted here from before the call that granted it, on this machine's monotonic
// clock: when it has ended there it has ended here. A lease is lost when a renewal is denied, or when it has ended here
// with no renewal answered. Then the command is told to stop. That is all that can be done from outside: a command that
// takes its time to stop runs beside the next holder, and one that must not has to check with what it writes to.
//
// Where Redis does not decide, a policy does. Error ends hold before the command has begun. Open runs the command without
// a slot. Closed is no slot: it is asked for again for as long as the wait lasts. A lease that could not be renewed in
// time is lost by all but Open, which lets the command run on without it. Neither makes up for anything afterwards: who
// runs without a slot goes on without one. There is no breaker: hold asks a few times a lease, and a call that a breaker
// kept back might have been the one to save it.
//
// Waiting is asking again: soon at first, then at most every quarter of a second, and when the told wait is over. There
// is no queue, so nobody is served in turn, and nobody who died while waiting is waited for.
package hold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
	"github.com/rlctl/rlctl/pkg/target"
)

// MinLease is the shortest lease: one that ends sooner than a few answers take cannot be renewed.
const MinLease = 100 * time.Millisecond

// Plan is a command that wants to hold a slot while it runs.
type Plan struct {
	Key     string        // what is held, 1 to 65536 bytes
	Limit   int64         // slots, 0 to limiter.MaxEvents
	Lease   time.Duration // MinLease to limiter.MaxWindow, in whole µs
	Wait    time.Duration // for a slot; 0 asks once
	Command []string      // its name and arguments, at least the name
	Prefix  string
	Conn    target.Conn   // Timeout, above 0, bounds each call
	Policy  policy.Policy // what becomes of it where Redis does not decide; of it Mode and Failed

	Stdin          io.Reader // the command's own where they are files
	Stdout, Stderr io.Writer
	Note           func(text string) // tells the user what happened beside the command
}

// The exit codes that are not the command's own.
const (
	NoSlot    = 75  // no slot in time
	LeaseLost = 76  // the lease was lost while the command ran
	CannotRun = 126 // the command is there and cannot be run, as shells tell it
	NotFound  = 127 // there is no such command, as shells tell it
)

// Error is why the command was not run.
type Error struct {
	Code int // NoSlot, CannotRun, NotFound, or 128 and the number of the signal that ended the wait for a slot
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns what the system said, if it did.
func (e *Error) Unwrap() error { return e.Err }

func (p Plan) noSlot(d limiter.Decision) error {
	err := fmt.Errorf("no slot of %d became free within %v", p.Limit, p.Wait)
	switch {
	case d.RetryAfter == limiter.Never:
		err = errors.New("a limit of 0 has no slots")
	case d.Degraded:
		err = fmt.Errorf("no slot: Redis did not decide, which --on-failure %s takes for none", p.Policy.Mode)
	case p.Wait == 0:
		err = fmt.Errorf("no slot of %d is free", p.Limit)
	}
	return &Error{NoSlot, err}
}

// Validate returns an error that names the flag or argument at fault.
func (p Plan) Validate() error {
	switch {
	case p.Key == "":
		return errors.New("KEY must not be empty")
	case len(p.Command) == 0:
		return errors.New("COMMAND is missing")
	case p.Lease < MinLease:
		return fmt.Errorf("--lease must be at least %v: it is renewed before it ends, and an answer takes time", MinLease)
	case p.Wait < 0:
		return errors.New("--wait must not be negative")
	}
	return nil
}

// Run waits for a slot, runs the command and returns its exit code, as a shell tells it: 128 and the signal's number if
// a signal ended it. When the lease was lost meanwhile the code is LeaseLost.
//
// By a policy of Open it may have run without a slot, which Note tells.
//
// If the command was not run there is an error instead: an *Error, the *limiter.Error of a call, or the cause of ctx.
// That ends the wait for a slot only: once the command runs, signals to this process are handed on to it.
func (p Plan) Run(ctx context.Context) (code int, err error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	if err := findable(p.Command[0]); err != nil {
		return 0, err
	}
	rdb, err := p.Conn.Open(tries)
	if err != nil {
		return 0, err
	}
	defer rdb.Close()
	limit := limiter.Limit{Events: p.Limit, Window: p.Lease}
	semaphore, err := limiter.NewSemaphore(rdb, limit, limiter.WithPrefix(p.Prefix))
	if err != nil {
		return 0, err
	}
	signals, stop := caught()
	defer stop()
	s := &slot{semaphore: semaphore, key: p.Key, id: limiter.NewIDs().Next(), lease: p.Lease, timeout: p.Conn.Timeout}
	if err := s.guard(p.Policy); err != nil {
		return 0, err
	}
	held, err := p.wait(ctx, s, signals)
	switch {
	case err != nil:
		return 0, err
	case !held:
		p.Note("the command runs WITHOUT a slot")
		return p.runWithout(signals)
	}
	return p.hold(s, signals)
}

// tries is how often connecting may fail before the client library rests for a second, in which a short lease is lost. It
// rests after as many failures as it may have connections. There is never more than one; a lease is tried for 12 times.
const tries = 64

// wait asks until it has a slot, or need not have one. What may have been taken by a call that failed is given back.
func (p Plan) wait(ctx context.Context, s *slot, signals <-chan os.Signal) (held bool, err error) {
	deadline := time.Now().Add(p.Wait)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		d, err := s.acquire(ctx)
		if s.doubtful || err != nil && limiter.Counted(err) || err == nil && d.Allowed && ctx.Err() != nil {
			_, _ = s.release()
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err != nil || d.Allowed {
			return !d.Degraded, err
		}
		left := time.Until(deadline)
		if left <= 0 || d.RetryAfter == limiter.Never {
			return false, p.noSlot(d)
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case signal := <-signals:
			return false, &Error{signaled(signal.(syscall.Signal)), fmt.Errorf("%v while waiting for a slot", signal)}
		case <-time.After(max(time.Millisecond, min(left, d.RetryAfter, jittered(pause)))):
		}
	}
}

// How long to wait before asking again for a slot that a release may free at any time.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = 250 * time.Millisecond
)

// jittered keeps those who wait from asking all at once.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

// hold runs the command with the slot that was taken.
func (p Plan) hold(s *slot, signals <-chan os.Signal) (code int, err error) {
	ended, stopKeeping := context.WithCancel(context.Background())
	lost := make(chan error, 1)
	c, err := p.start()
	if err == nil {
		kept := make(chan struct{})
		go func() {
			defer close(kept)
			p.keep(ended, s, lost)
		}()
		code, err = c.supervise(signals, lost, p.Note)
		stopKeeping()
		<-kept
	}
	stopKeeping()
	held, failed := s.release()
	switch {
	case err != nil || code == LeaseLost || s.without.Load():
	case failed != nil:
		p.Note(fmt.Sprintf("the slot was not given back (%v); it comes back when its lease of %v ends", failed, p.Lease))
	case !held:
		p.Note("the lease was lost: it had ended before the command did")
		code = LeaseLost
	}
	return code, err
}

// keep renews the lease until the command has ended, and tells when it is lost; but by Open an outage costs only the slot.
func (p Plan) keep(ended context.Context, s *slot, lost chan<- error) {
	err := s.keep(ended)
	var unanswered *limiter.Error
	if errors.As(err, &unanswered) && p.Policy.Mode == policy.Open {
		s.without.Store(true)
		p.Note(fmt.Sprintf("the lease was lost: %v; the command runs on WITHOUT a slot", err))
		return
	}
	lost <- err
}

// runWithout runs the command without a slot.
func (p Plan) runWithout(signals <-chan os.Signal) (code int, err error) {
	c, err := p.start()
	if err != nil {
		return 0, err
	}
	return c.supervise(signals, nil, p.Note)
}
