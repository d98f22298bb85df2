package target_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/scripts"
)

// crude is a deny cache as one writes it in an afternoon, sound but for what is spoiled in it.
type crude struct {
	limiter.Identified
	now   func() time.Time
	mu    sync.Mutex
	known map[memorandum]kept

	about func(client string, cost int64) memorandum                        // what a refusal is kept for
	span  func(told limiter.Decision) time.Duration                         // for how long
	tells func(told limiter.Decision, since time.Duration) limiter.Decision // what is told from memory
}

type memorandum struct {
	client string
	cost   int64
}

type kept struct {
	told limiter.Decision
	sent time.Time
}

func (c *crude) CheckID(ctx context.Context, client string, cost int64, id string) (limiter.Decision, error) {
	now, about := c.now(), c.about(client, cost)
	c.mu.Lock()
	k, ok := c.known[about]
	c.mu.Unlock()
	if since := now.Sub(k.sent).Truncate(µs); ok && cost > 0 && since >= 0 && since < c.span(k.told) {
		return c.tells(k.told, since), nil
	}
	d, err := c.Identified.CheckID(ctx, client, cost, id)
	if err == nil && cost > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.known[about] = kept{d, now}
	}
	return d, err
}

// spoiledCache is gcra behind a crude cache that is wrong in one thing.
type spoiledCache struct {
	name, by, wrong string
	spoil           func(c *crude)
}

func spoiledCaches() []spoiledCache {
	return []spoiledCache{{
		"refused-twice-as-long", "walk stress",
		"A refusal is remembered for twice its wait.",
		func(c *crude) {
			tells := c.tells
			c.span = func(told limiter.Decision) time.Duration { return 2 * told.RetryAfter }
			c.tells = func(told limiter.Decision, since time.Duration) limiter.Decision {
				return tells(told, since-told.RetryAfter)
			}
		},
	}, {
		"refused-at-any-cost", "walk stress",
		"A refusal is remembered for the client, whatever it asks for next: what is smaller could pass.",
		func(c *crude) { c.about = func(client string, _ int64) memorandum { return memorandum{client, 1} } },
	}, {
		"one-memory-for-all", "walk",
		"A refusal is remembered for the cost, whoever asks next.",
		func(c *crude) { c.about = func(_ string, cost int64) memorandum { return memorandum{"all", cost} } },
	}, {
		"admissions-remembered", "race explore walk stress",
		"What passed is remembered as well, for a window.",
		func(c *crude) {
			refused := c.span
			c.span = func(told limiter.Decision) time.Duration {
				if told.Allowed {
					return time.Minute
				}
				return refused(told)
			}
		},
	}, {
		"waits-never-shrink", "walk stress",
		"What is told from memory is what was told at first, however long ago.",
		func(c *crude) {
			c.tells = func(told limiter.Decision, _ time.Duration) limiter.Decision {
				told.At = time.Time{}
				return told
			}
		},
	}}
}

func (s spoiledCache) mutant() (mutant, error) {
	m, err := newMutant(s.name, "cached-gcra", s.wrong, s.by)
	if err != nil {
		return m, err
	}
	source, _ := scripts.Source("gcra")
	m.entry.New = func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
		bare, err := limiter.NewScript(rdb, s.name, source, l, append(slices.Clone(opts), limiter.WithClock(nil))...)
		if err != nil {
			return nil, err
		}
		c := &crude{
			Identified: bare.(limiter.Identified), now: limiter.Apply(opts...).Clock, known: map[memorandum]kept{},
			about: func(client string, cost int64) memorandum { return memorandum{client, cost} },
			span:  func(told limiter.Decision) time.Duration { return told.RetryAfter },
			tells: func(told limiter.Decision, since time.Duration) limiter.Decision {
				told.RetryAfter, told.ResetAfter, told.At = max(0, told.RetryAfter-since), max(0, told.ResetAfter-since), time.Time{}
				return told
			},
		}
		if c.now == nil {
			c.now = time.Now
		}
		if s.spoil != nil {
			s.spoil(c)
		}
		return asks(c.CheckID), nil
	}
	return m, nil
}
