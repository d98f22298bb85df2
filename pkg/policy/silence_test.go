package policy_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
	"github.com/rlctl/rlctl/pkg/target"
)

// within asks once, of a policy that closes, holds it to its time, and returns the failure that it hid.
func within(t *testing.T, what string, l limiter.Limiter) *limiter.Error {
	t.Helper()
	var failed *limiter.Error
	closed := under(t, l, policy.Policy{Mode: policy.Closed, Timeout: timeout, RetryAfter: 3 * time.Second,
		Failed: func(_ context.Context, err error) { errors.As(err, &failed) }})
	var d limiter.Decision
	var err error
	took := timed(func() { d, err = closed.Check(t.Context(), "k", 1) })
	if d != told[policy.Closed] || err != nil || failed == nil || took > timeout+grace {
		t.Errorf("%s: %+v, %v after %v, for %v", what, d, err, took, failed)
		return &limiter.Error{}
	}
	return failed
}

// Whatever a limiter sends, one command or several, its call ends in time. Where all is in one command, the first is
// sent, and may have been counted: the server counts it once when it goes on. The second finds no connection that answers
// a greeting, and is never sent.
func TestEveryLimiterOnAStalledServer(t *testing.T) {
	r := newRig(t, nil)
	all, scripted := map[string]limiter.Limiter{}, map[string]bool{}
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
		all[e.Name], scripted[e.Name] = l, e.Atomic() || e.BrokenBy == target.Skew
	}
	freeze(r)
	var asked sync.WaitGroup
	for name, l := range all {
		asked.Go(func() {
			first, again := within(t, name, l), within(t, name+" again", l)
			if first.Class != limiter.ClassNoAnswer || scripted[name] && !first.Unknown {
				t.Errorf("%v, want no answer, perhaps counted", first)
			}
			if scripted[name] && (again.Class != limiter.ClassUnreachable || again.Unknown) {
				t.Errorf("again: %v, want not reached, not counted", again)
			}
		})
	}
	asked.Wait()
	thaw(r)
	for name, l := range all {
		if scripted[name] {
			r.until(func() bool { return used(t, name, l) >= 2 })
		}
	}
	for name, l := range all { // what comes late has come by now
		if n := used(t, name, l); scripted[name] && n != 2 {
			t.Errorf("%s: %d counted, want what was decided and what was sent", name, n)
		}
	}
}

func used(t *testing.T, name string, l limiter.Limiter) int64 {
	t.Helper()
	d, err := l.Check(t.Context(), "k", 0)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return perHour.Events - d.Remaining
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
