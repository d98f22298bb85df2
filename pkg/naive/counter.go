package naive

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// naive-counter reads the counter, compares, then counts. It imitates fixed-window.
//
// Everybody who reads before the first write passes, so that as many get through as ask at once. With a limit of 100:
//
//	step | redis | client A                    | client B
//	   1 |    99 | GET -> 99      99 < 100, go |
//	   2 |    99 |                             | GET -> 99      99 < 100, go   <- stale from step 3 on
//	   3 |   100 | INCRBY 1 -> 100     allowed |
//	   4 |   101 |                             | INCRBY 1 -> 101     allowed   <- over the limit
//
// Each window has a key of its own, numbered from the epoch, and PEXPIRE is one MULTI with the count. A single key that
// ends at the edge would not do: Redis ends keys between milliseconds, and one that is given its lifetime in its last
// millisecond either goes at once, uncounted, or outlives the edge.
type counter struct{ common }

// NewCounter makes a naive-counter.
func NewCounter(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
	c, err := open("naive-counter", rdb, l, opts)
	if err != nil {
		return nil, err
	}
	return &counter{c}, nil
}

// Check is GET, and where that allows it, INCRBY with its PEXPIRE.
func (c *counter) Check(ctx context.Context, client string, cost int64) (limiter.Decision, error) {
	key, err := c.begin(client, cost)
	if err != nil || c.limit.Events == 0 {
		return closed(cost, err)
	}
	t := c.now()
	left := c.window() - t%c.window()
	key += c.numbered(t)
	count, err := c.count(ctx, key)
	if err != nil {
		return limiter.Decision{}, err
	}
	if cost == 0 || count+cost > c.limit.Events {
		return counted(c.limit, count, cost, left), nil
	}
	incr := redis.NewIntCmd(ctx, "incrby", key, cost)
	if err := c.multi(ctx, c.rdb, incr, incr, redis.NewIntCmd(ctx, "pexpire", key, lifetime(t, left))); err != nil {
		return limiter.Decision{}, err
	}
	return counted(c.limit, incr.Val(), 0, left), nil
}

// numbered is the suffix for the key of the window that time t is in.
func (c *counter) numbered(t int64) string { return ":" + strconv.FormatInt(t/c.window(), 10) }

// Reset deletes the counter of the present window. Those of others have ended by themselves.
func (c *counter) Reset(ctx context.Context, client string) error {
	return c.forget(ctx, client, c.numbered(c.now()))
}

// count reads a counter; a missing one is 0.
func (c common) count(ctx context.Context, key string) (int64, error) {
	get := redis.NewStringCmd(ctx, "get", key)
	if err := c.send(ctx, reading, get); err != nil {
		return 0, err
	}
	if get.Val() == "" {
		return 0, nil
	}
	count, err := strconv.ParseInt(get.Val(), 10, 64)
	if err != nil {
		return 0, c.foreign()
	}
	return count, nil
}

// counted is the decision of a counter that stands at count, with left µs to the edge, to a request that is peeking or
// denied; one that was just counted reads like a peek.
func counted(l limiter.Limit, count, cost, left int64) limiter.Decision {
	d := limiter.Decision{Allowed: cost == 0, Remaining: max(0, l.Events-count)}
	if count > 0 {
		d.ResetAfter = micros(left)
	}
	switch {
	case cost > l.Events:
		d.RetryAfter = limiter.Never
	case cost > 0:
		d.RetryAfter = micros(left)
	}
	return d
}
