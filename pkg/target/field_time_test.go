package target_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// A TTL in whole seconds rounds a short window down to 0, deletes the key, and then nothing is ever denied.
// (throttled/throttled, go-redisstore)
func TestFieldWindowsBelowASecond(t *testing.T) {
	field(t, every(), func(c *caller) {
		for _, ms := range []time.Duration{1, 400, 500, 999, 1500} {
			c.fresh(limiter.Limit{Events: 5, Window: ms * time.Millisecond})
			c.toWindow()
			for range 5 {
				c.allowed(1)
				c.pass(c.limit.Window / 100)
			}
			c.denied(1)
		}
	})
}

// A TTL in the wrong unit, or begun again by each hit, keeps a window from ever ending. (Kong/kong#14995,
// ulule/limiter#9) A client within its rate passes for ever, and its key dies when the reply says that it is unused.
func TestFieldWindowsEnd(t *testing.T) {
	field(t, every(), func(c *caller) {
		c.fresh(perSecond(3))
		for range 12 {
			d := c.allowed(1)
			if c.entry.Atomic() {
				dies := c.now.Add(d.ResetAfter + 999*µs).Truncate(time.Millisecond)
				if got := c.expires(c.key()); !got.Equal(dies) {
					c.Fatalf("the key dies at %v, not at %v", got, dies)
				}
			}
			c.pass(900 * time.Millisecond)
		}
		c.pass(2 * time.Second)
		if held := c.held(); held != "" {
			c.Errorf("still held after two idle windows:\n%s", held)
		}
	})
}

// A key that was left without TTL at its limit locks its client out for ever. (OpenGateLLM#608)
func TestFieldKeyWithoutTTL(t *testing.T) {
	field(t, atomics(), func(c *caller) {
		c.fresh(perSecond(5))
		d := c.allowed(5)
		c.rdb.Persist(c.Context(), c.key())
		c.denied(1)
		c.pass(d.ResetAfter)
		c.allowed(1)
		if dies := c.expires(c.key()); dies.Equal(immortal) {
			c.Error("the key is still without TTL after a write")
		}
	})
}

// Of the naive limiters the one that is broken by a crash shows the lock-out: nothing but its TTL ever ends its window.
func TestFieldKeyWithoutTTLOfNaiveExpire(t *testing.T) {
	field(t, only("naive-expire"), func(c *caller) {
		c.fresh(perSecond(5))
		c.allowed(5)
		c.rdb.Persist(c.Context(), c.key())
		for range 10 {
			c.pass(time.Hour)
			c.denied(1)
		}
	})
}

// A counter of two windows that forgets the older one lets a burst through at every edge. (PostHog/posthog#89726) At
// twice the rate from the middle of a window on, that would be two windows' worth in one.
func TestFieldPreviousWindowWeighs(t *testing.T) {
	field(t, only("sliding-counter", "sliding-log", "compact-log"), func(c *caller) {
		c.fresh(limiter.Limit{Events: 100, Window: 10 * time.Second})
		c.toWindow()
		c.pass(c.limit.Window / 2)
		passed := c.demand(50*time.Millisecond, 5*c.limit.Window)
		most := 100
		if !isLog(c.entry) {
			most = 150 // the first half-window of 100 counts as if it had been spread over the whole
		}
		for i, last := range passed {
			trailing := slices.IndexFunc(passed, func(p time.Time) bool { return p.After(last.Add(-c.limit.Window)) })
			if n := i + 1 - trailing; n > most {
				c.Fatalf("%d passed in one window", n)
			}
		}
		if len(passed) < 490 || len(passed) > 550 {
			c.Errorf("%d passed in five windows", len(passed))
		}
	})
}

