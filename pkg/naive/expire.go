package naive

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// naive-expire counts first and gives the key its lifetime in a second command. It imitates fixed-window.
//
// It never lets one over, since each caller sees its own place in the count. But a client that dies between the two
// commands leaves a counter that no edge ends, and once it is full nobody passes for ever. With a limit of 2:
//
//	step | redis         | client A                        | client B
//	   1 | 1, no TTL     | INCRBY 1 -> 1   mine to expire  |
//	   2 |               | dies before PEXPIREAT           |
//	   3 | 2, no TTL     |                                 | INCRBY 1 -> 2    allowed
//	   4 | 3, no TTL     |                                 | INCRBY 1 -> 3    denied, today and in a year
//
// What it refuses is counted too, to the edge: smaller requests behind a large one may be denied though they would fit.
// Redis ends keys between milliseconds. So an edge inside one is put off to the next, and a key that is created in the
// last millisecond of a window, which would be gone at once, lives through the first of the next.
type expire struct{ common }

// NewExpire makes a naive-expire.
func NewExpire(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
	c, err := open("naive-expire", rdb, l, opts)
	if err != nil {
		return nil, err
	}
	return &expire{c}, nil
}

// Check is INCRBY, and PEXPIREAT if that created the key. A peek and a cost above the limit are one GET.
func (c *expire) Check(ctx context.Context, client string, cost int64) (limiter.Decision, error) {
	key, err := c.begin(client, cost)
	if err != nil || c.limit.Events == 0 {
		return closed(cost, err)
	}
	if cost == 0 || cost > c.limit.Events {
		count, err := c.count(ctx, key)
		if err != nil {
			return limiter.Decision{}, err
		}
		t := c.now()
		return counted(c.limit, count, cost, edge(t, c.window())-t), nil
	}
	incr := redis.NewIntCmd(ctx, "incrby", key, cost)
	if err := c.send(ctx, writing, incr); err != nil {
		return limiter.Decision{}, err
	}
	t := c.now() // read after the count, so that the lifetime reaches to the edge of the window it fell in
	end := edge(t, c.window())
	if incr.Val() == cost {
		last := max(end/1000-1, t/1000+1) // the last ms of its life
		if err := c.send(ctx, wrote, redis.NewIntCmd(ctx, "pexpireat", key, last)); err != nil {
			return limiter.Decision{}, err
		}
	}
	if incr.Val() > c.limit.Events {
		return counted(c.limit, incr.Val(), cost, end-t), nil
	}
	return counted(c.limit, incr.Val(), 0, end-t), nil
}

// edge is the end of the window of t, both in µs since 1970, in whole ms. Windows are aligned to the epoch.
func edge(t, window int64) int64 {
	wholeMillis := t - t%1000
	return millis((wholeMillis/window+1)*window) * 1000
}

// Reset deletes the counter.
func (c *expire) Reset(ctx context.Context, client string) error { return c.forget(ctx, client) }
