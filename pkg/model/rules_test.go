package model_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

const µs = time.Microsecond

// rule is a rule under test with what it promises in any window.
type rule struct {
	name string
	model.Rule
	worst  func(l limiter.Limit) int64 // most in any trailing window
	bucket bool
}

func rules() []rule {
	return []rule{
		{"sliding-log", model.SlidingLog(), func(l limiter.Limit) int64 { return l.Events }, false},
		{"compact-log", model.CompactLog(), func(l limiter.Limit) int64 { return l.Events }, false},
		{"sliding-counter", model.SlidingCounter(), func(l limiter.Limit) int64 { return 2*l.Events - 1 }, false},
		{"fixed-window", model.FixedWindow(), func(l limiter.Limit) int64 { return 2 * l.Events }, false},
		{"token-bucket", model.TokenBucket(), worstOfBucket, true},
		{"gcra", model.GCRA(), worstOfBucket, true},
	}
}

// worstOfBucket is B + L - 1 where L is at most W in µs, and B + L - ceil(L/W) in general: one µs short of a refill.
func worstOfBucket(l limiter.Limit) int64 {
	w := l.Window.Microseconds()
	return l.Capacity() + l.Events - (l.Events+w-1)/w
}

// capacity is the largest cost that can ever pass.
func (r rule) capacity(l limiter.Limit) int64 {
	if r.bucket {
		return l.Capacity()
	}
	return l.Events
}

// forAll runs test for every rule, as a subtest of its name.
func forAll(t *testing.T, test func(t *testing.T, r rule)) {
	t.Parallel()
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			test(t, r)
		})
	}
}

// world is one key on one clock. Every check in it is asked about from all sides.
type world struct {
	rule
	state model.State
	at    time.Time
	limit limiter.Limit
	// steady says that neither limit nor burst nor window changed and that the clock never stepped back. A denial
	// then writes nothing at all.
	steady bool
	ids    int
	taken  []admission
}

type admission struct {
	at   time.Time
	cost int64
}

func newWorld(r rule, l limiter.Limit, at time.Time) *world {
	return &world{rule: r, state: r.Fresh, at: at, limit: l, steady: true}
}

func (w *world) request(cost int64) model.Request {
	w.ids++
	return model.Request{Limit: w.limit, Cost: cost, ID: strconv.Itoa(w.ids)}
}

// what answers what a request would be told, without taking part.
func (w *world) what(after time.Duration, cost int64) limiter.Decision {
	_, d := w.state.Check(w.at.Add(after), w.request(cost))
	return d
}

// take asks for cost and moves to the next state, or says which rule the answer breaks.
func (w *world) take(cost int64) (limiter.Decision, error) {
	req := w.request(cost)
	before, _ := w.state.Check(w.at, w.request(0)) // w.state, unless its TTL has passed
	next, d := w.state.Check(w.at, req)
	w.state = next
	if d.Allowed && cost > 0 {
		w.taken = append(w.taken, admission{w.at, cost})
	}
	for _, check := range []func(model.State, model.Request, limiter.Decision) error{
		w.checkReply, w.checkRemaining, w.checkRetry, w.checkUnchanged, w.checkReset, w.checkExpiry,
	} {
		if err := check(before, req, d); err != nil {
			return d, fmt.Errorf("%v asked at %d µs: %+v: %w", req, w.at.UnixMicro(), d, err)
		}
	}
	return d, nil
}

func (w *world) checkReply(_ model.State, req model.Request, d limiter.Decision) error {
	room := w.capacity(req.Limit)
	switch {
	case d.Remaining < 0 || d.Remaining > room:
		return fmt.Errorf("remaining is outside 0 to %d", room)
	case d.Allowed != (d.RetryAfter == 0):
		return fmt.Errorf("allowed and retry disagree")
	case (d.RetryAfter == limiter.Never) != (req.Cost > room):
		return fmt.Errorf("never is for costs above %d", room)
	case d.RetryAfter < limiter.Never || d.ResetAfter < 0:
		return fmt.Errorf("negative time")
	case req.Cost == 0 && !d.Allowed:
		return fmt.Errorf("a peek was denied")
	case !d.At.Equal(w.at) || d.Degraded:
		return fmt.Errorf("wrong time or degraded")
	}
	return nil
}

