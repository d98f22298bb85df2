package policy_test

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
	"github.com/rlctl/rlctl/pkg/target"
)

// within asks once, of a policy that closes, and holds it to its time.
func within(t *testing.T, what string, l limiter.Limiter) {
	t.Helper()
	closed := under(t, l, policy.Policy{Mode: policy.Closed, Timeout: timeout, RetryAfter: 3 * time.Second})
	var d limiter.Decision
	var err error
	took := timed(func() { d, err = closed.Check(t.Context(), "k", 1) })
	if d != told[policy.Closed] || err != nil || took > timeout+grace {
		t.Errorf("%s: %+v, %v after %v", what, d, err, took)
	}
}

// Whatever a limiter sends, one command or several, its call ends in time.
func TestEveryLimiterOnAStalledServer(t *testing.T) {
	r := newRig(t, nil)
	all := map[string]limiter.Limiter{}
	for _, e := range target.Catalogue() {
		if e.State == target.NoState {
			continue // it asks nobody
		}
		l, err := e.New(r.open(r.near, 1), perHour)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := l.Check(t.Context(), "k", 1); err != nil || !d.Allowed {
			t.Fatalf("%s: %+v, %v", e.Name, d, err)
		}
		all[e.Name] = l
	}
	freeze(r)
	var asked sync.WaitGroup
	for name, l := range all {
		asked.Go(func() { within(t, name, l); within(t, name+" again", l) })
	}
	asked.Wait()
	thaw(r)
}

// Whatever the way to Redis, a place that takes connections and says nothing is waited for no longer.
func TestEveryConnectionToASilentPlace(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	port := silent.Addr().(*net.TCPAddr).Port
	for name, conn := range map[string]target.Conn{
		"tcp":          {Port: port},
		"password":     {Port: port, Password: "secret"},
		"database":     {Port: port, DB: 3},
		"tls":          {Port: port, TLS: true, Insecure: true},
		"cluster":      {Port: port, Cluster: true},
		"cluster, tls": {Port: port, Cluster: true, TLS: true, Insecure: true},
		"sentinel":     {Port: port, SentinelMaster: "main"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn.Timeout = time.Second // go-redis closes a sentinel's client no sooner
			rdb, err := conn.Open(1)
			if err != nil {
				t.Fatal(err)
			}
			defer rdb.Close()
			l, err := limiter.New(rdb, "gcra", perHour)
			if err != nil {
				t.Fatal(err)
			}
			within(t, name, l)
			within(t, name+" again", l)
		})
	}
}
