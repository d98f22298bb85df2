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
// The key is the window: it is created by the first admission and lives to the edge, set in one MULTI with the count.
type counter struct{ common }

// NewCounter makes a naive-counter.
func NewCounter(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
	c, err := open("naive-counter", rdb, l, opts)
	if err != nil {
		return nil, err
	}
	return &counter{c}, nil
}

// Check is GET, and where that allows it, INCRBY with its PEXPIREAT.
func (c *counter) Check(ctx context.Context, client string, cost int64) (limiter.Decision, error) {
	key, err := c.begin(client, cost)
	if err != nil || c.limit.Events == 0 {
		return closed(cost, err)
	}
	count, err := c.count(ctx, key)
	if err != nil {
		return limiter.Decision{}, err
	}
	now := c.now()
	end := edge(now, c.window())
	if cost == 0 || count+cost > c.limit.Events {
		return counted(c.limit, count, cost, end-now), nil
	}
	incr := redis.NewIntCmd(ctx, "incrby", key, cost)
	if err := c.multi(ctx, c.rdb, incr, redis.NewIntCmd(ctx, "pexpireat", key, lastMilli(end))); err != nil {
		return limiter.Decision{}, err
	}
	return counted(c.limit, incr.Val(), 0, end-now), nil
}

// Reset deletes the counter.
func (c *counter) Reset(ctx context.Context, client string) error { return c.forget(ctx, client) }

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

// edge is the end of the window of t, both in µs since 1970. Windows are aligned to the epoch. Keys end between
// milliseconds, so an edge inside one is put off to the next.
func edge(t, window int64) int64 {
	wholeMillis := t - t%1000
	return millis((wholeMillis/window+1)*window) * 1000
}

// lastMilli is the time for PEXPIREAT at which a key is gone exactly at the edge: Redis drops a key once its clock, in
// whole ms, is past its time.
func lastMilli(edge int64) int64 { return edge/1000 - 1 }

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
