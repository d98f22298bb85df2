package rivals

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
)

func connect(t *testing.T) *redis.Client {
	t.Helper()
	srv := redisdtest.Start(t, redisd.Options{Clock: true})
	srv.Clock().Freeze(1_700_000_000_000_000) // a whole second, of which floating point loses nothing
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: srv.Socket(), MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() }) // nothing is lost
	return rdb
}

// TestEachIsALimiter asks what every limiter can be asked.
func TestEachIsALimiter(t *testing.T) {
	rdb := connect(t)
	for _, r := range All() {
		l, err := r.New(rdb, limiter.Limit{Events: 5, Window: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct {
			cost    int64
			allowed bool
			left    int64
		}{{0, true, 5}, {1, true, 4}, {2, true, 2}, {0, true, 2}, {3, false, 0}} {
			d, err := l.Check(t.Context(), "a", c.cost)
			if err != nil || d.Allowed != c.allowed || d.Allowed && d.Remaining != c.left || (d.RetryAfter == 0) != d.Allowed {
				t.Errorf("%s, request %d: %+v, %v", r.Name, i, d, err)
			}
		}
		if d, err := l.Check(t.Context(), "b", 5); err != nil || !d.Allowed {
			t.Errorf("%s: another client shares the key: %+v, %v", r.Name, d, err)
		}
		if err := l.(limiter.Resetter).Reset(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if d, err := l.Check(t.Context(), "a", 4); err != nil || !d.Allowed {
			t.Errorf("%s: not fresh after a reset: %+v, %v", r.Name, d, err)
		}
	}
}

// TestErrorsAreNoDenials, and tell whether the request may have been counted.
func TestErrorsAreNoDenials(t *testing.T) {
	rdb := connect(t)
	for _, r := range All() {
		l, err := r.New(rdb, limiter.Limit{Events: 5, Window: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		var e *limiter.Error
		if _, err := l.Check(t.Context(), "a", -1); !errors.As(err, &e) || e.Class != limiter.ClassInvalid || limiter.Counted(err) {
			t.Errorf("%s, a negative cost: %v", r.Name, err)
		}
		if _, err := l.Check(t.Context(), "c", 1); err != nil {
			t.Fatal(err)
		}
		for _, key := range rdb.Keys(t.Context(), "*").Val() {
			rdb.Del(t.Context(), key)
			rdb.LPush(t.Context(), key, "x")
		}
		if _, err := l.Check(t.Context(), "c", 1); !errors.As(err, &e) || e.Class != limiter.ClassWrongType {
			t.Errorf("%s, a key of another type: %v", r.Name, err)
		}
	}
}

// TestLimitsThatNoneTakes are refused before anything is asked.
func TestLimitsThatNoneTakes(t *testing.T) {
	for _, r := range All() {
		for field, l := range map[string]limiter.Limit{
			"limit": {Events: 0, Window: time.Minute}, "window": {Events: 1, Window: 0}, "burst": {Events: 1, Window: time.Minute, Burst: -1},
		} {
			var e *limiter.FieldError
			if _, err := r.New(nil, l); !errors.As(err, &e) || e.Field != field {
				t.Errorf("%s takes the %s of %+v: %v", r.Name, field, l, err)
			}
		}
		if _, err := r.New(nil, limiter.Limit{Events: 1, Window: time.Minute}, limiter.WithPrefix("{")); err == nil {
			t.Errorf("%s takes a prefix that moves the hash tag", r.Name)
		}
	}
	if _, err := ululeLimiter().New(nil, limiter.Limit{Events: 1, Window: 1500 * time.Microsecond}); err == nil {
		t.Error("ulule takes a window that it would cut off")
	}
}
