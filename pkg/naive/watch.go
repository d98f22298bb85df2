package naive

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// watch-bucket reads under WATCH and writes with EXEC, which Redis drops if the key changed meanwhile. It imitates
// token-bucket and keeps its rule: nothing breaks it. It is here for its price. A burst of 2, one token left:
//
//	step | used | client A                    | client B
//	   1 |  1   | WATCH; HMGET -> 1, go       |
//	   2 |  1   |                             | WATCH; HMGET -> 1, go
//	   3 |  2   | MULTI HSET EXEC -> allowed  |
//	   4 |  2   |                             | MULTI HSET EXEC -> nil     <- the key changed: again from the start
//	   5 |  2   |                             | WATCH; HMGET -> 2, denied; UNWATCH
//
// Of all that read the same state one succeeds, so a hot key costs each caller as many rounds as there are others
// ahead of it. Rounds are counted (Retries) and bounded; a caller that runs out gets an error of ClassContention, and
// was not counted. A denial reads only.
type watch struct {
	common
	retries atomic.Int64
}

// maxAttempts bounds the rounds of one request.
const maxAttempts = 1000

var errContention = errors.New("others changed the key in each of " + strconv.Itoa(maxAttempts) + " attempts")

// NewWatch makes a watch-bucket.
func NewWatch(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
	c, err := openBucket("watch-bucket", rdb, l, opts)
	if err != nil {
		return nil, err
	}
	return &watch{common: c}, nil
}

// Check is WATCH, HMGET and, where that allows it, HSET and PEXPIRE in MULTI, until EXEC goes through.
func (w *watch) Check(ctx context.Context, client string, cost int64) (limiter.Decision, error) {
	key, err := w.begin(client, cost)
	if err != nil || w.limit.Events == 0 {
		return closed(cost, err)
	}
	for range maxAttempts {
		d, err := w.attempt(ctx, key, cost)
		if !errors.Is(err, redis.TxFailedErr) {
			return d, err
		}
		w.retries.Add(1)
	}
	return limiter.Decision{}, &limiter.Error{Limiter: w.name, Class: limiter.ClassContention, Err: errContention}
}

// attempt is one round; its error is redis.TxFailedErr where the key changed between WATCH and EXEC.
func (w *watch) attempt(ctx context.Context, key string, cost int64) (d limiter.Decision, err error) {
	err = w.rdb.Watch(ctx, func(tx *redis.Tx) error {
		used, err := w.read(ctx, tx, key)
		if err != nil {
			return err
		}
		t := w.now()
		next, store, decision := used.take(w.limit, t, cost)
		d = decision
		if !store {
			return nil // Watch ends with UNWATCH
		}
		tokens, fraction := next.split()
		set := redis.NewIntCmd(ctx, "hset", key, "used", tokens, "frac", fraction, "at", next.at, "window", next.window)
		return w.multi(ctx, tx, set, set,
			redis.NewIntCmd(ctx, "pexpire", key, lifetime(t, d.ResetAfter.Microseconds())))
	}, key)
	switch {
	case err == nil:
		return d, nil
	case errors.Is(err, redis.TxFailedErr):
		return limiter.Decision{}, redis.TxFailedErr
	}
	return limiter.Decision{}, w.failWatch(err)
}

// read is the level in the hash, which is laid out as token-bucket's.
func (w *watch) read(ctx context.Context, tx *redis.Tx, key string) (level, error) {
	fields, err := tx.HMGet(ctx, key, "used", "frac", "at", "window").Result()
	if err != nil {
		return level{}, w.fail(err, reading)
	}
	var text [4]string
	for i, f := range fields {
		text[i], _ = f.(string)
	}
	if text == [4]string{} {
		return level{}, nil
	}
	at, err := strconv.ParseInt(text[2], 10, 64)
	if err != nil {
		return level{}, w.foreign()
	}
	v, ok := newLevel(text[0], text[1], text[3], at)
	if !ok {
		return level{}, w.foreign()
	}
	return v, nil
}

// failWatch classifies an error of Watch: one of a command within was classified there, any other is WATCH's own.
func (w *watch) failWatch(err error) error {
	var known *limiter.Error
	if errors.As(err, &known) {
		return known
	}
	return w.fail(err, reading)
}

// Retries counts the rounds that were in vain, over all requests of this Limiter.
func (w *watch) Retries() int64 { return w.retries.Load() }

// Reset deletes the hash.
func (w *watch) Reset(ctx context.Context, client string) error { return w.forget(ctx, client) }
