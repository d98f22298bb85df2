package policy_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
)

// fails is a limiter that ends every call in err.
func fails(err error) limiter.Limiter {
	return limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) { return limiter.Decision{}, err })
}

func failure(class limiter.Class, unknown bool) error {
	return &limiter.Error{Limiter: "gcra", Class: class, Unknown: unknown, Err: errors.New("it was so")}
}

// under puts a limiter under a policy that is meant.
func under(t *testing.T, next limiter.Limiter, p policy.Policy) limiter.Limiter {
	t.Helper()
	l, err := policy.New(next, p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// told is what a policy answers to a failure.
var told = map[policy.Mode]limiter.Decision{
	policy.Open:   {Allowed: true, Remaining: limiter.Untold, Degraded: true},
	policy.Closed: {Remaining: limiter.Untold, RetryAfter: 3 * time.Second, Degraded: true},
}

func TestModes(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		failure(limiter.ClassUnreachable, false), failure(limiter.ClassNoAnswer, true), failure(limiter.ClassLoading, false),
		failure(limiter.ClassScript, true), errors.New("of a limiter that classifies nothing"),
	} {
		for _, mode := range policy.Modes() {
			var seen []error
			l := under(t, fails(err), policy.Policy{
				Mode: mode, Timeout: time.Second, RetryAfter: 3 * time.Second,
				Failed: func(_ context.Context, err error) { seen = append(seen, err) },
			})
			d, got := l.Check(t.Context(), "k", 1)
			want := err
			if mode != policy.Error {
				want = nil
			}
			if d != told[mode] || got != want {
				t.Errorf("%s, %v: %+v, %v", mode, err, d, got)
			}
			if len(seen) != 1 || seen[0] != err || limiter.Counted(seen[0]) != limiter.Counted(err) {
				t.Errorf("%s, %v: the hook saw %v", mode, err, seen)
			}
		}
	}
}

// What a limiter decides passes as it is, and nobody is told.
func TestDecisionsPass(t *testing.T) {
	t.Parallel()
	for _, want := range []limiter.Decision{
		{Allowed: true, Remaining: 4, ResetAfter: time.Minute, At: time.Unix(1, 0)},
		{Remaining: 2, RetryAfter: limiter.Never},
	} {
		next := limiter.Func(func(_ context.Context, key string, cost int64) (limiter.Decision, error) {
			if key != "k" || cost != 7 {
				t.Errorf("asked for %q, %d", key, cost)
			}
			return want, nil
		})
		for _, mode := range policy.Modes() {
			for _, b := range []policy.Breaker{{}, {Failures: 1, Pause: time.Hour}} {
				l := under(t, next, policy.Policy{Mode: mode, Timeout: time.Second, Breaker: b, Failed: unwanted(t)})
				for range 3 {
					if d, err := l.Check(t.Context(), "k", 7); d != want || err != nil {
						t.Errorf("%s: %+v, %v", mode, d, err)
					}
				}
			}
		}
	}
}

func unwanted(t *testing.T) func(context.Context, error) {
	return func(_ context.Context, err error) { t.Errorf("the hook was told of %v", err) }
}

// A caller's mistake is an error in every mode, and so is a call that its caller cancelled.
func TestTheCallersOwn(t *testing.T) {
	t.Parallel()
	for _, mode := range policy.Modes() {
		p := policy.Policy{Mode: mode, Timeout: time.Second, Failed: unwanted(t)}
		invalid := failure(limiter.ClassInvalid, false)
		if d, err := under(t, fails(invalid), p).Check(t.Context(), "k", 1); d != (limiter.Decision{}) || err != invalid {
			t.Errorf("%s: %+v, %v for an invalid request", mode, d, err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		lost := failure(limiter.ClassNoAnswer, true)
		if d, err := under(t, fails(lost), p).Check(gone, "k", 1); d != (limiter.Decision{}) || err != lost {
			t.Errorf("%s: %+v, %v for a caller that went away", mode, d, err)
		}
	}
}

// A call ends with the policy's timeout, or with its caller's deadline where that comes first; either way the mode answers.
func TestTimeout(t *testing.T) {
	t.Parallel()
	hangs := limiter.Func(func(ctx context.Context, _ string, _ int64) (limiter.Decision, error) {
		<-ctx.Done()
		return limiter.Decision{}, limiter.Classify("gcra", ctx.Err(), false)
	})
	for _, c := range []struct{ timeout, callers, want time.Duration }{
		{time.Second, time.Hour, time.Second}, {time.Second, time.Millisecond, time.Millisecond},
	} {
		for _, mode := range policy.Modes() {
			synctest.Test(t, func(t *testing.T) {
				counted := false
				l := under(t, hangs, policy.Policy{
					Mode: mode, Timeout: c.timeout, RetryAfter: 3 * time.Second,
					Failed: func(_ context.Context, err error) { counted = limiter.Counted(err) },
				})
				ctx, cancel := context.WithTimeout(t.Context(), c.callers)
				defer cancel()
				start := time.Now()
				d, err := l.Check(ctx, "k", 1)
				if took := time.Since(start); took != c.want || d != told[mode] || (err != nil) != (mode == policy.Error) || !counted {
					t.Errorf("%s: %+v, %v, counted %t after %v", mode, d, err, counted, took)
				}
			})
		}
	}
}

// named is a limiter that takes ids.
type named struct {
	limiter.Limiter
	got string
}

func (n *named) CheckID(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
	n.got = id
	return n.Check(ctx, key, cost)
}

func TestIdentified(t *testing.T) {
	t.Parallel()
	p := policy.Policy{Mode: policy.Open, Timeout: time.Second}
	if _, ok := under(t, fails(nil), p).(limiter.Identified); ok {
		t.Error("takes ids that its limiter does not")
	}
	n := &named{Limiter: fails(failure(limiter.ClassOOM, false))}
	l, ok := under(t, n, p).(limiter.Identified)
	if !ok {
		t.Fatal("takes no ids")
	}
	if d, err := l.CheckID(t.Context(), "k", 1, "id-1"); d != told[policy.Open] || err != nil || n.got != "id-1" {
		t.Errorf("%+v, %v, asked with %q", d, err, n.got)
	}
}

func TestNothingIsADefault(t *testing.T) {
	t.Parallel()
	for _, p := range []policy.Policy{
		{Timeout: time.Second},
		{Mode: "Open", Timeout: time.Second},
		{Mode: policy.Open},
		{Mode: policy.Open, Timeout: -1},
		{Mode: policy.Closed, Timeout: 1, RetryAfter: -1},
		{Mode: policy.Open, Timeout: 1, Breaker: policy.Breaker{Failures: -1}},
		{Mode: policy.Open, Timeout: 1, Breaker: policy.Breaker{Failures: 1}},
		{Mode: policy.Open, Timeout: 1, Breaker: policy.Breaker{Pause: 1}},
	} {
		if l, err := policy.New(fails(nil), p); err == nil || l != nil {
			t.Errorf("%+v is taken for a policy", p)
		}
	}
	l := under(t, fails(errors.New("x")), policy.Policy{Mode: policy.Closed, Timeout: 1})
	if d, _ := l.Check(t.Context(), "k", 1); d.RetryAfter != policy.DefaultRetryAfter {
		t.Errorf("retry after %v", d.RetryAfter)
	}
}
