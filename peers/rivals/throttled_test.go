package rivals

import (
	"context"
	"testing"
	"time"

	"github.com/throttled/throttled/v2"
)

// crowded is a store in which somebody else is faster at first.
type crowded struct {
	value int64
	swaps int // that fail
	sets  int // that were tried
}

func (c *crowded) GetWithTime(context.Context, string) (int64, time.Time, error) {
	return c.value, time.Unix(1_700_000_000, 0), nil
}

func (c *crowded) SetIfNotExistsWithTTL(ctx context.Context, key string, value int64, ttl time.Duration) (bool, error) {
	return c.CompareAndSwapWithTTL(ctx, key, -1, value, ttl)
}

func (c *crowded) CompareAndSwapWithTTL(_ context.Context, _ string, _, value int64, _ time.Duration) (bool, error) {
	if c.sets++; c.sets <= c.swaps {
		return false, nil
	}
	c.value = value
	return true, nil
}

// TestWhyPeeksHaveOneAttempt: a peek of throttled whose first attempt fails takes an event with its second. When this
// fails the library has mended it, and the adapter can peek with its defaults.
func TestWhyPeeksHaveOneAttempt(t *testing.T) {
	for swaps, want := range []int{5, 4} {
		store := &crowded{value: -1, swaps: swaps}
		l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerMin(5), MaxBurst: 4})
		if err != nil {
			t.Fatal(err)
		}
		if _, got, err := l.RateLimitCtx(t.Context(), "a", 0); err != nil || got.Remaining != want {
			t.Errorf("a peek after %d failed attempts: %+v, %v, want %d remaining", swaps, got, err, want)
		}
	}
}
