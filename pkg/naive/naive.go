// Package naive holds limiters that are racy on purpose, one file a flaw. Each imitates an atomic limiter, its twin,
// the way it is often written without a script; each has one flaw and no other, and its file draws the order of
// commands that shows it. None is for use.
//
// What they share: whole numbers throughout, the twin's windows and capacity, a lifetime on every key set in the step
// that writes it (naive-expire excepted, that being its flaw), refusals before any I/O, and nothing sent a second time.
// They decide on the client's clock, which is an option, so that an experiment can set or skew it; Decision.At stays
// zero. Errors are *limiter.Error.
package naive

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// common is what every limiter here is made of.
type common struct {
	name   string
	rdb    redis.UniversalClient
	limit  limiter.Limit
	prefix string
	clock  func() time.Time
}

func open(name string, rdb redis.UniversalClient, l limiter.Limit, opts []limiter.Option) (common, error) {
	s := limiter.Apply(opts...)
	if s.Clock == nil {
		s.Clock = time.Now
	}
	_, badPrefix := limiter.Key(s.Prefix, "any", name)
	if err := errors.Join(l.Validate(), badPrefix); err != nil {
		return common{}, limiter.Classify(name, err, false)
	}
	return common{name: name, rdb: rdb, limit: l, prefix: s.Prefix, clock: s.Clock}, nil
}

// now is the client's clock in µs since 1970.
func (c common) now() int64 { return c.clock().UnixMicro() }

// window is the limit's window in µs.
func (c common) window() int64 { return c.limit.Window.Microseconds() }

// begin refuses a bad call before any I/O and returns the client's key.
func (c common) begin(client string, cost int64) (string, error) {
	key, err := limiter.Key(c.prefix, client, c.name)
	if err == nil && (cost < 0 || cost > limiter.MaxCost) {
		err = &limiter.FieldError{Field: "cost", Problem: "must be 0 to 9007199254740991"}
	}
	return key, limiter.Classify(c.name, err, false)
}

// closed is the answer to a request that was refused before any I/O or meets a limit of 0.
func closed(cost int64, err error) (limiter.Decision, error) {
	switch {
	case err != nil:
		return limiter.Decision{}, err
	case cost == 0:
		return limiter.Decision{Allowed: true}, nil
	}
	return limiter.Decision{RetryAfter: limiter.Never}, nil
}

// forget deletes what is kept for a client: its key, and those that add a suffix to it, where it has such.
func (c common) forget(ctx context.Context, client string, suffixes ...string) error {
	key, err := c.begin(client, 0)
	if err != nil {
		return err
	}
	keys := []string{key}
	for _, s := range suffixes {
		keys = append(keys, key+s)
	}
	return limiter.Classify(c.name, c.rdb.Del(ctx, keys...).Err(), false)
}

// micros is a duration of n µs.
func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// millis is n µs in ms, rounded up.
func millis(n int64) int64 { return (n + 999) / 1000 }

// lifetime is that of a key which is of use from t for n µs, in ms. It does not end early, wherever in its millisecond
// t is: some servers end a key as soon as its last millisecond begins.
func lifetime(t, n int64) int64 { return millis(t%1000 + n) }
