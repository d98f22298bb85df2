package naive

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// naive-bucket reads what is used and since when, computes, and writes both back. It imitates token-bucket.
//
// Two who read the same level both write the same successor, and one of the two takes is lost. The value that stays
// looks right, so that nothing ever tells. A burst of 2, one token left, time standing still:
//
//	step | used, since | client A             | client B
//	   1 |  1, 12:00   | GET -> 1             |
//	   2 |             | GET :ts -> 12:00, go |
//	   3 |             |                      | GET -> 1                <- stale from step 5 on
//	   4 |             |                      | GET :ts -> 12:00, go
//	   5 |  2, 12:00   | SET 2                |
//	   6 |             | SET :ts      allowed |
//	   7 |  2, 12:00   |                      | SET 2                   <- A's take is lost
//	   8 |             |                      | SET :ts     allowed     <- the third token of two
//
// Each SET carries its own lifetime.
type bucket struct{ common }

// NewBucket makes a naive-bucket.
func NewBucket(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
	c, err := openBucket("naive-bucket", rdb, l, opts)
	if err != nil {
		return nil, err
	}
	return &bucket{c}, nil
}

// openBucket is open with the bounds of a bucket.
func openBucket(name string, rdb redis.UniversalClient, l limiter.Limit, opts []limiter.Option) (common, error) {
	if err := l.ValidateBucket(); err != nil {
		return common{}, limiter.Classify(name, err, false)
	}
	return open(name, rdb, l, opts)
}

const timeSuffix = ":ts"

// Check is GET, GET, and where that allows it, SET, SET.
func (b *bucket) Check(ctx context.Context, client string, cost int64) (limiter.Decision, error) {
	key, err := b.begin(client, cost)
	if err != nil || b.limit.Events == 0 {
		return closed(cost, err)
	}
	used, err := b.read(ctx, key)
	if err != nil {
		return limiter.Decision{}, err
	}
	t := b.now()
	next, store, d := used.take(b.limit, t, cost)
	if store {
		err = b.write(ctx, key, next, lifetime(t, d.ResetAfter.Microseconds()))
	}
	if err != nil {
		return limiter.Decision{}, err
	}
	return d, nil
}

func (b *bucket) read(ctx context.Context, key string) (level, error) {
	used := redis.NewStringCmd(ctx, "get", key)
	if err := b.send(ctx, reading, used); err != nil {
		return level{}, err
	}
	since := redis.NewStringCmd(ctx, "get", key+timeSuffix)
	if err := b.send(ctx, reading, since); err != nil {
		return level{}, err
	}
	at := b.now() // where a crash or an expiry left the level alone, it is taken as new
	if since.Val() != "" {
		var err error
		if at, err = strconv.ParseInt(since.Val(), 10, 64); err != nil {
			return level{}, b.foreign()
		}
	}
	if used.Val() == "" {
		return level{}, nil
	}
	v, ok := parseLevel(used.Val(), at)
	if !ok {
		return level{}, b.foreign()
	}
	return v, nil
}

func (b *bucket) write(ctx context.Context, key string, v level, ttl int64) error {
	if err := b.send(ctx, writing, redis.NewStatusCmd(ctx, "set", key, v.String(), "px", ttl)); err != nil {
		return err
	}
	return b.send(ctx, wrote, redis.NewStatusCmd(ctx, "set", key+timeSuffix, v.at, "px", ttl))
}

// Reset deletes both keys.
func (b *bucket) Reset(ctx context.Context, client string) error {
	return b.forget(ctx, client, timeSuffix)
}
