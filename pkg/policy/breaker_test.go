package policy_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
)

// patient is a policy whose breaker rests for ten seconds after three silent calls.
var patient = policy.Policy{
	Mode: policy.Error, Timeout: time.Second, Breaker: policy.Breaker{Failures: 3, Pause: 10 * time.Second},
}

// stub is a limiter that ends in what it is set to, and counts how often it was asked.
type stub struct {
	err   error
	asked int
}

func (s *stub) Check(context.Context, string, int64) (limiter.Decision, error) {
	s.asked++
	return limiter.Decision{Allowed: s.err == nil}, s.err
}

// asks has l asked n times, and returns the last error.
func asks(t *testing.T, l limiter.Limiter, n int) (err error) {
	t.Helper()
	for range n {
		_, err = l.Check(t.Context(), "k", 1)
	}
	return err
}

// After three silent calls in a row nobody asks for ten seconds; then one call tries.
func TestBreakerRests(t *testing.T) {
	t.Parallel()
	for _, silence := range []error{
		failure(limiter.ClassUnreachable, false), failure(limiter.ClassNoAnswer, true), errors.New("of its own"),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &stub{err: silence}
			l := under(t, s, patient)
			asks(t, l, 2)
			s.err = nil
			asks(t, l, 1) // an answer between starts the count anew
			s.err = silence
			if err := asks(t, l, 3); err != silence || s.asked != 6 {
				t.Fatalf("%v: %v after %d calls", silence, err, s.asked)
			}
			err := asks(t, l, 5)
			if !errors.Is(err, policy.ErrNotAsked) || !errors.Is(err, silence) && !strings.Contains(err.Error(), "it was so") ||
				limiter.Counted(err) || s.asked != 6 {
				t.Errorf("%v: %v after %d calls, 6 before the pause", silence, err, s.asked)
			}
			time.Sleep(10*time.Second + time.Nanosecond)
			if asks(t, l, 5); s.asked != 7 {
				t.Errorf("%v: %d calls, want one try", silence, s.asked-6)
			}
			s.err = nil
			time.Sleep(10*time.Second + time.Nanosecond)
			if err := asks(t, l, 5); err != nil || s.asked != 12 {
				t.Errorf("%v: %v after %d calls, want all to ask again", silence, err, s.asked-7)
			}
		})
	}
}

// What a breaker tells of itself: when it opens, and when it closes, and nothing of a pause that is followed by another.
func TestBreakerTellsWhenItOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := &stub{err: failure(limiter.ClassNoAnswer, true)}, patient
		var told []bool
		p.Breaker.Opened = func(open bool) { told = append(told, open) }
		l := under(t, s, p)
		asks(t, l, 10)
		time.Sleep(11 * time.Second)
		asks(t, l, 3) // one tries, and goes without an answer
		if !slices.Equal(told, []bool{true}) {
			t.Errorf("told %v of a server that stays silent", told)
		}
		s.err = nil
		time.Sleep(11 * time.Second)
		asks(t, l, 3)
		s.err = failure(limiter.ClassUnreachable, false)
		asks(t, l, 3)
		if !slices.Equal(told, []bool{true, false, true}) {
			t.Errorf("told %v of one that answered in between", told)
		}
	})
}

// Who says anything is alive: refusals, denials and what callers did wrong never make a breaker rest.
func TestBreakerHearsAnswers(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		nil, failure(limiter.ClassInvalid, false), failure(limiter.ClassLoading, false), failure(limiter.ClassOOM, false),
		failure(limiter.ClassReadOnly, false), failure(limiter.ClassAuth, true), failure(limiter.ClassWrongType, false),
		failure(limiter.ClassScript, true),
	} {
		s := &stub{err: err}
		if got := asks(t, under(t, s, patient), 9); got != err || s.asked != 9 {
			t.Errorf("%v: %v after %d calls of 9", err, got, s.asked)
		}
	}
}

// A caller with no time, or one that went away, does not make others go without.
func TestBreakerForgivesCallers(t *testing.T) {
	t.Parallel()
	s := &stub{err: failure(limiter.ClassNoAnswer, true)}
	l := under(t, s, patient)
	for _, end := range []func() (context.Context, context.CancelFunc){
		func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), 0) },
		func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, cancel
		},
	} {
		ctx, cancel := end()
		defer cancel()
		for range 5 {
			if _, err := l.Check(ctx, "k", 1); err != s.err {
				t.Errorf("%v", err)
			}
		}
	}
	if asks(t, l, 3); s.asked != 13 {
		t.Errorf("asked %d times of 13", s.asked)
	}
}

