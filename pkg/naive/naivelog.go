package naive

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// naive-log prunes, counts, and adds, each in a round trip of its own. It imitates sliding-log.
//
// The count is true when it is taken and stale when it is used. A limit of 100:
//
//	step | log | client A                      | client B
//	   1 |  99 | ZREMRANGEBYSCORE              |
//	   2 |  99 |                               | ZREMRANGEBYSCORE
//	   3 |  99 | ZCARD -> 99      99 < 100, go |
//	   4 |  99 |                               | ZCARD -> 99     99 < 100, go   <- stale from step 5 on
//	   5 | 100 | ZADD               allowed    |
//	   6 | 101 |                               | ZADD              allowed      <- over the limit
//
// ZADD and PEXPIRE are one MULTI. A denial reads once more, to tell how long to wait.
type naiveLog struct{ *log }

// NewLog makes a naive-log.
func NewLog(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
	g, err := openLog("naive-log", rdb, l, opts)
	if err != nil {
		return nil, err
	}
	return naiveLog{g}, nil
}

// Check is CheckID with an id of its own.
func (g naiveLog) Check(ctx context.Context, client string, cost int64) (limiter.Decision, error) {
	return g.CheckID(ctx, client, cost, g.newID())
}

// CheckID is ZREMRANGEBYSCORE, ZCARD, and where that allows it, ZADD. A peek and a cost above the limit only read. An
// id that comes twice moves its events to the later time.
func (g naiveLog) CheckID(ctx context.Context, client string, cost int64, id string) (limiter.Decision, error) {
	key, err := g.begin(client, cost, id)
	if err != nil || g.limit.Events == 0 {
		return closed(cost, err)
	}
	t := g.now()
	if cost == 0 || cost > g.limit.Events {
		return g.observe(ctx, key, t, cost)
	}
	if err := g.send(ctx, reading, g.prune(ctx, key, t)); err != nil {
		return limiter.Decision{}, err
	}
	count := redis.NewIntCmd(ctx, "zcard", key)
	if err := g.send(ctx, reading, count); err != nil {
		return limiter.Decision{}, err
	}
	if count.Val()+cost > g.limit.Events {
		return g.observe(ctx, key, t, cost)
	}
	add := g.add(ctx, key, t, cost, id)
	if err := g.multi(ctx, g.rdb, add, add, g.expire(ctx, key, t)); err != nil {
		return limiter.Decision{}, err
	}
	return g.admitted(count.Val() + cost), nil
}
