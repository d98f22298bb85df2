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
// runs without a slot goes on without one. A breaker, if there is one, keeps back what asks for a slot, and no renewal: that
// might be the one to save the lease.
//
// A call that was not answered may have taken a slot all the same, also long after hold has given up: a server that stood
// still does what it was sent when it goes on. So whoever ends without a slot, for whatever reason, gives back what may be
// its own, by its id, which is nobody else's, and tries for a while where that is not answered. Who runs without a slot
// does so beside the command. What could not be given back is told, and comes back when the lease ends.
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
	Policy  policy.Policy // what becomes of it where Redis does not decide; renewals are under none

	Stdin          io.Reader // the command's own where they are files
	Stdout, Stderr io.Writer
	Note           func(text string)  // tells the user what happened beside the command
	Why            func(error) string // puts a failed call into a few words; nil takes its text
}

// The exit codes that are not the command's own.
const (
	NoSlot    = 75  // no slot in time
	LeaseLost = 76  // the lease was lost while the command ran
	CannotRun = 126 // the command is there and cannot be run, as shells tell it
	NotFound  = 127 // there is no such command, as shells tell it
)

// Reason is why there was no slot.
type Reason string

// The reasons.
const (
	Taken     Reason = "taken"     // all were, when it was asked
	Waited    Reason = "waited"    // all were, for as long as it was to wait
	NoSlots   Reason = "no slots"  // the limit is 0
	Undecided Reason = "undecided" // Redis did not decide, and the policy is Closed
)

// Error is why the command was not run.
type Error struct {
	Code   int    // NoSlot, CannotRun, NotFound, or 128 and the number of the signal that ended the wait for a slot
	Reason Reason // of NoSlot
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns what the system said, if it did.
func (e *Error) Unwrap() error { return e.Err }

func (p Plan) noSlot(d limiter.Decision) error {
	switch {
	case d.RetryAfter == limiter.Never:
		return &Error{NoSlot, NoSlots, errors.New("a limit of 0 has no slots")}
	case d.Degraded:
		return &Error{NoSlot, Undecided, fmt.Errorf("no slot: Redis did not decide, which --on-failure %s takes for none", p.Policy.Mode)}
	case p.Wait == 0:
		return &Error{NoSlot, Taken, fmt.Errorf("no slot of %d is free", p.Limit)}
	}
	return &Error{NoSlot, Waited, fmt.Errorf("no slot of %d became free within %v", p.Limit, p.Wait)}
}

// why puts a failed call into words.
func (p Plan) why(err error) string {
	if p.Why == nil {
		return err.Error()
	}
	return p.Why(err)
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
// That ends the wait for a slot only: once the command runs, signals to this process are handed on to it. A signal ends a
// wait, also one for an answer, at once, and one more the attempts to give a slot back.
func (p Plan) Run(ctx context.Context) (code int, err error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	if err := findable(p.Command[0]); err != nil {
		return 0, err
	}
	s := &slot{plan: p, id: limiter.NewIDs().Next()}
	if err := s.dial(); err != nil {
		return 0, err
	}
	defer s.hangUp()
	signals, stop := caught()
	defer stop()
	held, err := p.wait(ctx, s, signals)
	switch {
	case err != nil:
		return 0, err
	case !held:
		return p.runWithout(s, signals)
	}
	return p.hold(s, signals)
}

// wait waits until it has a slot, or need not have one. What may have been taken otherwise is given back.
func (p Plan) wait(ctx context.Context, s *slot, signals <-chan os.Signal) (held bool, err error) {
	waiting, end := context.WithCancelCause(ctx)
	defer end(nil)
	back := p.newReturn()
	defer back.end(nil)
	unwatch := onSignals(signals, func(got os.Signal) {
		end(&Error{Code: signaled(got.(syscall.Signal)), Err: fmt.Errorf("%v while waiting for a slot", got)})
	}, back.hurry)
	defer unwatch()
	stop := s.hangingUp(waiting)
	if held, err = p.askAgain(waiting, s); err == nil {
		unwatch() // from here on signals are the command's
		stop()
		if waiting.Err() == nil {
			return held, nil
		}
		s.perhaps = s.perhaps || held
		err = context.Cause(waiting)
	}
	if s.perhaps && s.dial() == nil {
		back.begin()
		_, failed := s.giveBack(back)
		p.tellKept(s, failed)
	}
	return false, err
}

// askAgain asks for a slot until it has one, need not have one, or has waited long enough.
func (p Plan) askAgain(ctx context.Context, s *slot) (held bool, err error) {
	deadline := time.Now().Add(p.Wait)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		d, err := s.acquire(ctx)
		if ctx.Err() != nil {
			s.perhaps = s.perhaps || d.Allowed
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
	back := p.newReturn()
	defer back.end(nil)
	defer s.hangingUp(back)()
	var loss error
	c, err := p.start()
	if err == nil {
		code, loss = p.supervise(c, s, signals, back)
	}
	defer onSignals(signals, back.hurry)()
	back.begin()
	if s.over(loss) {
		return code, err
	}
	held, failed := s.giveBack(back)
	switch {
	case failed != nil:
		p.tellKept(s, failed)
	case err == nil && loss == nil && !held:
		p.Note("the lease was lost: it had ended before the command did")
		code = LeaseLost
	}
	return code, err
}

// supervise keeps the slot until the command has ended, and tells why it was lost.
func (p Plan) supervise(c *command, s *slot, signals <-chan os.Signal, back *giving) (code int, loss error) {
	ended, stopKeeping := context.WithCancel(context.Background())
	lost, kept := make(chan error, 1), make(chan error, 1)
	go func() { kept <- p.keep(ended, s, lost) }()
	code = c.supervise(signals, lost, p.Note)
	stopKeeping()
	defer onSignals(signals, back.hurry)()
	back.begin()
	return code, <-kept
}

// keep renews the lease until the command has ended, and tells when it is lost; but by Open an outage costs only the slot.
func (p Plan) keep(ended context.Context, s *slot, lost chan<- error) error {
	err := s.keep(ended)
	var away *outage
	switch {
	case err == nil:
	case errors.As(err, &away) && p.Policy.Mode == policy.Open:
		p.Note(fmt.Sprintf("the lease was lost: %v; the command runs on WITHOUT a slot", err))
	default:
		lost <- err
	}
	return err
}

// runWithout runs the command without a slot, and gives back meanwhile what may have been taken.
func (p Plan) runWithout(s *slot, signals <-chan os.Signal) (code int, err error) {
	p.Note("the command runs WITHOUT a slot")
	back := p.newReturn()
	defer back.end(nil)
	failed := make(chan error, 1)
	go func() {
		var err error
		if s.perhaps {
			_, err = s.giveBack(back)
		}
		failed <- err
	}()
	c, err := p.start()
	if err == nil {
		code = c.supervise(signals, nil, p.Note)
	}
	defer onSignals(signals, back.hurry)()
	back.begin()
	p.tellKept(s, <-failed)
	return code, err
}
