package rivals

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	ulule "github.com/ulule/limiter/v3"
	store "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/target"
)

// ululeLimiter counts in a key that lives for a window from its first request on. It counts refusals as well.
func ululeLimiter() Rival {
	rule := firstHitWindow()
	rule.Untold = model.RetryAfter | model.ResetAfter // only the second in which the window ends, by the client's clock
	return Rival{
		Entry: target.Entry{
			Name: "ulule", Summary: "counts all, in a window that begins with its first", BrokenBy: target.Nothing,
			State: "string: count", Worst: "2L across an edge", Rule: rule,
			New: adapt("ulule", checkUlule, openUlule),
		},
		Module:   "github.com/ulule/limiter/v3",
		Rule:     "at most L in a window that begins with its first request; refused requests count as well",
		Settings: "limiter.New(store, Rate{Limit: L, Period: W}), Get and Increment, redis store with its defaults",
		Tells:    "remaining, and the second of the reset",
	}
}

func checkUlule(l limiter.Limit) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if l.Window%time.Millisecond != 0 {
		return &limiter.FieldError{Field: "window", Problem: "must be whole milliseconds"}
	}
	return nil
}

type counter struct{ limiter *ulule.Limiter }

func openUlule(rdb redis.UniversalClient, l limiter.Limit) (taker, error) {
	s, err := store.NewStore(rdb)
	if err != nil {
		return nil, err
	}
	return counter{ulule.New(s, ulule.Rate{Limit: l.Events, Period: l.Window})}, nil
}

// take asks by the method for its cost. The wait is until the second that is told.
func (c counter) take(ctx context.Context, key string, cost int64) (d limiter.Decision, err error) {
	var got ulule.Context
	switch cost {
	case 0:
		got, err = c.limiter.Peek(ctx, key)
	case 1:
		got, err = c.limiter.Get(ctx, key)
	default:
		got, err = c.limiter.Increment(ctx, key, cost)
	}
	if err != nil {
		return d, err
	}
	d = limiter.Decision{Allowed: !got.Reached || cost == 0, Remaining: got.Remaining, ResetAfter: time.Until(time.Unix(got.Reset, 0))}
	if !d.Allowed {
		d.RetryAfter = max(d.ResetAfter, 1)
	}
	return d, nil
}

func (c counter) forget(ctx context.Context, key string) error {
	_, err := c.limiter.Reset(ctx, key)
	return err
}
