package target_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
)

// Whatever a client left must be gone when all is quiet: a lock or a sequence that stays is found by the next one.
// (ECC#1693)
func TestFieldNothingStaysAfterQuiet(t *testing.T) {
	field(t, every("local-bucket"), func(c *caller) {
		c.fresh(limiter.Limit{Events: 7, Window: time.Minute})
		for range 20 { // admitted, then denied
			c.take(1)
		}
		if c.held() == "" {
			c.Fatal("nothing was kept, so that nothing can stay")
		}
		c.pass(2*c.limit.Window + time.Millisecond) // no TTL is longer
		if left := c.held(); left != "" {
			c.Errorf("left behind: %s", left)
		}
	})
}

// trouble is something that a server is in, how to bring it there, and the class of what it then answers.
type trouble struct {
	name  string
	class limiter.Class
	begin [][]any // commands
	conn  func(*target.Conn)
}

var troubles = []trouble{
	{"out of memory", limiter.ClassOOM, [][]any{{"CONFIG", "SET", "maxmemory", "1"}}, nil},
	{"a replica", limiter.ClassReadOnly, [][]any{{"REPLICAOF", "127.0.0.1", "1"}}, nil},
	{"a replica that lost its master", limiter.ClassReadOnly,
		[][]any{{"CONFIG", "SET", "replica-serve-stale-data", "no"}, {"REPLICAOF", "127.0.0.1", "1"}}, nil},
	{"too few replicas", limiter.ClassReadOnly, [][]any{{"CONFIG", "SET", "min-replicas-to-write", "1"}}, nil},
	{"a password", limiter.ClassAuth, [][]any{{"CONFIG", "SET", "requirepass", "secret"}}, nil},
	{"the wrong password", limiter.ClassAuth, [][]any{{"CONFIG", "SET", "requirepass", "secret"}},
		func(c *target.Conn) { c.Password = "guess" }},
	{"no rights", limiter.ClassAuth, [][]any{{"ACL", "SETUSER", "weak", "on", ">pw", "~*", "-@all"}},
		func(c *target.Conn) { c.User, c.Password = "weak", "pw" }},
}

// An error of Redis is an error of its own class, never a denial, and none of these was counted.
func TestFieldTroubleIsNoDenial(t *testing.T) {
	t.Parallel()
	for _, trouble := range troubles {
		t.Run(trouble.name, func(t *testing.T) {
			s := redisdtest.Start(t, redisd.Options{})
			conn := target.Conn{Socket: s.Socket()}
			hold(t, conn)
			run(t, conn, trouble.begin)
			if trouble.conn != nil {
				trouble.conn(&conn)
			}
			wantClass(t, conn, trouble.class)
		})
	}
}

