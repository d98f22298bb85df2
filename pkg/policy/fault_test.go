package policy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/pkg/wire"
)

// TestMain keeps go-redis from writing what it also returns.
func TestMain(m *testing.M) {
	logging.Disable()
	m.Run()
}

// What is promised: an answer within the timeout, and a little for the machine.
const (
	timeout = 200 * time.Millisecond
	grace   = 100 * time.Millisecond
)

// perHour is a limit that no test reaches.
var perHour = limiter.Limit{Events: 1000, Window: time.Hour}

// fault is something that befalls a server, and what clients see of it.
type fault struct {
	name        string
	args        []string // of the server
	begin, end  func(*rig)
	first, then limiter.Class // of the first call, and of those after it
	counts      bool          // what may have been counted was
	cold        bool          // clients connect only when it has begun
	far         bool          // clients go a way on which replies can be made late
}

// A call on a connection that was there before a silence is sent, and may have been counted. The ones after it get no
// further than to a new connection's greeting.
var faults = []fault{
	{name: "refused", begin: func(r *rig) { r.server.Kill() }, end: restart,
		first: limiter.ClassUnreachable, then: limiter.ClassUnreachable},
	{name: "stalled", begin: freeze, end: thaw,
		first: limiter.ClassNoAnswer, then: limiter.ClassUnreachable, counts: true},
	{name: "stalled before connecting", begin: freeze, end: thaw, cold: true,
		first: limiter.ClassUnreachable, then: limiter.ClassUnreachable},
	{name: "paused", begin: func(r *rig) { r.do("CLIENT", "PAUSE", 1_000_000, "WRITE") },
		end:   func(r *rig) { r.do("CLIENT", "UNPAUSE") },
		first: limiter.ClassNoAnswer, then: limiter.ClassNoAnswer},
	{name: "slow", far: true, begin: func(r *rig) { r.late.Store(int64(2 * timeout)) }, end: func(r *rig) { r.late.Store(0) },
		first: limiter.ClassNoAnswer, then: limiter.ClassUnreachable, counts: true},
	{name: "loading", args: []string{"--enable-debug-command", "yes"}, begin: reload, end: loadFast,
		first: limiter.ClassLoading, then: limiter.ClassLoading},
	{name: "out of memory", begin: func(r *rig) { r.do("CONFIG", "SET", "maxmemory", 1) },
		end:   func(r *rig) { r.do("CONFIG", "SET", "maxmemory", 0) },
		first: limiter.ClassOOM, then: limiter.ClassOOM},
	{name: "demoted", begin: func(r *rig) { r.do("REPLICAOF", "127.0.0.1", 1) },
		end:   func(r *rig) { r.do("REPLICAOF", "NO", "ONE"); r.do("SCRIPT", "FLUSH") },
		first: limiter.ClassReadOnly, then: limiter.ClassReadOnly},
	{name: "cannot save", args: []string{"--enable-protected-configs", "yes", "--save", "900 1"}, begin: spoilSnapshot,
		end:   func(r *rig) { r.do("CONFIG", "SET", "stop-writes-on-bgsave-error", "no") },
		first: limiter.ClassReadOnly, then: limiter.ClassReadOnly},
	{name: "without rights", begin: func(r *rig) { r.do("ACL", "SETUSER", "default", "-evalsha") },
		end:   func(r *rig) { r.do("ACL", "SETUSER", "default", "+evalsha") },
		first: limiter.ClassAuth, then: limiter.ClassAuth},
	{name: "without password", begin: func(r *rig) { r.do("CONFIG", "SET", "requirepass", "secret") }, cold: true,
		end:   func(r *rig) { r.do("CONFIG", "SET", "requirepass", "") },
		first: limiter.ClassAuth, then: limiter.ClassAuth},
	{name: "busy", args: []string{"--busy-reply-threshold", "1"}, begin: occupy,
		end:   func(r *rig) { r.do("SCRIPT", "KILL"); r.ended() },
		first: limiter.ClassBusy, then: limiter.ClassBusy},
}