func (w *world) checkRemaining(_ model.State, _ model.Request, d limiter.Decision) error {
	if !w.what(0, d.Remaining).Allowed {
		return fmt.Errorf("remaining would be denied")
	}
	if w.what(0, d.Remaining+1).Allowed {
		return fmt.Errorf("more than remaining would be allowed")
	}
	return nil
}

// checkRetry asks again when told to, and 1 µs before.
func (w *world) checkRetry(_ model.State, req model.Request, d limiter.Decision) error {
	if d.RetryAfter <= 0 {
		return nil
	}
	if !w.what(d.RetryAfter, req.Cost).Allowed {
		return fmt.Errorf("denied after the wait")
	}
	if early := d.RetryAfter - µs; w.alive(early) && w.what(early, req.Cost).Allowed {
		return fmt.Errorf("allowed 1 µs before the wait was over")
	}
	return nil
}

func (w *world) alive(after time.Duration) bool {
	return w.at.Add(after).UnixMilli() <= w.state.Expires().UnixMilli()
}

// checkUnchanged holds peeks and denials to writing nothing; a denial after a clock step writes once at most.
func (w *world) checkUnchanged(before model.State, req model.Request, d limiter.Decision) error {
	if d.Allowed && req.Cost > 0 {
		return nil
	}
	if (req.Cost == 0 || w.steady) && w.state != before {
		return fmt.Errorf("state changed")
	}
	again, e := w.state.Check(w.at, req)
	if again != w.state || e != d {
		return fmt.Errorf("asked again: %+v", e)
	}
	return nil
}

// checkReset finds the key as good as unused after reset, and not 1 µs before.
func (w *world) checkReset(_ model.State, req model.Request, d limiter.Decision) error {
	if req.Cost == 0 && !w.steady {
		return nil // a pull may be pending
	}
	room := w.capacity(req.Limit)
	if got := w.what(d.ResetAfter, 0); got.Remaining != room || got.ResetAfter != 0 {
		return fmt.Errorf("used after the reset: %+v", got)
	}
	if early := d.ResetAfter - µs; early >= 0 && w.alive(early) {
		if got := w.what(early, 0); got.ResetAfter != µs {
			return fmt.Errorf("unused 1 µs before the reset: %+v", got)
		}
	}
	return nil
}

// checkExpiry wants every write to let the key live to the first whole ms at or after its reset.
func (w *world) checkExpiry(_ model.State, req model.Request, d limiter.Decision) error {
	if !d.Allowed || req.Cost == 0 {
		return nil
	}
	if want := w.at.Add(d.ResetAfter + time.Millisecond - 1).Truncate(time.Millisecond); !w.state.Expires().Equal(want) {
		return fmt.Errorf("dies at %v, not %v", w.state.Expires(), want)
	}
	return nil
}

// checkBounds holds all that was taken so far against the rule's bounds.
func (w *world) checkBounds() error {
	var total int64
	for i, last := range w.taken {
		total += last.cost
		if most := w.Most(w.limit, w.taken[0].at, last.at); total > most {
			return fmt.Errorf("%d taken where %d can be", total, most)
		}
		trailing := int64(0)
		for j := i; j >= 0 && w.taken[j].at.After(last.at.Add(-w.limit.Window)); j-- {
			trailing += w.taken[j].cost
		}
		if worst := w.worst(w.limit); trailing > worst {
			return fmt.Errorf("%d taken in one window where %d can be", trailing, worst)
		}
	}
	return nil
}

func at(µs int64) time.Time { return time.UnixMicro(µs) }

// TestSmallWorlds goes through every sequence of a few requests, around window edges, for limits and windows so small
// that all that can happen does.
func TestSmallWorlds(t *testing.T) {
	forAll(t, func(t *testing.T, r rule) {
		for _, small := range []struct {
			limiter.Limit
			requests int
		}{
			{limiter.Limit{Events: 1, Window: 2 * µs}, 4},
			{limiter.Limit{Events: 2, Window: 3 * µs, Burst: 1}, 4},
			{limiter.Limit{Events: 3, Window: 4 * µs, Burst: 5}, 3},
			{limiter.Limit{Events: 5, Window: 2 * µs, Burst: 3}, 3}, // more events than µs
		} {
			explore(t, newWorld(r, small.Limit, at(3_000_001)), small.requests)
		}
	})
}

