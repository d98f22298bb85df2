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
	const calls = 50
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1, Protocol: 2, DisableIdentity: true})
	defer rdb.Close()
	var n trips
	rdb.AddHook(&n)
	l, err := e.New(rdb, limiter.Limit{Events: 1 + calls, Window: time.Hour})
	if err != nil {
		return both, err
	}
	if _, err = l.Check(ctx, "trips", 1); err != nil {
		return both, err
	}
	for path, want := range []bool{true, false} {
		n.Store(0)
		for range calls {
			d, err := l.Check(ctx, "trips", 1)
			if err != nil {
				return both, err
			}
			if d.Allowed != want {
				return both, fmt.Errorf("count round trips of %s: %v where it was to be %v", e.Name, d.Allowed, want)
			}
		}
		both[path] = float64(n.Load()) / calls
	}
	return both, nil
}
