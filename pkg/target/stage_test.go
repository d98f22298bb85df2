package target_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
)

const µs = time.Microsecond

// start is when the clock of a stage begins: in the middle of every window.
var start = time.UnixMicro(1_700_000_000_123_456)

// stage is a private server whose clock stands still until the test moves it.
type stage struct {
	testing.TB
	rdb   redis.UniversalClient
	clock *redisd.Clock
	now   time.Time
}

func newStage(t testing.TB) *stage {
	t.Helper()
	server := redisdtest.Start(t, redisd.Options{Clock: true})
	rdb, err := target.Conn{Socket: server.Socket(), Timeout: 20 * time.Second}.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rdb.Close() })
	s := &stage{TB: t, rdb: rdb, clock: server.Clock()}
	s.set(start)
	return s
}

func (s *stage) set(now time.Time) {
	s.now = now
	s.clock.Freeze(now.UnixMicro())
}

func (s *stage) pass(d time.Duration) { s.set(s.now.Add(d)) }

// open makes e's limiter on this stage. What needs a clock of the caller's, or remembers by one, gets the same.
func (s *stage) open(e target.Entry, l limiter.Limit) limiter.Limiter {
	s.Helper()
	var opts []limiter.Option
	if !e.Atomic() || e.Rule.Recalls {
		opts = append(opts, limiter.WithClock(func() time.Time { return s.now }))
	}
	opened, err := e.New(s.rdb, l, opts...)
	if err != nil {
		s.Fatalf("open %s for %v: %v", e.Name, l, err)
	}
	return opened
}

// keyOf is where e keeps what client has used.
func (s *stage) keyOf(e target.Entry, client string) string {
	key, err := limiter.Key("ratelimit", client, e.Name)
	if err != nil {
		s.Fatal(err)
	}
	return key
}

// expires is the last millisecond at which key lives, as models tell it.
func (s *stage) expires(key string) time.Time {
	ttl, err := s.rdb.PTTL(s.Context(), key).Result()
	switch {
	case err != nil:
		s.Fatal(err)
	case ttl == -2:
		return time.Time{}
	case ttl == -1:
		return immortal
	}
	return time.UnixMilli(s.now.UnixMilli() + ttl.Milliseconds())
}