// In every fault each mode answers in its time, the hook learns what kind of failure it was and whether it may have
// counted, and when the fault is over the same limiters decide again. Nothing was counted but what was decided and what
// was said to be unknown, and that once.
func TestFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, f.args)
			if f.far {
				r.far()
			}
			callers := map[policy.Mode]*caller{}
			for _, mode := range policy.Modes() {
				callers[mode] = r.caller(mode)
				if !f.cold {
					callers[mode].recover()
				}
			}
			f.begin(r)
			var all sync.WaitGroup
			for _, c := range callers {
				all.Go(func() {
					c.suffer(f.first)
					c.suffer(f.then)
					c.suffer(f.then)
				})
			}
			all.Wait()
			f.end(r)
			for _, c := range callers {
				c.recover()
				c.settle(f.counts)
			}
		})
	}
}

// A crowd that shares one connection is answered in time too, though most of it waits for the connection only, and then
// nothing of theirs was counted.
func TestCrowdOnAStalledServer(t *testing.T) {
	r := newRig(t, nil)
	c := r.caller(policy.Open)
	c.recover()
	freeze(r)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			var d limiter.Decision
			var err error
			took := timed(func() { d, err = c.limiter.Check(t.Context(), string("k"+c.mode), 1) })
			if d != told[policy.Open] || err != nil || took > timeout+grace {
				t.Errorf("%+v, %v after %v", d, err, took)
			}
		})
	}
	all.Wait()
	thaw(r)
	c.recover()
	c.settle(true)
	if c.unknown != 1 {
		t.Errorf("%d of 50 may have been counted, want that which had the connection", c.unknown)
	}
}

// rig is a server, an operator of it, and the way that its clients take.
type rig struct {
	*testing.T
	server *redisd.Server
	admin  redis.UniversalClient
	near   string       // socket of the clients
	late   atomic.Int64 // ns by which they get each reply late
	busy   chan error   // the end of what run began
}

func newRig(t *testing.T, args []string) *rig {
	r := &rig{T: t, server: redisdtest.Start(t, redisd.Options{Args: args}), busy: make(chan error, 1)}
	r.admin = r.open(r.server.Socket(), 2)
	r.near = r.server.Socket()
	return r
}

// far lays a way between the server and the clients to come, on which replies can be made late.
func (r *rig) far() {
	r.near = filepath.Join(r.server.Dir(), "near.sock")
	way, err := wire.Lay(r.near, r.dial, 0)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { way.Close() })
}

// dial connects the far end of the clients' way.
func (r *rig) dial() (net.Conn, error) {
	c, err := net.Dial("unix", r.server.Socket())
	return &slow{c, &r.late}, err
}

// slow is a connection on which what comes is late.
type slow struct {
	net.Conn
	late *atomic.Int64
}

func (s *slow) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	time.Sleep(time.Duration(s.late.Load()))
	return n, err
}

// open is a client as rlctl opens it, whose own timeouts never end anything here.
func (r *rig) open(socket string, pool int) redis.UniversalClient {
	rdb, err := target.Conn{Socket: socket, Timeout: time.Hour}.Open(pool)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { rdb.Close() })
	return rdb
}

func (r *rig) do(words ...any) {
	r.Helper()
	if err := r.admin.Do(r.Context(), words...).Err(); err != nil {
		r.Fatalf("%v: %v", words, err)
	}
}

// until waits for what the server must come to.
func (r *rig) until(holds func() bool) {
	r.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			r.Fatal("waited in vain")
		}
	}
}

// run has the server at work with a command, until ended.
func (r *rig) run(words ...any) {
	go func() { r.busy <- r.admin.Do(context.Background(), words...).Err() }()
}

func (r *rig) ended() { <-r.busy }

// caller is one mode and what it was told.
type caller struct {
	*rig
	mode    policy.Mode
	limiter limiter.Limiter
	decided int64

	mu      sync.Mutex
	unknown int64
	last    error
}

// caller makes a limiter of one connection, and a client's id for each mode.
func (r *rig) caller(mode policy.Mode) *caller {
	c := &caller{rig: r, mode: mode}
	l, err := limiter.New(r.open(r.near, 1), "sliding-log", perHour)
	if err != nil {
		r.Fatal(err)
	}
	c.limiter = under(r.T, l, policy.Policy{
		Mode: mode, Timeout: timeout, RetryAfter: 3 * time.Second,
		Failed: func(_ context.Context, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.last = err
			if limiter.Counted(err) {
				c.unknown++
			}
		},
	})
	return c
}

