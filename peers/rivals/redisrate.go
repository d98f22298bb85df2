package rivals

import (
	"context"
	"errors"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/target"
)

// redisRate is GCRA in one script, on the server's clock, in seconds as floating point.
func redisRate() Rival {
	rule := model.TokenBucket()
	rule.Untold = model.RetryAfter | model.ResetAfter | model.Lifetime // floating point, and whole seconds
	return Rival{
		Entry: target.Entry{
			Name: "redis_rate", Summary: "GCRA in one script, in floating-point seconds", BrokenBy: target.Nothing,
			State: "string: time", Worst: "B+L-1", Rule: rule,
			New: adapt("redis_rate", limiter.Limit.ValidateBucket, openRedisRate),
		},
		Module:   "github.com/go-redis/redis_rate/v10",
		Rule:     "a bucket of B that refills at L a window, starting full",
		Settings: "NewLimiter(client).AllowN with Limit{Rate: L, Burst: B, Period: W}",
		Tells:    "remaining, retry, reset",
		Waits:    true,
	}
}

// gathered is redisRate over the client's autopipeline, which it is not used with by itself: for the time that its script
// takes in a pipeline.
func gathered() target.Entry {
	e := redisRate().Entry
	e.Name, e.Summary = "redis_rate-auto", "redis_rate over go-redis's AutoPipeline"
	e.New = adapt(e.Name, limiter.Limit.ValidateBucket, func(rdb redis.UniversalClient, l limiter.Limit) (taker, error) {
		auto, ok := rdb.(interface {
			AutoPipeline() (*redis.AutoPipeliner, error)
		})
		if !ok {
			return nil, errors.New("this client has no autopipeline")
		}
		pipeliner, err := auto.AutoPipeline()
		if err != nil {
			return nil, err
		}
		r, _ := openRedisRate(rdb, l)
		r.(*rate).limiter = redis_rate.NewLimiter(pipeliner)
		return r, nil
	})
	return e
}

type rate struct {
	limiter *redis_rate.Limiter
	limit   redis_rate.Limit
}

func openRedisRate(rdb redis.UniversalClient, l limiter.Limit) (taker, error) {
	return &rate{redis_rate.NewLimiter(rdb), redis_rate.Limit{Rate: int(l.Events), Burst: int(l.Capacity()), Period: l.Window}}, nil
}

func (r *rate) take(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	got, err := r.limiter.AllowN(ctx, key, r.limit, int(cost))
	if err != nil {
		return limiter.Decision{}, err
	}
	d := limiter.Decision{Allowed: got.Allowed > 0 || cost == 0, Remaining: int64(got.Remaining), ResetAfter: got.ResetAfter}
	if !d.Allowed {
		d.RetryAfter = got.RetryAfter
	}
	return d, nil
}

func (r *rate) forget(ctx context.Context, key string) error { return r.limiter.Reset(ctx, key) }