func explore(t *testing.T, w *world, requests int) {
	if requests == 0 {
		if err := w.checkBounds(); err != nil {
			t.Fatalf("%v after %v: %v", w.limit, w.taken, err)
		}
		return
	}
	for step := time.Duration(0); step <= w.limit.Window+µs; step += µs {
		for cost := range w.capacity(w.limit) + 2 {
			next := *w
			next.taken = w.taken[:len(w.taken):len(w.taken)]
			next.at = w.at.Add(step)
			if _, err := next.take(cost); err != nil {
				t.Fatalf("%v after %v: %v", w.limit, w.taken, err)
			}
			explore(t, &next, requests-1)
		}
	}
}

// uneven are limits that do not divide their windows, and extremes of both.
func uneven() []limiter.Limit {
	const day = 24 * time.Hour
	return []limiter.Limit{
		{Events: 1, Window: time.Millisecond},
		{Events: 7, Window: time.Minute},
		{Events: 7, Window: time.Minute, Burst: 3},
		{Events: 17, Window: 30 * time.Second, Burst: 40},
		{Events: 999, Window: 999 * time.Millisecond},
		{Events: 31_623, Window: time.Second},
		{Events: 300_000, Window: time.Second, Burst: 1_000_000},
		{Events: 999_983, Window: day},
		{Events: 1_000_000, Window: day, Burst: 1},
		{Events: 1_000_000_000, Window: time.Second},
		{Events: 1_000_000_000, Window: 366 * day},
		{Events: 999_999_937, Window: 366*day - µs, Burst: 142_000_000},
	}
}

// tests tells whether r is worth testing at l: a log holds every event.
func (r rule) tests(l limiter.Limit) bool {
	return l.Events <= 1000 || r.name != "sliding-log" && r.name != "compact-log"
}

// TestWalks takes random walks over limits that do not divide, all at one limit and with the clock going forward.
func TestWalks(t *testing.T) {
	forAll(t, func(t *testing.T, r rule) {
		for _, l := range uneven() {
			if !r.tests(l) {
				continue
			}
			seed := rand.Uint64()
			rng := rand.New(rand.NewPCG(seed, 0))
			w := newWorld(r, l, at(1_700_000_000_123_456))
			for range 1000 {
				w.at = w.at.Add(someStep(rng, l))
				if _, err := w.take(someCost(rng, r.capacity(l))); err != nil {
					t.Fatalf("seed %d, %v: %v", seed, l, err)
				}
			}
			if err := w.checkBounds(); err != nil {
				t.Fatalf("seed %d, %v: %v", seed, l, err)
			}
		}
	})
}

// TestWalksThatChange do so with steps of the clock back and forth, and changes of limit, window and burst.
func TestWalksThatChange(t *testing.T) {
	forAll(t, func(t *testing.T, r rule) {
		limits := uneven()
		for range 10 {
			seed := rand.Uint64()
			rng := rand.New(rand.NewPCG(seed, 0))
			w := newWorld(r, limits[1], at(1_700_000_000_123_456))
			w.steady = false
			for range 300 {
				if l := limits[rng.IntN(len(limits))]; rng.IntN(5) == 0 && r.tests(l) {
					w.limit = l
				}
				w.at = w.at.Add(someStep(rng, w.limit))
				if rng.IntN(5) == 0 {
					w.at = w.at.Add(-3 * someStep(rng, w.limit))
				}
				if _, err := w.take(someCost(rng, r.capacity(w.limit))); err != nil {
					t.Fatalf("seed %d, %v: %v", seed, w.limit, err)
				}
			}
		}
	})
}

func someStep(rng *rand.Rand, l limiter.Limit) time.Duration {
	w := l.Window
	per := w / time.Duration(l.Events)
	steps := []time.Duration{0, 0, µs, per, w / 7, w / 2, w - µs, w, w + µs, 3 * w, time.Duration(rng.Int64N(int64(w)))}
	return steps[rng.IntN(len(steps))].Truncate(µs)
}

func someCost(rng *rand.Rand, capacity int64) int64 {
	costs := []int64{0, 1, 1, 1, 2, capacity / 3, capacity - 1, capacity, capacity + 1, rng.Int64N(capacity + 1)}
	return max(0, costs[rng.IntN(len(costs))])
}
