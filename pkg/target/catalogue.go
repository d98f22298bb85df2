package target

import (
	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/naive"
)

// Catalogue is every limiter of this module, in the order of display: the default first, each naive row below the twin
// that it imitates.
func Catalogue() []Entry {
	return []Entry{{
		Name: "sliding-log", Summary: "at most L in any window, from the time of each request", BrokenBy: Nothing,
		State: "sorted set, an entry an event", Worst: "L exactly",
		Rule: model.SlidingLog(), New: atomic("sliding-log"),
	}, {
		Name: "compact-log", Summary: "the same decisions from a list of times, without ids", BrokenBy: Nothing,
		State: "list, an entry an event", Worst: "L exactly",
		Rule: model.CompactLog(), New: atomic("compact-log"),
	}, {
		Name: "sliding-counter", Summary: "two aligned windows, the older one weighed by its share", BrokenBy: Nothing,
		State: "string: time, two counts", Worst: "2L-1",
		Rule: model.SlidingCounter(), New: atomic("sliding-counter"),
	}, {
		Name: "fixed-window", Summary: "at most L in each aligned window", BrokenBy: Nothing,
		State: "string: time, count", Worst: "2L across an edge",
		Rule: model.FixedWindow(), New: atomic("fixed-window"),
	}, {
		Name: "naive-counter", Summary: "read the count, compare, then count", BrokenBy: Race,
		Twin: "fixed-window", Flaw: "GET, then INCR",
		State: "string: count", Worst: "as many as ask at once",
		Rule: model.FixedWindow(), New: naive.NewCounter,
	}, {
		Name: "naive-expire", Summary: "count, then give the key its lifetime", BrokenBy: Crash,
		Twin: "fixed-window", Flaw: "INCR, then EXPIRE: a crash between locks out for ever",
		State: "string: count", Worst: "2L across an edge",
		Rule: model.FixedWindow(), New: naive.NewExpire,
	}, {
		Name: "token-bucket", Summary: "a bucket of B that refills at L a window, starting full", BrokenBy: Nothing,
		State: "hash: used, frac, at, window", Worst: "B+L-1",
		Rule: model.TokenBucket(), New: atomic("token-bucket"),
	}, {
		Name: "gcra", Summary: "the same bucket, kept as the time when it is full again", BrokenBy: Nothing,
		State: "string: time", Worst: "B+L-1",
		Rule: model.GCRA(), New: atomic("gcra"),
	}}
}

// atomic makes the limiter of that name from its script.
func atomic(name string) func(redis.UniversalClient, limiter.Limit, ...limiter.Option) (limiter.Limiter, error) {
	return func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
		return limiter.New(rdb, name, l, opts...)
	}
}