// A pause is the policy's to answer, but for a request that no limiter takes.
func TestBreakerAndModes(t *testing.T) {
	t.Parallel()
	for _, mode := range policy.Modes() {
		p := patient
		p.Mode, p.RetryAfter = mode, 3*time.Second
		notAsked := 0
		p.Failed = func(_ context.Context, err error) {
			if errors.Is(err, policy.ErrNotAsked) {
				notAsked++
			}
		}
		l := under(t, &named{Limiter: fails(failure(limiter.ClassUnreachable, false))}, p).(limiter.Identified)
		asks(t, l, 3)
		if d, err := l.Check(t.Context(), "k", 1); d != told[mode] || (err != nil) != (mode == policy.Error) || notAsked != 1 {
			t.Errorf("%s: %+v, %v, told of %d", mode, d, err, notAsked)
		}
		for _, r := range []struct {
			key  string
			cost int64
			id   string
		}{{"", 1, "id"}, {"k", -1, "id"}, {"k", 1, strings.Repeat("i", limiter.MaxID+1)}} {
			var failed *limiter.Error
			d, err := l.CheckID(t.Context(), r.key, r.cost, r.id)
			if !errors.As(err, &failed) || failed.Class != limiter.ClassInvalid {
				t.Errorf("%s: %+v, %v for %+v", mode, d, err, r)
			}
		}
	}
}

// A caller's mistake in between is no answer of the server: it neither starts the count anew nor ends a pause.
func TestBreakerOverlooksMistakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silence, mistake := failure(limiter.ClassNoAnswer, true), failure(limiter.ClassInvalid, false)
		s := &stub{}
		l := under(t, s, patient)
		for _, s.err = range []error{silence, silence, mistake, silence} {
			asks(t, l, 1)
		}
		if err := asks(t, l, 1); !errors.Is(err, policy.ErrNotAsked) {
			t.Errorf("%v after three silent calls and a mistake", err)
		}
		time.Sleep(10*time.Second + time.Nanosecond)
		for _, s.err = range []error{mistake, silence} {
			asks(t, l, 1)
		}
		if err := asks(t, l, 1); !errors.Is(err, policy.ErrNotAsked) || s.asked != 6 {
			t.Errorf("%v after a mistake and a silent try, asked %d times", err, s.asked)
		}
	})
}

// A limiter that panics does so for its caller, and is left alone for a while as one that is silent.
func TestBreakerAndPanics(t *testing.T) {
	t.Parallel()
	l := under(t, limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) { panic("mine") }), patient)
	for range 3 {
		func() {
			defer func() {
				if recover() != "mine" {
					t.Error("the panic got lost")
				}
			}()
			asks(t, l, 1)
		}()
	}
	if err := asks(t, l, 1); !errors.Is(err, policy.ErrNotAsked) {
		t.Errorf("%v", err)
	}
}

// While one call tries whether the server is back, the others go without.
func TestBreakerTriesWithOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var kept atomic.Int64
		asked, answer := make(chan bool, 100), make(chan error)
		l := under(t, limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
			asked <- true
			return limiter.Decision{}, <-answer
		}), policy.Policy{
			Mode: policy.Open, Timeout: time.Hour, Breaker: policy.Breaker{Failures: 1, Pause: time.Minute},
			Failed: func(_ context.Context, err error) {
				if errors.Is(err, policy.ErrNotAsked) {
					kept.Add(1)
				}
			},
		})
		var all sync.WaitGroup
		all.Go(func() { _, _ = l.Check(t.Context(), "k", 1) })
		answer <- errors.New("silence")
		all.Wait()
		time.Sleep(time.Minute + time.Nanosecond)
		for range 10 {
			all.Go(func() { _, _ = l.Check(t.Context(), "k", 1) })
		}
		synctest.Wait()
		if len(asked) != 2 || kept.Load() != 9 {
			t.Errorf("asked %d times, kept back %d; want once and one try, and the others kept back", len(asked), kept.Load())
		}
		answer <- nil
		all.Wait()
	})
}
