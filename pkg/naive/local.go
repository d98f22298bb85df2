package naive

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// local-bucket keeps a bucket in each process and asks nobody. It imitates token-bucket.
//
// Each bucket is exact and each process honest, and together they admit the limit times their number. A burst of 2:
//
//	step | A's bucket | B's bucket | process A        | process B
//	   1 | 1 used     | 0 used     | take 1   allowed |
//	   2 | 2 used     | 0 used     | take 1   allowed |
//	   3 | 2 used     | 1 used     |                  | take 1   allowed   <- the third of two
//	   4 | 2 used     | 2 used     |                  | take 1   allowed   <- the fourth
//
// It sends nothing to Redis. A Limiter holds one bucket a client for as long as it lives, in memory that grows with the
// number of clients and is never given back; a restart fills all buckets.
type local struct {
	common
	mu      sync.Mutex
	clients map[string]level
}

// NewLocal makes a local-bucket. It never uses the connection, which may be nil.
func NewLocal(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
	c, err := openBucket("local-bucket", rdb, l, opts)
	if err != nil {
		return nil, err
	}
	return &local{common: c, clients: map[string]level{}}, nil
}

// Check takes from the bucket of this Limiter.
func (b *local) Check(_ context.Context, client string, cost int64) (limiter.Decision, error) {
	if _, err := b.begin(client, cost); err != nil || b.limit.Events == 0 {
		return closed(cost, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	next, store, d := b.clients[client].take(b.limit, b.now(), cost)
	if store {
		b.clients[client] = next
	}
	return d, nil
}

// Reset forgets the client's bucket in this Limiter.
func (b *local) Reset(_ context.Context, client string) error {
	if _, err := b.begin(client, 0); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.clients, client)
	return nil
}
