package naive

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// naive-pipeline reads all it needs in one pipeline, decides, and writes in a second. It imitates sliding-log.
//
// Two round trips instead of three, and the same race, since a pipeline saves waiting and promises nothing. A limit of
// 100:
//
//	step | log | client A                         | client B
//	   1 |  99 | ZCOUNT .. -> 99     99 < 100, go |
//	   2 |  99 |                                  | ZCOUNT .. -> 99     99 < 100, go   <- stale from step 3 on
//	   3 | 100 | MULTI prune, ZADD        allowed |
//	   4 | 101 |                                  | MULTI prune, ZADD        allowed   <- over the limit
//
// Nor is the pipeline of reads atomic: Redis may serve others between its commands, though it rarely does.
type pipeline struct{ *log }

// NewPipeline makes a naive-pipeline.
func NewPipeline(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
	g, err := openLog("naive-pipeline", rdb, l, opts)
	if err != nil {
		return nil, err
	}
	return pipeline{g}, nil
}

// Check is CheckID with an id of its own.
func (g pipeline) Check(ctx context.Context, client string, cost int64) (limiter.Decision, error) {
	return g.CheckID(ctx, client, cost, g.newID())
}

// CheckID is a pipeline of reads, and where that allows it, a MULTI of writes. An id that comes twice moves its events
// to the later time.
func (g pipeline) CheckID(ctx context.Context, client string, cost int64, id string) (limiter.Decision, error) {
	key, err := g.begin(client, cost, id)
	if err != nil || g.limit.Events == 0 {
		return closed(cost, err)
	}
	t := g.now()
	v := g.newView(ctx, key, t, cost)
	if err := g.look(ctx, v.commands()...); err != nil {
		return limiter.Decision{}, err
	}
	if cost == 0 || v.count.Val()+cost > g.limit.Events {
		return g.observed(v, t, cost), nil
	}
	add := g.add(ctx, key, t, cost, id)
	if err := g.multi(ctx, g.rdb, add, g.prune(ctx, key, t), add, g.expire(ctx, key, t)); err != nil {
		return limiter.Decision{}, err
	}
	return g.admitted(v.count.Val() + cost), nil
}
