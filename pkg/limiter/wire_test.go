package limiter_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// A relay stands between a client and the server and spoils the answer to EVALSHA after the server has given it.
type relay struct {
	path  string
	spoil spoil
}

type spoil int

const (
	cut  spoil = iota // the connection is closed
	hold              // the answer is kept back until the client leaves
)

// newRelay listens on a socket of its own beside the server's.
func (r *rig) newRelay(t *testing.T, s spoil) *relay {
	l := &relay{filepath.Join(r.server.Dir(), "relay.sock"), s}
	listener, err := net.Listen("unix", l.path)
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	t.Cleanup(func() { listener.Close(); conns.Wait() })
	conns.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { l.serve(client, r.server.Socket()) })
		}
	})
	return l
}

// serve passes both ways until EVALSHA was passed; what the server says then is spoilt.
func (l *relay) serve(client net.Conn, upstream string) {
	defer client.Close()
	server, err := net.Dial("unix", upstream)
	if err != nil {
		return
	}
	defer server.Close()
	var spoilt atomic.Bool
	var answers sync.WaitGroup
	answers.Go(func() {
		pass(client, server, func([]byte) bool { return !spoilt.Load() })
		if !spoilt.Load() || l.spoil == cut {
			client.Close()
		}
	})
	pass(server, client, func(request []byte) bool {
		spoilt.Store(spoilt.Load() || bytes.Contains(bytes.ToLower(request), []byte("evalsha")))
		return true
	})
	server.Close()
	answers.Wait()
}

// pass copies until an end closes or ok says no.
func pass(to io.Writer, from io.Reader, ok func([]byte) bool) {
	room := make([]byte, 64<<10)
	for {
		n, err := from.Read(room)
		if err != nil || !ok(room[:n]) {
			return
		}
		if _, err := to.Write(room[:n]); err != nil {
			return
		}
	}
}

// clients are all kinds of client at their own defaults, which send again three times and more.
func clients(path string) map[string]redis.UniversalClient {
	toSocket := func(o *redis.Options) *redis.Client {
		o.Network, o.Addr = "unix", path
		return redis.NewClient(o)
	}
	return map[string]redis.UniversalClient{
		"plain": toSocket(&redis.Options{}),
		"cluster": redis.NewClusterClient(&redis.ClusterOptions{NewClient: toSocket,
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: path}}}}, nil
			}}),
		"ring": redis.NewRing(&redis.RingOptions{NewClient: toSocket, Addrs: map[string]string{"only": path}}),
	}
}

func TestLostAnswerIsNotSentAgain(t *testing.T) {
	r := newRig(t)
	l := r.new("gcra", perYear(100))
	check(t, l, "c")
	relayed := r.newRelay(t, cut)
	for kind, rdb := range clients(relayed.path) {
		t.Run(kind, func(t *testing.T) {
			defer rdb.Close()
			before, left := r.calls("evalsha"), remaining(t, l)
			e := failure(t, second(made(t, rdb, "gcra", perYear(100)).Check(t.Context(), "c", 10)))
			if e.Class != limiter.ClassNoAnswer || !e.Unknown || !limiter.Counted(e) {
				t.Errorf("got %v", e)
			}
			if sent := r.calls("evalsha") - before - 1; sent != 1 { // one is remaining's own
				t.Errorf("sent %d times", sent)
			}
			if taken := left - remaining(t, l); taken != 10 {
				t.Errorf("took %d of a cost of 10", taken)
			}
		})
	}
}

func remaining(t *testing.T, l limiter.Limiter) int64 {
	d, err := l.Check(t.Context(), "c", 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

func TestDeadlineEndsTheWait(t *testing.T) {
	r := newRig(t)
	l := r.new("gcra", perYear(100))
	check(t, l, "c")
	rdb := dial(t, &redis.Options{Addr: r.newRelay(t, hold).path, ContextTimeoutEnabled: true, ReadTimeout: time.Hour})
	if err := rdb.Ping(t.Context()).Err(); err != nil { // so that the deadline runs for the answer alone
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	e := failure(t, second(made(t, rdb, "gcra", perYear(100)).Check(ctx, "c", 10)))
	if e.Class != limiter.ClassNoAnswer || !e.Unknown { // and it came: nothing else ends an hour of waiting
		t.Errorf("got %v", e)
	}
	if left := remaining(t, l); left != 89 {
		t.Errorf("%d left: the request was not counted", left)
	}
}

// TestNeverSentIsFailed meets every reason why a request never leaves: nothing of it can have been counted.
func TestNeverSentIsFailed(t *testing.T) {
	r := newRig(t)
	silent, err := net.Listen("unix", filepath.Join(r.server.Dir(), "silent.sock")) // takes connections, says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	closed := dial(t, &redis.Options{Addr: r.server.Socket()})
	closed.Close()
	for name, c := range map[string]struct {
		ctx context.Context
		rdb *redis.Client
	}{
		"refused":   {t.Context(), dial(t, &redis.Options{Addr: filepath.Join(r.server.Dir(), "none"), DialerRetries: 1})},
		"cancelled": {over, r.rdb},
		"greeting": {soon, dial(t, &redis.Options{Addr: silent.Addr().String(), MaxRetries: -1,
			ContextTimeoutEnabled: true})},
		"client closed": {t.Context(), closed},
		"pool":          {t.Context(), r.exhausted(t)},
	} {
		t.Run(name, func(t *testing.T) {
			e := failure(t, second(made(t, c.rdb, "gcra", perYear(3)).Check(c.ctx, "c", 1)))
			if e.Class != limiter.ClassUnreachable || e.Unknown {
				t.Errorf("got %v", e)
			}
		})
	}
	if n := r.do("dbsize"); n != int64(0) {
		t.Errorf("%d keys", n)
	}
}

// exhausted is a client whose one connection is taken.
func (r *rig) exhausted(t *testing.T) *redis.Client {
	rdb := dial(t, &redis.Options{Addr: r.server.Socket(), PoolSize: 1, PoolTimeout: time.Millisecond})
	conn := rdb.Conn()
	if err := conn.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return rdb
}

func TestNoSecretInErrors(t *testing.T) {
	r := newRig(t, "--requirepass", "open-sesame", "--rename-command", "evalsha", "")
	classes := map[string]limiter.Class{"swordfish": limiter.ClassAuth, "open-sesame": limiter.ClassOther}
	for password, class := range classes {
		rdb := dial(t, &redis.Options{Addr: r.server.Socket(), Password: password, MaxRetries: -1})
		e := failure(t, second(made(t, rdb, "gcra", perYear(3)).Check(t.Context(), "client-7", 1)))
		if e.Class != class || e.Unknown {
			t.Errorf("with password %q: %v", password, e)
		}
		for _, secret := range []string{"client-7", "swordfish", "open-sesame"} {
			if strings.Contains(e.Error(), secret) {
				t.Errorf("%q is in %q", secret, e)
			}
		}
	}
}
