package target_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/scripts"
)

// asks is a limiter that is one function.
type asks func(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error)

func (f asks) CheckID(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
	return f(ctx, key, cost, id)
}

var asked atomic.Int64

// Check is CheckID under an id of its own.
func (f asks) Check(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	return f(ctx, key, cost, fmt.Sprint(os.Getpid(), "-", asked.Add(1)))
}

// maker makes the sound limiter, under the mutant's name.
type maker func(limiter.Limit, ...limiter.Option) (limiter.Identified, error)

// spoiledClient asks a sound script in a wrong way.
type spoiledClient struct {
	name, of, by, wrong string
	spoil               func(sound maker, l limiter.Limit) (asks, error)
}

// spoiledClients are wrong in one line each: the one that is marked.
func spoiledClients() []spoiledClient {
	return []spoiledClient{{
		"decided-on-a-peek", "gcra", "explore", // a race catches it when two of its clients meet
		"The client decides on what it read before the script ran: GET outside the script.",
		on(func(l limiter.Identified) asks {
			return func(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
				seen, err := l.CheckID(ctx, key, 0, id)
				if err != nil {
					return seen, err
				}
				d, err := l.CheckID(ctx, key, cost, id)
				d.Allowed = cost <= seen.Remaining // wrong
				return d, err
			}
		}),
	}, {
		"client-clock", "token-bucket", "race walk stress",
		"Each process sends the time of a clock of its own, and these differ by minutes.",
		func(sound maker, l limiter.Limit) (asks, error) {
			ahead := time.Duration(os.Getpid()%1000) * time.Minute
			made, err := sound(l, limiter.WithClock(func() time.Time { return time.Now().Add(ahead) })) // wrong
			return as(made), err
		},
	}, {
		"cost-dropped", "sliding-counter", "race walk stress",
		"The client forgets to send the cost.",
		on(func(l limiter.Identified) asks {
			return func(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
				return l.CheckID(ctx, key, min(cost, 1), id) // wrong
			}
		}),
	}, {
		"fresh-id", "sliding-log", "walk",
		"The client gives a request that it sends again a new id.",
		on(func(l limiter.Identified) asks {
			return func(ctx context.Context, key string, cost int64, _ string) (limiter.Decision, error) {
				return l.Check(ctx, key, cost) // wrong
			}
		}),
	}, {
		"one-key-for-all", "gcra", "walk",
		"All clients share one key.",
		on(func(l limiter.Identified) asks {
			return func(ctx context.Context, _ string, cost int64, id string) (limiter.Decision, error) {
				return l.CheckID(ctx, "all", cost, id) // wrong
			}
		}),
	}, {
		"window-in-seconds", "fixed-window", "walk stress",
		"The client sends the window in whole seconds.",
		func(sound maker, l limiter.Limit) (asks, error) {
			l.Window = max(time.Second, l.Window.Truncate(time.Second)) // wrong
			made, err := sound(l)
			return as(made), err
		},
	}, {
		"denials-remembered", "token-bucket", "explore walk stress",
		"The client answers from memory once it was refused, however long ago.",
		on(func(l limiter.Identified) asks {
			var refused atomic.Pointer[limiter.Decision]
			return func(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
				if d := refused.Load(); d != nil { // wrong
					return *d, nil
				}
				d, err := l.CheckID(ctx, key, cost, id)
				if err == nil && !d.Allowed {
					refused.Store(&d)
				}
				return d, err
			}
		}),
	}, {
		"sent-again", "gcra", "cut stress",
		"The client sends a request again upon any error: one whose reply was lost is charged twice.",
		on(func(l limiter.Identified) asks {
			return func(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
				d, err := l.CheckID(ctx, key, cost, id)
				if err != nil { // wrong
					return l.CheckID(ctx, key, cost, id)
				}
				return d, err
			}
		}),
	}, {
		"errors-let-in", "fixed-window", "cut stress",
		"The client takes any error for an answer, and lets the request in.",
		on(func(l limiter.Identified) asks {
			return func(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
				d, err := l.CheckID(ctx, key, cost, id)
				if err != nil { // wrong
					return limiter.Decision{Allowed: true}, nil
				}
				return d, err
			}
		}),
	}, {
		"asked-twice", "compact-log", "race explore walk stress",
		"The client sends a request that was let in once more.",
		on(func(l limiter.Identified) asks {
			return func(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
				d, err := l.CheckID(ctx, key, cost, id)
				if err == nil && d.Allowed {
					return l.CheckID(ctx, key, cost, id) // wrong
				}
				return d, err
			}
		}),
	}}
}

// on is a client that is wrong whatever the limit.
func on(spoil func(limiter.Identified) asks) func(maker, limiter.Limit) (asks, error) {
	return func(sound maker, l limiter.Limit) (asks, error) {
		made, err := sound(l)
		return spoil(made), err
	}
}

func as(l limiter.Identified) asks {
	return func(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
		return l.CheckID(ctx, key, cost, id)
	}
}

func (c spoiledClient) mutant() (mutant, error) {
	m, err := newMutant(c.name, c.of, c.wrong, c.by)
	if err != nil {
		return m, err
	}
	source, ok := scripts.Source(c.of)
	if !ok {
		return m, fmt.Errorf("%s: no script %q", c.name, c.of)
	}
	m.entry.New = func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
		return c.spoil(func(l limiter.Limit, more ...limiter.Option) (limiter.Identified, error) {
			made, err := limiter.NewScript(rdb, c.name, source, l, slices.Concat(opts, more)...)
			if err != nil {
				return nil, err
			}
			return made.(limiter.Identified), nil
		}, l)
	}
	return m, nil
}
