package naive

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// A log is a sorted set with one member an event, its score the time in µs. A member is I:ID, I counting from 1 to the
// cost, so that requests in the same µs stay apart. An event at t has left the window at t + window.
type log struct {
	common
	unique string // what this Limiter's own ids begin with
	last   atomic.Uint64
}

func openLog(name string, rdb redis.UniversalClient, l limiter.Limit, opts []limiter.Option) (*log, error) {
	c, err := open(name, rdb, l, opts)
	if err != nil {
		return nil, err
	}
	unique := make([]byte, 9)
	_, _ = rand.Read(unique) // cannot fail
	return &log{common: c, unique: hex.EncodeToString(unique) + "-"}, nil
}

// newID is an id that no other request has, whichever process it comes from.
func (g *log) newID() string { return g.unique + strconv.FormatUint(g.last.Add(1), 36) }

// begin is that of common, with the bounds of a log.
func (g *log) begin(client string, cost int64, id string) (string, error) {
	key, err := g.common.begin(client, cost)
	if err != nil {
		return "", err
	}
	switch {
	case cost > 0 && (id == "" || len(id) > limiter.MaxID):
		err = &limiter.FieldError{Field: "id", Problem: "must be 1 to 256 bytes"}
	case cost > limiter.MaxLogCost && cost <= g.limit.Events:
		err = &limiter.FieldError{Field: "cost", Problem: "must be at most 1000 where it fits the limit of a log"}
	}
	return key, limiter.Classify(g.name, err, false)
}

// Reset deletes the log.
func (g *log) Reset(ctx context.Context, client string) error { return g.forget(ctx, client) }

// A view is what a decision needs to know of a log at one time.
type view struct {
	count  *redis.IntCmd    // events in the window
	newest *redis.ZSliceCmd // the last of all
	bar    *redis.ZSliceCmd // the one that must have left before the cost fits; nil where it never does
}

// commands are those that fill the view.
func (v view) commands() []redis.Cmder {
	cmds := []redis.Cmder{v.count, v.newest}
	if v.bar != nil {
		cmds = append(cmds, v.bar)
	}
	return cmds
}

// newView are the reads for a request of that cost at time t.
func (g *log) newView(ctx context.Context, key string, t, cost int64) view {
	v := view{
		count:  redis.NewIntCmd(ctx, "zcount", key, "("+strconv.FormatInt(t-g.window(), 10), "+inf"),
		newest: redis.NewZSliceCmd(ctx, "zrange", key, -1, -1, "withscores"),
	}
	if 0 < cost && cost <= g.limit.Events {
		rank := cost - g.limit.Events - 1 // of L events L - cost may stay, so the next older one is in the way
		v.bar = redis.NewZSliceCmd(ctx, "zrange", key, rank, rank, "withscores")
	}
	return v
}

// prune removes what has left the window at time t.
func (g *log) prune(ctx context.Context, key string, t int64) redis.Cmder {
	return redis.NewIntCmd(ctx, "zremrangebyscore", key, "-inf", t-g.window())
}

// add are the members of a request at time t.
func (g *log) add(ctx context.Context, key string, t, cost int64, id string) redis.Cmder {
	args := append(make([]any, 0, 2+2*cost), "zadd", key)
	for i := range cost {
		args = append(args, t, strconv.FormatInt(i+1, 10)+":"+id)
	}
	return redis.NewIntCmd(ctx, args...)
}

// expire gives the log, whose newest event is of time t, its lifetime.
func (g *log) expire(ctx context.Context, key string, t int64) redis.Cmder {
	return redis.NewIntCmd(ctx, "pexpire", key, lifetime(t, g.window()))
}

// admitted is the decision on a request that was added as the newest and made the log hold count.
func (g *log) admitted(count int64) limiter.Decision {
	return limiter.Decision{Allowed: true, Remaining: max(0, g.limit.Events-count), ResetAfter: g.limit.Window}
}

// observed is the decision at time t on a peek or a denied request, from a view that was read.
func (g *log) observed(v view, t, cost int64) limiter.Decision {
	d := limiter.Decision{Allowed: cost == 0, Remaining: max(0, g.limit.Events-v.count.Val())}
	if v.count.Val() > 0 {
		d.ResetAfter = micros(g.left(v.newest, t))
	}
	switch {
	case cost > g.limit.Events:
		d.RetryAfter = limiter.Never
	case cost > 0: // at least 1 µs, as the bar may have left since the count was taken
		d.RetryAfter = micros(max(1, g.left(v.bar, t)))
	}
	return d
}

// left is how many µs the event stays in the window after time t; 0 if there is none.
func (g *log) left(event *redis.ZSliceCmd, t int64) int64 {
	if len(event.Val()) == 0 {
		return 0
	}
	return max(0, int64(event.Val()[0].Score)+g.window()-t)
}

// observe is the decision at time t on a peek or a denied request, read from the log in one pipeline.
func (g *log) observe(ctx context.Context, key string, t, cost int64) (limiter.Decision, error) {
	v := g.newView(ctx, key, t, cost)
	if err := g.look(ctx, v.commands()...); err != nil {
		return limiter.Decision{}, err
	}
	return g.observed(v, t, cost), nil
}
