package rivals

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/target"
)

// throttledGCRA is GCRA in the client: it reads, computes, and swaps if nobody was faster, up to ten times.
func throttledGCRA() Rival {
	rule := model.TokenBucket()
	rule.Untold = model.RetryAfter | model.ResetAfter | model.Lifetime // whole ns, and whole seconds
	return Rival{
		Entry: target.Entry{
			Name: "throttled", Summary: "GCRA in the client: read, compute, compare and swap", BrokenBy: target.Nothing,
			State: "string: time", Worst: "B+L-1", Rule: rule,
			New: adapt("throttled", checkThrottled, openThrottled),
		},
		Module:   "github.com/throttled/throttled/v2",
		Rule:     "a bucket of B that refills at L a window, starting full",
		Settings: "NewGCRARateLimiterCtx with RateQuota{PerDuration(L, W), B-1} over goredisstore.v9; peeks with one attempt, since a second takes an event",
		Tells:    "remaining, retry, reset",
		Waits:    true,
	}
}

func checkThrottled(l limiter.Limit) error {
	if err := l.ValidateBucket(); err != nil {
		return err
	}
	if l.Events > 0 && l.Window.Nanoseconds() < l.Events {
		return &limiter.FieldError{Field: "limit", Problem: "must not exceed one event a nanosecond"}
	}
	return nil
}

// throttledKeys is the prefix of keys in the library's example.
const throttledKeys = "throttled:"

// gcra asks with the library's defaults, but for peeks: if another caller was faster, the second attempt of a peek takes
// an event (it has forgotten that it was asked for none), so a peek has one attempt here.
type gcra struct {
	takes, peeks *throttled.GCRARateLimiterCtx
	rdb          redis.UniversalClient
}

func openThrottled(rdb redis.UniversalClient, l limiter.Limit) (taker, error) {
	store, err := goredisstore.NewCtx(rdb, throttledKeys)
	if err != nil {
		return nil, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(int(l.Events), l.Window), MaxBurst: int(l.Capacity()) - 1}
	takes, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return nil, err
	}
	peeks, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return nil, err
	}
	peeks.SetMaxCASAttemptsLimit(1)
	return gcra{takes, peeks, rdb}, nil
}

func (g gcra) take(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	asked := g.takes
	if cost == 0 {
		asked = g.peeks
	}
	limited, got, err := asked.RateLimitCtx(ctx, key, int(cost))
	if err != nil {
		return limiter.Decision{}, gaveUp(err)
	}
	d := limiter.Decision{Allowed: !limited, Remaining: int64(got.Remaining), ResetAfter: got.ResetAfter}
	if limited {
		d.RetryAfter = got.RetryAfter
	}
	return d, nil
}

// gaveUp knows the error of a call that nobody let through: it was not counted. Any other may come after its write.
func gaveUp(err error) error {
	if strings.HasPrefix(err.Error(), "Failed to store updated rate limit data") {
		return &limiter.Error{Limiter: "throttled", Class: limiter.ClassContention, Err: errors.New("others were faster in every attempt")}
	}
	return limiter.Classify("throttled", err, true)
}

func (g gcra) forget(ctx context.Context, key string) error {
	return g.rdb.Del(ctx, throttledKeys+key).Err()
}