// TestFieldBusyIsNoDenial has a script of somebody else's run on.
func TestFieldBusyIsNoDenial(t *testing.T) {
	t.Parallel()
	s := redisdtest.Start(t, redisd.Options{Args: []string{"--busy-reply-threshold", "1"}})
	conn := target.Conn{Socket: s.Socket(), Timeout: time.Minute}
	other, err := conn.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	hold(t, conn)
	ended := make(chan error)
	go func() { ended <- other.Do(context.Background(), "EVAL", "while true do end", "0").Err() }()
	rdb, err := conn.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	for !redis.HasErrorPrefix(rdb.Ping(t.Context()).Err(), "BUSY") {
	}
	wantClass(t, conn, limiter.ClassBusy)
	if err := rdb.ScriptKill(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	<-ended
}

// TestFieldMisconfIsNoDenial has a snapshot fail, after which Redis takes no writes.
func TestFieldMisconfIsNoDenial(t *testing.T) {
	t.Parallel()
	s := redisdtest.Start(t, redisd.Options{Args: []string{"--enable-protected-configs", "yes", "--save", "900 1"}})
	conn := target.Conn{Socket: s.Socket(), Timeout: time.Minute}
	hold(t, conn)
	gone := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, conn, [][]any{{"CONFIG", "SET", "dir", gone}})
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	run(t, conn, [][]any{{"BGSAVE"}})
	until(t, conn, func(rdb redis.UniversalClient) bool {
		return strings.Contains(rdb.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
	})
	wantClass(t, conn, limiter.ClassReadOnly)
}

// TestFieldLoadingIsNoDenial asks while the server reads its snapshot, slowly.
func TestFieldLoadingIsNoDenial(t *testing.T) {
	t.Parallel()
	s := redisdtest.Start(t, redisd.Options{Args: []string{"--enable-debug-command", "yes"}})
	conn := target.Conn{Socket: s.Socket(), Timeout: time.Minute}
	hold(t, conn)
	var fill [][]any
	for n := range 60 {
		fill = append(fill, []any{"SET", n, strings.Repeat("x", 4096)})
	}
	run(t, conn, append(fill, []any{"CONFIG", "SET", "key-load-delay", 50_000}, // µs a key
		[]any{"CONFIG", "SET", "loading-process-events-interval-bytes", 1024}, []any{"CONFIG", "SET", "rdbcompression", "no"}))
	other, err := conn.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	ended := make(chan error)
	go func() { ended <- other.Do(context.Background(), "DEBUG", "RELOAD").Err() }()
	until(t, conn, func(rdb redis.UniversalClient) bool {
		return redis.HasErrorPrefix(rdb.Get(t.Context(), "0").Err(), "LOADING")
	})
	wantClass(t, conn, limiter.ClassLoading)
	run(t, conn, [][]any{{"CONFIG", "SET", "key-load-delay", 0}})
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestFieldDemotionAndPromotion has a limiter that lives through both: errors while its server is a replica, answers as
// soon as it is none, though the promoted server has never seen the script. (envoyproxy/ratelimit#1191, upstash#122)
func TestFieldDemotionAndPromotion(t *testing.T) {
	t.Parallel()
	s := redisdtest.Start(t, redisd.Options{})
	conn := target.Conn{Socket: s.Socket()}
	rdb, err := conn.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	for _, e := range every("local-bucket") {
		l, err := e.New(rdb, limiter.Limit{Events: 7, Window: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		run(t, conn, [][]any{{"REPLICAOF", "127.0.0.1", "1"}})
		var failed *limiter.Error
		if _, err := l.Check(t.Context(), "client", 1); !errors.As(err, &failed) || failed.Class != limiter.ClassReadOnly {
			t.Errorf("%s: %v on a replica", e.Name, err)
		}
		run(t, conn, [][]any{{"REPLICAOF", "NO", "ONE"}, {"SCRIPT", "FLUSH"}})
		if d, err := l.Check(t.Context(), "client", 1); err != nil || !d.Allowed {
			t.Errorf("%s: %+v, %v after the promotion", e.Name, d, err)
		}
	}
}

// until waits for what a server must come to.
func until(t *testing.T, conn target.Conn, holds func(redis.UniversalClient) bool) {
	t.Helper()
	rdb, err := conn.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	for deadline := time.Now().Add(20 * time.Second); !holds(rdb); {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
	}
}

func run(t *testing.T, conn target.Conn, commands [][]any) {
	t.Helper()
	rdb, err := conn.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	for _, words := range commands {
		if err := rdb.Do(t.Context(), words...).Err(); err != nil {
			t.Fatalf("%v: %v", words, err)
		}
	}
}

// A server that is full refuses what it would have to remember, and nothing else: a denial still answers, its script
// forgotten or not. What is refused leaves the key as it was, and its TTL, though entries in it have expired that could
// be freed first: Redis would then let the rest of the script through.
func TestFieldFullServer(t *testing.T) {
	field(t, every("local-bucket"), func(c *caller) {
		limit := limiter.Limit{Events: 4, Window: 2 * time.Second}
		full := func(size int) { c.rdb.ConfigSet(c.Context(), "maxmemory", strconv.Itoa(size)) }
		defer full(0)
		c.fresh(limit)
		c.toWindow()
		c.allowed(1)
		c.pass(limit.Window * 3 / 4)
		for range 2 { // these live on when the first has expired
			c.allowed(1)
		}
		c.pass(limit.Window * 3 / 8)
		some, before := c.client, c.held()
		c.fresh(limit)
		for range limit.Events {
			c.allowed(1)
		}
		full(1)
		c.rdb.ScriptFlush(c.Context())
		if c.entry.BrokenBy != target.Denial && c.entry.BrokenBy != target.Crash { // those two write before they deny
			for range 2 {
				c.denied(1)
			}
		}
		c.take(0)
		for _, client := range []string{some, c.client + "new"} {
			var failed *limiter.Error
			d, err := c.limiter.Check(c.Context(), client, 1)
			if !errors.As(err, &failed) || failed.Class != limiter.ClassOOM || failed.Unknown {
				c.Errorf("an admission on a full server: %s, error %v", show(d), err)
			}
			c.client = client
			if held := c.held(); c.entry.Atomic() && client == some && held != before || client != some && held != "" {
				c.Errorf("half-written: was\n%sis\n%s", before, held)
			}
		}
	})
}

// holder is who holds a slot of each semaphore when a trouble begins.
const holder = "holder"

func hold(t *testing.T, conn target.Conn) {
	t.Helper()
	eachOpen(t, conn, semaphores(), func(e target.Entry, l limiter.Limiter) {
		if d, err := l.(limiter.Identified).CheckID(t.Context(), "client", 1, holder); err != nil || !d.Allowed {
			t.Fatalf("%s: %+v, %v", e.Name, d, err)
		}
	})
}

// wantClass asks every limiter that asks Redis, and those that can for what a holder asks: to release frees memory, and
// is all that a full server still does.
func wantClass(t *testing.T, conn target.Conn, want limiter.Class) {
	t.Helper()
	eachOpen(t, conn, every("local-bucket"), func(e target.Entry, l limiter.Limiter) {
		wantError(t, e.Name, want)(l.Check(t.Context(), "client", 1))
		if s, ok := l.(*limiter.Semaphore); ok {
			wantError(t, e.Name+", renew", want)(s.Renew(t.Context(), "client", holder))
		}
		if r, ok := l.(limiter.Releaser); ok && want != limiter.ClassOOM {
			wantError(t, e.Name+", release", want)(r.Release(t.Context(), "client", holder))
		}
	})
}

func eachOpen(t *testing.T, conn target.Conn, rows []target.Entry, do func(target.Entry, limiter.Limiter)) {
	t.Helper()
	rdb, err := conn.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	for _, e := range rows {
		l, err := e.New(rdb, limiter.Limit{Events: 7, Window: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		do(e, l)
	}
}

func wantError(t *testing.T, who string, want limiter.Class) func(limiter.Decision, error) {
	return func(d limiter.Decision, err error) {
		t.Helper()
		var failed *limiter.Error
		if !errors.As(err, &failed) || failed.Class != want || failed.Unknown {
			t.Errorf("%s: %+v, %v; want an error of class %s, not counted", who, d, err, want)
		}
	}
}
