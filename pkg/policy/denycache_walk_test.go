package policy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/policy"
	"github.com/rlctl/rlctl/pkg/target"
)

// world is a server that decides by a rule, on a clock that goes a little faster than its callers', and the way to it.
type world struct {
	*rand.Rand
	rule   model.Rule
	limit  limiter.Limit
	now    time.Time // on the callers' clock
	faster int64     // the server gains a microsecond in so many; 0 is never
	state  model.State
	calls  int
}

var dawn = time.UnixMicro(1_700_000_000_123_456)

// server is what the server's clock shows.
func (w *world) server() time.Time {
	passed := w.now.Sub(dawn)
	if w.faster > 0 {
		passed += passed / time.Duration(w.faster)
	}
	return dawn.Add(passed).Truncate(time.Microsecond)
}

// Check takes its time on both ways.
func (w *world) Check(_ context.Context, _ string, cost int64) (d limiter.Decision, err error) {
	w.calls++
	w.pass(time.Duration(w.Int64N(int64(2 * time.Millisecond))))
	w.state, d = w.state.Check(w.server(), model.Request{Limit: w.limit, Cost: cost, ID: fmt.Sprint(w.calls)})
	w.pass(time.Duration(w.Int64N(int64(2 * time.Millisecond))))
	return d, nil
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

// TestBesideEveryRule has three callers, each with a cache of its own, ask for one key by every rule. Whatever one of them
// is refused from memory the server would have refused at that moment, for no shorter wait and with no earlier reset.
func TestBesideEveryRule(t *testing.T) {
	t.Parallel()
	for _, e := range target.Catalogue() {
		if !e.Own() || e.Rule.AtOnce {
			continue
		}
		for _, faster := range []int64{0, 2000} {
			t.Run(fmt.Sprint(e.Name, "-", faster), func(t *testing.T) {
				t.Parallel()
				seed := rand.Uint64()
				w := &world{Rand: rand.New(rand.NewPCG(seed, 0)), rule: e.Rule, now: dawn, faster: faster, state: e.Rule.Fresh,
					limit: limiter.Limit{Events: 7, Window: time.Minute}}
				if local := w.ask(t, 20_000); local < 2_000 {
					t.Errorf("seed %d: %d refusals from memory show little", seed, local)
				}
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			})
		}
	}
}

func (w *world) ask(t *testing.T, times int) (local int) {
	callers := make([]limiter.Limiter, 3)
	for i := range callers {
		callers[i] = cached(t, limiter.Func(w.Check), policy.DenyCache{MaxAge: time.Hour, Clock: func() time.Time { return w.now }})
	}
	waits := []time.Duration{0}
	for range times {
		w.pass(w.step(waits[w.IntN(len(waits))]))
		now, cost := w.server(), w.Int64N(9)
		d, err := callers[w.IntN(3)].Check(t.Context(), "a", cost)
		if err != nil {
			t.Fatal(err)
		}
		if d.RetryAfter > 0 {
			waits = append(waits[max(0, len(waits)-5):], d.RetryAfter)
		}
		if !d.At.IsZero() {
			continue
		}
		local++
		_, want := w.state.Check(now, model.Request{Limit: w.limit, Cost: cost, ID: "new"})
		slack := time.Duration(0)
		if w.faster > 0 { // what is left of a wait is told by the caller's clock
			slack = 2 * w.limit.Window / time.Duration(w.faster)
		}
		longer := d.RetryAfter > want.RetryAfter+slack || d.ResetAfter > want.ResetAfter+slack
		if d.Allowed || want.Allowed || d.RetryAfter <= 0 || longer {
			t.Errorf("from memory %+v where the server says %+v", d, want)
			return local
		}
	}
	return local
}

// step is nothing, a little, up to a wait or a little before or after, or up to a window.
func (w *world) step(wait time.Duration) time.Duration {
	switch w.IntN(20) {
	case 0:
		return wait + time.Duration(w.IntN(3)-1)*time.Microsecond
	case 1:
		return wait - wait/1000 - time.Duration(w.IntN(3))*time.Microsecond
	case 2:
		return time.Duration(w.Int64N(int64(w.limit.Window / 4)))
	}
	return time.Duration(w.Int64N(int64(300 * time.Millisecond)))
}
