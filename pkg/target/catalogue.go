package target

import (
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/naive"
	"github.com/rlctl/rlctl/pkg/policy"
	"github.com/rlctl/rlctl/scripts"
)

// Catalogue is every limiter of this module, in the order of display: the default first, each naive row below the twin
// that it imitates.
func Catalogue() []Entry {
	return []Entry{{
		Name: "sliding-log", Summary: "at most L in any window, from the time of each request", BrokenBy: Nothing,
		State: "sorted set, an entry an event", Worst: "L exactly",
		Rule: model.SlidingLog(), New: atomic("sliding-log"),
	}, {
		Name: "naive-log", Summary: "prune, count, compare, then add", BrokenBy: Race,
		Twin: "sliding-log", Flaw: "ZREMRANGEBYSCORE, ZCARD, then ZADD",
		State: "sorted set, an entry an event", Worst: "as many as ask at once",
		Rule: model.SlidingLog(), New: naive.NewLog,
	}, {
		Name: "naive-pipeline", Summary: "reads in one pipeline, writes in a second", BrokenBy: Race,
		Twin: "sliding-log", Flaw: "decides between two pipelines",
		State: "sorted set, an entry an event", Worst: "as many as ask at once",
		Rule: model.SlidingLog(), New: naive.NewPipeline,
	}, {
		Name: "charging-log", Summary: "prune, add, count in one MULTI, then compare", BrokenBy: Denial,
		Twin: "sliding-log", Flaw: "charges denials: above its rate a client never recovers",
		State: "sorted set, an entry a request", Worst: "L exactly",
		Rule: model.SlidingLog(), New: naive.NewCharging,
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
		Name: "naive-bucket", Summary: "read the bucket, compute, write it back", BrokenBy: Race,
		Twin: "token-bucket", Flaw: "GET, GET, then SET, SET: lost updates",
		State: "two strings: used, time", Worst: "as many as ask at once",
		Rule: model.TokenBucket(), New: naive.NewBucket,
	}, {
		Name: "local-bucket", Summary: "a bucket in each process, nothing in Redis", BrokenBy: Race,
		Twin: "token-bucket", Flaw: "the limit times the number of processes",
		State: NoState, Worst: "B+L-1 times the processes",
		Rule: model.TokenBucket(), New: naive.NewLocal,
	}, {
		Name: "skewed-bucket", Summary: "the token bucket's script on the caller's clock", BrokenBy: Skew,
		Twin: "token-bucket", Flaw: "over-admits and starves when clocks differ",
		State: "hash: used, frac, at, window", Worst: "no bound: what clocks differ is refilled",
		Rule: model.TokenBucket(), New: naive.NewSkewed,
	}, {
		Name: "watch-bucket", Summary: "WATCH, compute, EXEC, again if the key changed", BrokenBy: Nothing,
		Twin: "token-bucket", Flaw: "none but its price: retries under contention",
		State: "hash: used, frac, at, window", Worst: "B+L-1",
		Rule: model.TokenBucket(), New: naive.NewWatch,
	}, {
		Name: "gcra", Summary: "the same bucket, kept as the time when it is full again", BrokenBy: Nothing,
		State: "string: time", Worst: "B+L-1",
		Rule: model.GCRA(), New: atomic("gcra"),
	}, {
		Name: "cached-gcra", Summary: "gcra; who has to wait is told so from memory meanwhile", BrokenBy: Nothing,
		State: "string: time", Worst: "B+L-1",
		Rule: recalling(model.GCRA()), New: cachedGCRA,
	}, {
		Name: "semaphore", Summary: "at most L hold at once, until released or W is over", BrokenBy: Nothing,
		State: "sorted set, an entry a holder", Worst: "L at every instant", Unit: true,
		Rule: model.Semaphore(), New: semaphore,
	}, {
		Name: "naive-semaphore", Summary: "prune, count, compare, then add", BrokenBy: Race,
		Twin: "semaphore", Flaw: "ZREMRANGEBYSCORE, ZCARD, then ZADD",
		State: "sorted set, an entry a holder", Worst: "as many as ask at once", Unit: true,
		Rule: model.Semaphore(), New: naive.NewSemaphore,
	}, {
		Name: "skewed-semaphore", Summary: "the semaphore's scripts on the caller's clock", BrokenBy: Skew,
		Twin: "semaphore", Flaw: "leases end early for a caller whose clock is ahead",
		State: "sorted set, an entry a holder", Worst: "no bound: leases end by any clock", Unit: true,
		Rule: model.Semaphore(), New: naive.NewSkewedSemaphore,
	}}
}

func semaphore(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
	s, err := limiter.NewSemaphore(rdb, l, opts...)
	if err != nil {
		return nil, err // and no nil of a type
	}
	return s, nil
}

// recalling is the rule of a limiter that may answer refusals from memory.
func recalling(rule model.Rule) model.Rule {
	rule.Recalls = true
	return rule
}

// cachedGCRA is the script of gcra, which ignores ids, behind a deny cache. A clock among the options is that of the cache:
// the script decides on the server's in any case.
func cachedGCRA(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
	const name = "cached-gcra"
	if err := l.ValidateBucket(); err != nil {
		return nil, limiter.Classify(name, err, false)
	}
	source, _ := scripts.Source("gcra")
	bare, err := limiter.NewScript(rdb, name, source, l, append(slices.Clone(opts), limiter.WithClock(nil))...)
	if err != nil {
		return nil, err
	}
	return policy.WithDenyCache(bare, policy.DenyCache{IgnoresIDs: true, Clock: limiter.Apply(opts...).Clock})
}

// atomic makes the limiter of that name from its script.
func atomic(name string) func(redis.UniversalClient, limiter.Limit, ...limiter.Option) (limiter.Limiter, error) {
	return func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
		return limiter.New(rdb, name, l, opts...)
	}
}
