package target_test

import (
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

// A cost above the capacity can never pass, and must be told so rather than to wait; one of just the capacity passes
// when nothing is used. (throttled/throttled#81)
func TestFieldCostAboveTheCapacity(t *testing.T) {
	field(t, costly(), func(c *caller) {
		for _, l := range []limiter.Limit{perSecond(1), perSecond(10), {Events: 10, Window: time.Second, Burst: 4}} {
			c.fresh(l)
			room := capacity(c.entry, l)
			for _, cost := range []int64{room + 1, 2 * room, limiter.MaxCost} {
				if d := c.denied(cost); d.RetryAfter != limiter.Never || d.Remaining != room {
					c.Errorf("%v, cost %d: %s", l, cost, show(d))
				}
			}
			if d := c.allowed(room); d.Remaining != 0 {
				c.Errorf("%v, cost %d: %s", l, room, show(d))
			}
			if d := c.denied(room + 1); d.RetryAfter != limiter.Never || d.Remaining != 0 {
				c.Errorf("%v, used up, cost %d: %s", l, room+1, show(d))
			}
		}
	})
}

// A negative cost hands tokens out: 100 of 5 remaining. (go-redis/redis_rate)
func TestFieldNegativeCost(t *testing.T) {
	field(t, costly(), func(c *caller) {
		c.fresh(perSecond(5))
		c.allowed(3)
		before := c.held()
		for _, cost := range []int64{-1, -95, -1 << 63} {
			if d, err := c.limiter.Check(c.Context(), c.client, cost); !invalid(err) {
				c.Errorf("cost %d: %+v, error %v", cost, d, err)
			}
		}
		if after := c.held(); after != before {
			c.Errorf("was\n%sis\n%s", before, after)
		}
		c.allowed(2)
		c.denied(1)
	})
}

// A client above its rate never recovers where its denials are charged. (mennanov/limiters#110, Kong's sliding window)
func TestFieldDenialsAreFree(t *testing.T) {
	field(t, every(), func(c *caller) {
		c.fresh(limiter.Limit{Events: 20, Window: 2 * time.Second})
		c.toWindow()
		passed := int64(len(c.demand(c.limit.Window/40, 10*c.limit.Window)))
		fair := 10 * c.limit.Events
		if c.entry.BrokenBy == target.Denial {
			if passed > 2*c.limit.Events {
				c.Errorf("%d passed in ten windows: the flaw does not show", passed)
			}
			return
		}
		if passed < fair*9/10 || passed > fair+c.limit.Events {
			c.Errorf("%d passed in ten windows of %d", passed, c.limit.Events)
		}
	})
}

// A denial that writes takes a bucket below zero, or keeps a key alive that should die. (upstash/ratelimit#156)
func TestFieldDenialsWriteNothing(t *testing.T) {
	field(t, costly("charging-log", "naive-expire"), func(c *caller) {
		for _, l := range []limiter.Limit{perSecond(5), {Events: 7, Window: time.Minute, Burst: 3}} {
			c.fresh(l)
			c.toWindow()
			c.allowed(capacity(c.entry, l))
			before := c.held()
			for _, cost := range []int64{1, 2, capacity(c.entry, l), capacity(c.entry, l) + 1, 0} {
				c.pass(time.Millisecond)
				if d := c.take(cost); d.Allowed != (cost == 0) || d.Remaining != 0 {
					c.Errorf("cost %d: %s", cost, show(d))
				}
				if after := c.held(); after != before {
					c.Fatalf("cost %d: was\n%sis\n%s", cost, before, after)
				}
			}
		}
	})
}

// "17 per 30 s gave 32" is right for a bucket, which admits what it holds and what flows in. (go-redis/redis_rate#24)
// The most that a rule can admit is what is admitted here, to the event.
func TestFieldMoreThanTheLimitInABucket(t *testing.T) {
	field(t, every(), func(c *caller) {
		c.fresh(limiter.Limit{Events: 17, Window: 30 * time.Second})
		c.toWindow()
		from := c.now
		passed := int64(len(c.demand(100*time.Millisecond, 30*time.Second)))
		most := c.entry.Rule.Most(c.limit, from, c.now.Add(-100*time.Millisecond))
		want := int64(17)
		if isBucket(c.entry) {
			want = 17 + 16 // the 17th flows in at 30 s, when nobody asks any more
		}
		if passed != want || most != want && c.entry.Name != "charging-log" {
			c.Errorf("%d passed, and %d can, want %d", passed, most, want)
		}
	})
}
