package naive

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// naive-semaphore takes away the leases that have ended, counts the rest, and adds its own, each in a round trip of its
// own. It imitates semaphore.
//
// The count is true when it is taken and stale when it is used. A limit of 3:
//
//	step | held | client A                      | client B
//	   1 |    2 | ZREMRANGEBYSCORE              |
//	   2 |    2 |                               | ZREMRANGEBYSCORE
//	   3 |    2 | ZCARD -> 2          2 < 3, go |
//	   4 |    2 |                               | ZCARD -> 2          2 < 3, go   <- stale from step 5 on
//	   5 |    3 | ZADD               allowed    |
//	   6 |    4 |                               | ZADD              allowed       <- a fourth holder
//
// The set holds one member a holder, its score the end of its lease on the caller's clock. ZADD and PEXPIRE are one MULTI.
// A release takes its own member out, and no other.
type naiveSemaphore struct{ *log }

// NewSemaphore makes a naive-semaphore.
func NewSemaphore(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
	g, err := openLog("naive-semaphore", rdb, l, opts)
	if err != nil {
		return nil, err
	}
	return naiveSemaphore{g}, nil
}

// Check is CheckID with an id of its own.
func (s naiveSemaphore) Check(ctx context.Context, client string, cost int64) (limiter.Decision, error) {
	return s.CheckID(ctx, client, cost, s.newID())
}

// CheckID is ZREMRANGEBYSCORE, ZCARD, and where that allows it, ZADD. A peek only reads. An id that
// holds has its lease begin anew, unless all slots are taken.
func (s naiveSemaphore) CheckID(ctx context.Context, client string, cost int64, id string) (limiter.Decision, error) {
	key, err := s.beginHold(client, cost, id)
	if err != nil || s.limit.Events == 0 {
		return closed(cost, err)
	}
	t := s.now()
	if cost == 0 {
		return s.held(ctx, key, t, true)
	}
	ended := redis.NewIntCmd(ctx, "zremrangebyscore", key, "-inf", t)
	if err := s.send(ctx, reading, ended); err != nil {
		return limiter.Decision{}, err
	}
	count := redis.NewIntCmd(ctx, "zcard", key)
	if err := s.send(ctx, reading, count); err != nil {
		return limiter.Decision{}, err
	}
	if count.Val() >= s.limit.Events {
		return s.held(ctx, key, t, false)
	}
	add := redis.NewIntCmd(ctx, "zadd", key, t+s.window(), id)
	if err := s.multi(ctx, s.rdb, add, add, s.expire(ctx, key, t)); err != nil {
		return limiter.Decision{}, err
	}
	return s.admitted(count.Val() + 1), nil
}

// Release takes the holder of that id out.
func (s naiveSemaphore) Release(ctx context.Context, client, id string) (limiter.Decision, error) {
	key, err := s.beginHold(client, 1, id)
	if err != nil || s.limit.Events == 0 {
		return closed(1, err)
	}
	gone := redis.NewIntCmd(ctx, "zrem", key, id)
	if err := s.send(ctx, writing, gone); err != nil {
		return limiter.Decision{}, err
	}
	if gone.Val() == 0 {
		return limiter.Decision{RetryAfter: limiter.Never, Remaining: limiter.Untold}, nil
	}
	return limiter.Decision{Allowed: true, Remaining: limiter.Untold}, nil
}

// beginHold is begin for a slot, of which nobody takes two.
func (s naiveSemaphore) beginHold(client string, cost int64, id string) (string, error) {
	if cost > 1 {
		problem := &limiter.FieldError{Field: "cost", Problem: "must be at most 1 of a semaphore"}
		return "", limiter.Classify(s.name, problem, false)
	}
	return s.begin(client, cost, id)
}

// held is the decision at time t on a peek or a denied request, read in one pipeline.
func (s naiveSemaphore) held(ctx context.Context, key string, t int64, allowed bool) (limiter.Decision, error) {
	live := "(" + strconv.FormatInt(t, 10)
	count := redis.NewIntCmd(ctx, "zcount", key, live, "+inf")
	last := redis.NewZSliceCmd(ctx, "zrange", key, -1, -1, "withscores")
	bar := redis.NewZSliceCmd(ctx, "zrange", key, -s.limit.Events, -s.limit.Events, "withscores")
	if err := s.look(ctx, count, last, bar); err != nil {
		return limiter.Decision{}, err
	}
	d := limiter.Decision{Allowed: allowed, Remaining: max(0, s.limit.Events-count.Val())}
	d.ResetAfter = micros(until(last, t))
	if !allowed { // at least 1 µs, as the bar may have gone since the count was taken
		d.RetryAfter = micros(max(1, until(bar, t)))
	}
	return d, nil
}

// until is how many µs a lease runs from time t on; 0 if there is none.
func until(lease *redis.ZSliceCmd, t int64) int64 {
	if len(lease.Val()) == 0 {
		return 0
	}
	return max(0, int64(lease.Val()[0].Score)-t)
}
