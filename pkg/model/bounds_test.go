package model_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// TestMostIsReached compares Most with the most that any requests at all got out of the rule, found by trying every
// one of them at every µs.
func TestMostIsReached(t *testing.T) {
	forAll(t, func(t *testing.T, r rule) {
		for _, l := range []limiter.Limit{
			{Events: 1, Window: 2 * µs},
			{Events: 2, Window: 2 * µs, Burst: 1},
			{Events: 2, Window: 3 * µs},
			{Events: 3, Window: 2 * µs, Burst: 4},
			{Events: 4, Window: 2 * µs, Burst: 1},
		} {
			for phase := range l.Window.Microseconds() {
				from := at(epoch + phase)
				for span := range int64(9) {
					best := search{r, l, map[any]int64{}}.most(r.Fresh, from, span)
					most := r.Most(l, from, from.Add(time.Duration(span)*µs))
					if best > most || best < most && !(r.bucket && spills(l)) {
						t.Errorf("%v from %d for %d µs: %d can be admitted, Most says %d", l, phase, span, best, most)
					}
				}
			}
		}
	})
}

// spills tells whether a bucket can overflow within 1 µs though it holds less than a token, whatever is taken.
func spills(l limiter.Limit) bool {
	w := l.Window.Microseconds()
	return w-1+l.Events > l.Capacity()*w
}

type search struct {
	rule
	limit limiter.Limit
	known map[any]int64
}

// most is the most that s admits from at to span µs later, both included.
func (x search) most(s model.State, at time.Time, span int64) int64 {
	if span < 0 {
		return 0
	}
	here := struct {
		model.State
		span int64
	}{s, span}
	if best, ok := x.known[here]; ok {
		return best
	}
	var best int64
	for cost := range x.capacity(x.limit) + 1 {
		next, d := s.Check(at, model.Request{Limit: x.limit, Cost: cost, ID: fmt.Sprint(span)})
		if d.Allowed {
			best = max(best, cost+x.most(next, at.Add(µs), span-1))
		}
	}
	x.known[here] = best
	return best
}

// TestMostOverLongTimes has spans that no search reaches, worked out by hand.
func TestMostOverLongTimes(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	start := at(0).Add(19_000 * day)
	week := limiter.Limit{Events: 7, Window: time.Minute, Burst: 3}
	huge := limiter.Limit{Events: 1_000_000_000, Window: time.Millisecond}
	for _, x := range []struct {
		rule model.Rule
		name string
		l    limiter.Limit
		span time.Duration
		want int64
	}{
		{model.SlidingLog(), "log", week, 7*day - µs, 7 * 7 * 24 * 60},
		{model.SlidingLog(), "log", week, 7 * day, 7 * (7*24*60 + 1)},
		{model.FixedWindow(), "window", week, 7*day - µs, 7 * 7 * 24 * 60},
		{model.SlidingCounter(), "counter", week, 7*day - µs, 7 + 6*(7*24*60-1)},
		{model.SlidingCounter(), "counter that pauses", limiter.Limit{Events: 1, Window: time.Second}, day - µs, 12 * 60 * 60},
		{model.SlidingCounter(), "counter that pauses", limiter.Limit{Events: 1, Window: time.Second}, day, 12*60*60 + 1},
		{model.TokenBucket(), "bucket", week, 7 * day, 3 + 7*7*24*60},
		{model.GCRA(), "gcra", week, 7*day - µs, 3 + 7*7*24*60 - 1},
		{model.SlidingLog(), "log", huge, 200 * 366 * day, math.MaxInt64},
		{model.FixedWindow(), "window", huge, 200 * 366 * day, math.MaxInt64},
		{model.SlidingCounter(), "counter", huge, 200 * 366 * day, math.MaxInt64},
		{model.TokenBucket(), "bucket", huge, 200 * 366 * day, math.MaxInt64},
		{model.SlidingCounter(), "L=0", limiter.Limit{Window: time.Second}, day, 0},
	} {
		if got := x.rule.Most(x.l, start, start.Add(x.span)); got != x.want {
			t.Errorf("%s %v for %v: %d, want %d", x.name, x.l, x.span, got, x.want)
		}
		if got := x.rule.Most(x.l, start, start.Add(-µs)); got != 0 {
			t.Errorf("%s: %d admitted before the start", x.name, got)
		}
	}
}

// TestBucketDoesNotDrift drains a bucket and takes one token a time as soon as it may, a million times. The token
// number k must come exactly k·W/L later, rounded up to whole µs.
func TestBucketDoesNotDrift(t *testing.T) {
	forAll(t, func(t *testing.T, r rule) {
		if !r.bucket {
			return
		}
		for _, l := range []limiter.Limit{
			{Events: 7, Window: time.Minute, Burst: 2},
			{Events: 999_983, Window: 24 * time.Hour, Burst: 1000},
			{Events: 31_623, Window: time.Second, Burst: 2},
		} {
			start := at(1_700_000_000_000_001)
			s, _ := r.Fresh.Check(start, model.Request{Limit: l, Cost: l.Burst})
			now := start
			for k := int64(1); k <= 1_000_000; k++ {
				_, denied := s.Check(now, model.Request{Limit: l, Cost: 1})
				if denied.Allowed {
					t.Fatalf("%v: token %d came early, after %v", l, k, now.Sub(start))
				}
				now = now.Add(denied.RetryAfter)
				var d limiter.Decision
				s, d = s.Check(now, model.Request{Limit: l, Cost: 1})
				if want := (k*l.Window.Microseconds() + l.Events - 1) / l.Events; !d.Allowed || now.Sub(start) != time.Duration(want)*µs {
					t.Fatalf("%v: token %d after %v, want %d µs: %+v", l, k, now.Sub(start), want, d)
				}
			}
		}
	})
}
