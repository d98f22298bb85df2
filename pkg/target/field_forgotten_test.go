package target_test

import (
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
)

// scripted are the rows that are scripts, ours and those that run ours on another clock.
func scripted() (rows []target.Entry) {
	for _, e := range every() {
		if e.Atomic() || e.BrokenBy == target.Skew {
			rows = append(rows, e)
		}
	}
	return rows
}

const crowd = 64

// A script that is forgotten under many callers at once is an error in libraries that load it once, and a request counted
// twice in those that send it again in another way. Here each is decided, and counted once, after a flush in their midst
// and after a restart. (upstash/ratelimit#122)
func TestFieldScriptsForgottenUnderACrowd(t *testing.T) {
	t.Parallel()
	s := redisdtest.Start(t, redisd.Options{})
	rdb, err := target.Conn{Socket: s.Socket(), Timeout: 20 * time.Second}.Open(crowd)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	opened := map[string]limiter.Limiter{}
	for _, e := range scripted() {
		l, err := e.New(rdb, limiter.Limit{Events: 1000, Window: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		opened[e.Name] = l
		for range 3 {
			l.Check(t.Context(), "client", 0) // warm, so that the flush comes between two calls
			askAtOnce(t, e.Name, l, func() { rdb.ScriptFlush(t.Context()) })
		}
		wantUsed(t, e.Name, l, 3*crowd)
	}
	s.Kill()
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	reached(t, rdb, crowd)
	for name, l := range opened {
		askAtOnce(t, name, l, func() {})
		wantUsed(t, name, l, crowd) // the server has forgotten what was used before, too
	}
}

// askAtOnce has a crowd ask for one each, and something happen in its midst.
func askAtOnce(t *testing.T, name string, l limiter.Limiter, midst func()) {
	t.Helper()
	start := make(chan struct{})
	var callers sync.WaitGroup
	for i := range crowd {
		callers.Go(func() {
			<-start
			if i == crowd/2 {
				midst()
			}
			if d, err := l.Check(t.Context(), "client", 1); err != nil || !d.Allowed {
				t.Errorf("%s: %+v, %v", name, d, err)
			}
		})
	}
	close(start)
	callers.Wait()
}

func wantUsed(t *testing.T, name string, l limiter.Limiter, used int64) {
	t.Helper()
	if d, err := l.Check(t.Context(), "client", 0); err != nil || d.Remaining != 1000-used {
		t.Errorf("%s: %+v, %v; want %d used", name, d, err, used)
	}
}

// reached replaces the connections to a server that is gone.
func reached(t *testing.T, rdb redis.UniversalClient, pool int) {
	t.Helper()
	for broken := 0; broken <= pool; broken++ {
		if rdb.Ping(t.Context()).Err() == nil {
			return
		}
	}
	t.Fatal("the server does not come back")
}
