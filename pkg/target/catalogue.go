package target

import (
	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/naive"
)

// Catalogue is every limiter of this module. A naive row stands below the twin that it imitates.
func Catalogue() []Entry {
	return []Entry{{
		Name: "fixed-window", Summary: "so many per aligned window", BrokenBy: Nothing,
		State: "string: time, count", Worst: "2L across an edge", New: atomic("fixed-window"),
	}, {
		Name: "naive-counter", Summary: "GET, compare, then INCR", Twin: "fixed-window", Flaw: "GET, then INCR", BrokenBy: Race,
		State: "string: count", Worst: "as many as ask at once", New: naive.NewCounter,
	}, {
		Name: "naive-expire", Summary: "INCR, then EXPIRE", Twin: "fixed-window", Flaw: "a crash between INCR and EXPIRE", BrokenBy: Crash,
		State: "string: count", Worst: "2L across an edge", New: naive.NewExpire,
	}, {
		Name: "gcra", Summary: "a bucket kept as the time when it is full", BrokenBy: Nothing,
		State: "string: time", Worst: "B + L - 1", New: atomic("gcra"),
	}}
}

// atomic makes the limiter of that name from its script.
func atomic(name string) func(redis.UniversalClient, limiter.Limit, ...limiter.Option) (limiter.Limiter, error) {
	return func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
		return limiter.New(rdb, name, l, opts...)
	}
}
