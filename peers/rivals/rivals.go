// Package rivals makes rate limiters of other libraries rows of the catalogue, so that they race, are explored and are
// measured like the limiters of this project.
//
// Each is used as its documentation recommends and with its defaults, over the same Redis client as ours, which sends
// nothing twice. Each is judged by the rule that it claims: what a library does on purpose, as to charge refusals or to
// let a window begin with its first request, is its rule and no fault. What it does not tell, or tells rounded, is not
// compared; whether a wait that it tells is true is measured (package walk).
package rivals

import (
	"context"
	"runtime/debug"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

// Rival is a limiter of another library.
type Rival struct {
	target.Entry
	Module   string // path of its module
	Rule     string // that it claims, in a sentence
	Settings string // all that was chosen
	Tells    string // besides whether the request passed
	Waits    bool   // a refusal tells how long to wait
}

// All are the rivals.
func All() []Rival { return []Rival{redisRate(), throttledGCRA(), ululeLimiter()} }

// Entries are the rivals as rows of the catalogue.
func Entries() (entries []target.Entry) {
	for _, r := range All() {
		entries = append(entries, r.Entry)
	}
	return entries
}

// Rows are all that this program adds to the catalogue: the rivals, redis_rate once more in a pipeline, and what bounds
// them all.
func Rows() []target.Entry { return append(Entries(), gathered(), least()) }

// Version is the version of the rival's module that is built in.
func (r Rival) Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == r.Module {
				return m.Version
			}
		}
	}
	return "unknown"
}

// taker is what a library does for one key, under the name that the key has with it.
type taker interface {
	take(ctx context.Context, key string, cost int64) (limiter.Decision, error)
	forget(ctx context.Context, key string) error
}

// adapter is a library's limiter as one of ours.
type adapter struct {
	taker
	name   string
	prefix string
}

// adapt makes a limiter if the limit is one that the library can take. Without a client that is all that is asked.
func adapt(name string, check func(limiter.Limit) error, open func(redis.UniversalClient, limiter.Limit) (taker, error),
) func(redis.UniversalClient, limiter.Limit, ...limiter.Option) (limiter.Limiter, error) {
	return func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
		a := adapter{name: name, prefix: limiter.Apply(opts...).Prefix}
		if _, err := limiter.Key(a.prefix, "any", name); err != nil {
			return nil, limiter.Classify(name, err, false)
		}
		err := check(l)
		if err == nil && l.Events == 0 {
			err = &limiter.FieldError{Field: "limit", Problem: "must be 1 or more"}
		}
		if err == nil && rdb != nil {
			a.taker, err = open(rdb, l)
		}
		return a, limiter.Classify(name, err, false)
	}
}

// Check asks the library. What it returns as an error may have been counted, unless it is known that it was not.
func (a adapter) Check(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	name, err := limiter.Key(a.prefix, key, a.name)
	if err == nil && (cost < 0 || cost > limiter.MaxCost) {
		err = &limiter.FieldError{Field: "cost", Problem: "must be 0 to 9007199254740991"}
	}
	if err != nil {
		return limiter.Decision{}, limiter.Classify(a.name, err, false)
	}
	d, err := a.take(ctx, name, cost)
	return d, limiter.Classify(a.name, err, false)
}

// Reset deletes what the library keeps for a key.
func (a adapter) Reset(ctx context.Context, key string) error {
	name, err := limiter.Key(a.prefix, key, a.name)
	if err == nil {
		err = a.forget(ctx, name)
	}
	return limiter.Classify(a.name, err, false)
}