// A bucket that is idle until its key is gone must be as full as one that is idle as long and whose key stays.
// (aspnetcore-redis-rate-limiting#46)
func TestFieldIdleUntilTheKeyIsGone(t *testing.T) {
	field(t, append(atomics(), only("semaphore")...), func(c *caller) {
		for _, cost := range []int64{1, 4, 7} {
			if c.entry.Unit && cost > 1 {
				break
			}
			for _, stays := range []bool{false, true} {
				c.fresh(limiter.Limit{Events: 7, Window: time.Minute})
				d := c.allowed(cost)
				if stays {
					c.rdb.Persist(c.Context(), c.key())
				}
				c.pass(d.ResetAfter - µs)
				if early := c.take(0); early.Remaining == 7 || early.ResetAfter != µs {
					c.Errorf("cost %d, key stays %v: %s just before the reset", cost, stays, show(early))
				}
				c.pass(µs)
				if full := c.take(0); full.Remaining != 7 || full.ResetAfter != 0 {
					c.Errorf("cost %d, key stays %v: %s at the reset", cost, stays, show(full))
				}
				c.pass(2 * time.Millisecond)
				if full := c.take(0); full.Remaining != 7 || stays == (c.held() == "") {
					c.Errorf("cost %d, key stays %v: %s after the reset", cost, stays, show(full))
				}
			}
		}
	})
}

// A server's clock that steps back must lock nobody out for the step, nor let more through; one that steps forward is
// time passing. (zeromicro/go-zero#4072)
func TestFieldClockSteps(t *testing.T) {
	field(t, atomics(), func(c *caller) {
		for _, back := range []time.Duration{10 * time.Second, time.Hour, -time.Hour} {
			c.fresh(limiter.Limit{Events: 10, Window: 2 * time.Second})
			c.toWindow()
			c.pass(c.limit.Window / 4)
			c.allowed(10)
			c.pass(-back)
			stepped := c.now
			passed := c.demand(c.limit.Window/20, 4*c.limit.Window)
			if wait := passed[0].Sub(stepped); wait > c.limit.Window {
				c.Errorf("stepped by %v, nobody passed for %v", -back, wait)
			}
			if back < 0 && !passed[0].Equal(stepped) {
				c.Error("an hour passed and did not count")
			}
			first := slices.IndexFunc(passed, func(p time.Time) bool { return p.Sub(stepped) >= c.limit.Window/2 })
			if back > 0 && first > 5+1 {
				c.Errorf("stepped back by %v, %d passed within half a window", back, first)
			}
		}
	})
}

// A request whose time is behind that of the last one must not move the last refill back, or the same time refills twice.
// (zeromicro/go-zero#4072)
func TestFieldATimeThatComesLate(t *testing.T) {
	field(t, only("token-bucket", "gcra"), func(c *caller) {
		const late = 300 * time.Millisecond // 1.5 tokens
		c.fresh(limiter.Limit{Events: 10, Window: 2 * time.Second})
		c.allowed(5)
		for range 10 {
			c.pass(-late)
			c.denied(7)
			c.pass(late)
		}
		if d := c.take(0); d.Remaining != 5 {
			c.Errorf("5 of 10 were taken and no time passed: %s", show(d))
		}
	})
}

// What was counted before old entries were pruned is denied just after the edge. (apache/shenyu#6754)
func TestFieldJustAfterTheWindow(t *testing.T) {
	field(t, every("sliding-counter"), func(c *caller) {
		c.fresh(perSecond(10))
		c.toWindow()
		for range 10 {
			c.allowed(1)
		}
		c.denied(1)
		c.pass(c.limit.Window + time.Millisecond)
		c.allowed(1)
	})
}

// The counter of two windows rightly denies there, since the older window still weighs all but a thousandth.
func TestFieldJustAfterTheWindowOfACounter(t *testing.T) {
	field(t, only("sliding-counter"), func(c *caller) {
		c.fresh(perSecond(10))
		c.toWindow()
		c.allowed(10)
		c.pass(c.limit.Window + time.Millisecond)
		if d := c.denied(1); d.RetryAfter != 99*time.Millisecond {
			c.Errorf("retry after %v, want 99ms: a tenth of the window", d.RetryAfter)
		}
		c.pass(c.limit.Window - time.Millisecond)
		c.allowed(10)
	})
}
