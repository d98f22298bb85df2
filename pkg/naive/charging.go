package naive

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// charging-log prunes, adds, and counts in one MULTI, and decides by the count. It imitates sliding-log.
//
// Since each caller is counted before it decides, no order of callers lets one over. But what is refused stays in the
// log, so that a client which asks faster than the limit keeps it full of refusals and never recovers. A limit of 2 a
// minute, asked every 20 s:
//
//	step | time | log after           | one client
//	   1 | 0:00 | 0:00                | prune, ZADD, ZCARD -> 1   allowed
//	   2 | 0:20 | 0:00 0:20           | prune, ZADD, ZCARD -> 2   allowed
//	   3 | 0:40 | 0:00 0:20 0:40      | prune, ZADD, ZCARD -> 3   denied    <- 0:40 is charged
//	   4 | 1:00 | 0:20 0:40 1:00      | prune, ZADD, ZCARD -> 3   denied    <- one event in the last minute got through
//	   5 | 1:20 | 0:40 1:00 1:20      | prune, ZADD, ZCARD -> 3   denied    <- none did, and so for ever
//
// Its memory has no bound but the rate of the refused. Where the key holds something else, MULTI gives that a lifetime
// though the rest of the block fails, since nothing is rolled back.
type charging struct{ *log }

// NewCharging makes a charging-log.
func NewCharging(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
	g, err := openLog("charging-log", rdb, l, opts)
	if err != nil {
		return nil, err
	}
	return charging{g}, nil
}

// Check is CheckID with an id of its own.
func (g charging) Check(ctx context.Context, client string, cost int64) (limiter.Decision, error) {
	return g.CheckID(ctx, client, cost, g.newID())
}

// CheckID is one MULTI. A peek and a cost above the limit only read. An id that comes twice moves its events to the
// later time.
func (g charging) CheckID(ctx context.Context, client string, cost int64, id string) (limiter.Decision, error) {
	key, err := g.begin(client, cost, id)
	if err != nil || g.limit.Events == 0 {
		return closed(cost, err)
	}
	t := g.now()
	if cost == 0 || cost > g.limit.Events {
		return g.observe(ctx, key, t, cost)
	}
	v, add := g.newView(ctx, key, t, cost), g.add(ctx, key, t, cost, id)
	v.count = redis.NewIntCmd(ctx, "zcard", key)
	cmds := append([]redis.Cmder{g.prune(ctx, key, t), add}, v.commands()...)
	if err := g.multi(ctx, g.rdb, add, append(cmds, g.expire(ctx, key, t))...); err != nil {
		return limiter.Decision{}, err
	}
	if v.count.Val() > g.limit.Events {
		return g.observed(v, t, cost), nil
	}
	return g.admitted(v.count.Val()), nil
}
