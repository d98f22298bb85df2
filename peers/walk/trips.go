package walk

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

// trips counts the round trips of a client: commands, and pipelines of them.
type trips struct{ atomic.Int64 }

// DialHook implements [redis.Hook].
func (t *trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements [redis.Hook].
func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		t.Add(1)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		t.Add(1)
		return next(ctx, cmds)
	}
}

// RoundTrips are those of an allowed and of a denied call, of a client that has nobody in its way, once it has asked.
func RoundTrips(ctx context.Context, socket string, e target.Entry) (both [2]float64, err error) {
	for i, path := range []struct {
		client  string
		limit   int64
		allowed bool
	}{{"allowed", 1000, true}, {"denied", 1, false}} {
		l := limiter.Limit{Events: path.limit, Window: time.Hour}
		if both[i], err = tripsOf(ctx, socket, e, l, path.client, path.allowed); err != nil {
			return both, fmt.Errorf("count round trips of %s: %w", e.Name, err)
		}
	}
	return both, nil
}

// tripsOf is the mean of some calls after the first, all of which are allowed or denied.
func tripsOf(ctx context.Context, socket string, e target.Entry, limit limiter.Limit, client string, allowed bool) (float64, error) {
	const calls = 50
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1, Protocol: 2, DisableIdentity: true})
	defer rdb.Close()
	var n trips
	rdb.AddHook(&n)
	l, err := e.New(rdb, limit)
	if err != nil {
		return 0, err
	}
	for i := range 1 + calls {
		if i == 1 {
			n.Store(0)
		}
		d, err := l.Check(ctx, client, 1)
		if err != nil {
			return 0, err
		}
		if i > 0 && d.Allowed != allowed {
			return 0, fmt.Errorf("call %d: allowed is %v", i, d.Allowed)
		}
	}
	return float64(n.Load()) / calls, nil
}