// suffer asks while the fault is on.
func (c *caller) suffer(want limiter.Class) {
	c.last = nil
	var d limiter.Decision
	var err error
	took := timed(func() { d, err = c.limiter.Check(c.Context(), string("k"+c.mode), 1) })
	c.Logf("%-6s %s: answered after %v", c.mode, want, took)
	if took > timeout+grace {
		c.Errorf("%s: answered after %v, want within %v", c.mode, took, timeout+grace)
	}
	if d != told[c.mode] || (err != nil) != (c.mode == policy.Error) {
		c.Errorf("%s: %+v, %v", c.mode, d, err)
	}
	var failed *limiter.Error
	if !errors.As(c.last, &failed) || failed.Class != want || failed.Unknown != (want == limiter.ClassNoAnswer) {
		c.Errorf("%s: the hook was told of %v, want class %s", c.mode, c.last, want)
	}
}

// recover asks until the server decides.
func (c *caller) recover() {
	c.Helper()
	c.until(func() bool {
		d, err := c.limiter.Check(c.Context(), string("k"+c.mode), 1)
		return err == nil && d.Allowed && !d.Degraded
	})
	c.decided++
}

// settle compares what the server counts with what was told: all that was decided, and of the unknown some, or all of it
// that a server does once it goes on.
func (c *caller) settle(all bool) {
	c.Helper()
	used := int64(-1)
	c.until(func() bool {
		d, err := c.limiter.Check(c.Context(), string("k"+c.mode), 0)
		if err != nil || d.Degraded {
			c.Fatalf("%s: %+v, %v", c.mode, d, err)
		}
		used = perHour.Events - d.Remaining
		return !all || used >= c.decided+c.unknown
	})
	if used < 1 || used > c.decided+c.unknown {
		c.Errorf("%s: %d counted, where %d were decided and %d unknown", c.mode, used, c.decided, c.unknown)
	}
}

func restart(r *rig) {
	if err := r.server.Restart(r.Context()); err != nil {
		r.Fatal(err)
	}
}

func freeze(r *rig) { r.signal(syscall.SIGSTOP, true) }
func thaw(r *rig)   { r.signal(syscall.SIGCONT, false) }

// signal waits until the server has taken it, as the system tells.
func (r *rig) signal(s syscall.Signal, stopped bool) {
	if err := syscall.Kill(r.server.PID(), s); err != nil {
		r.Fatal(err)
	}
	r.until(func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.server.PID()))
		return err != nil || strings.Contains(string(stat), ") T ") == stopped // without /proc, it is as good as done
	})
}

// reload has the server read a snapshot, slowly, and waits until it does.
func reload(r *rig) {
	for n := range 200 {
		r.do("SET", n, strings.Repeat("x", 1024))
	}
	for name, value := range map[string]any{
		"key-load-delay": 10_000, "loading-process-events-interval-bytes": 1024, "rdbcompression": "no",
	} {
		r.do("CONFIG", "SET", name, value)
	}
	r.run("DEBUG", "RELOAD")
	r.until(func() bool { return redis.HasErrorPrefix(r.admin.Get(r.Context(), "0").Err(), "LOADING") })
}

// loadFast has the server come to the end of what reload began.
func loadFast(r *rig) {
	r.do("CONFIG", "SET", "key-load-delay", 0)
	r.ended()
}

// spoilSnapshot has one fail, after which Redis takes no writes.
func spoilSnapshot(r *rig) {
	gone := filepath.Join(r.TempDir(), "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		r.Fatal(err)
	}
	r.do("CONFIG", "SET", "dir", gone)
	if err := os.Remove(gone); err != nil {
		r.Fatal(err)
	}
	r.do("BGSAVE")
	r.until(func() bool {
		return strings.Contains(r.admin.Info(r.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
	})
}

// occupy has a script of somebody else run on.
func occupy(r *rig) {
	r.run("EVAL", "while true do end", "0")
	r.until(func() bool { return redis.HasErrorPrefix(r.admin.Ping(r.Context()).Err(), "BUSY") })
}
