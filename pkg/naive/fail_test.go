package naive_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

// errRefused is a connection that was refused: the step did not run.
var errRefused = &net.OpError{Op: "dial", Net: "unix", Err: errors.New("refused")}

// TestFailedSteps lets each step of an admission fail in turn, once because no connection was to be had and once
// because the answer was lost. The error says whether the request may have been counted; when it says no, a peek
// agrees; and nothing is sent after it.
func TestFailedSteps(t *testing.T) {
	t.Parallel()
	// What the error says of each step, y for "may have been counted": refused, then lost.
	want := map[string][2]string{
		"naive-counter":    {"nn", "ny"},
		"naive-expire":     {"ny", "yy"},
		"naive-log":        {"nnn", "nny"},
		"naive-pipeline":   {"nn", "ny"},
		"charging-log":     {"n", "y"},
		"naive-bucket":     {"nnny", "nnyy"},
		"skewed-bucket":    {"n", "y"},
		"watch-bucket":     {"nnn", "nny"},
		"local-bucket":     {"", ""},
		"naive-semaphore":  {"nnn", "nny"},
		"skewed-semaphore": {"n", "y"},
	}
	for _, name := range naives(t, all) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for i, err := range []error{errRefused, io.EOF} {
				if got := failEach(t, r, name, err); got != want[name][i] {
					t.Errorf("%v at each step: may have been counted %q, want %q", err, got, want[name][i])
				}
			}
		})
	}
}

func failEach(t *testing.T, r *rig, name string, fault error) (counted string) {
	l := limiter.Limit{Events: 5, Window: time.Minute}
	healthy := r.open(name, r.rdb, l)
	check(t, healthy, 1) // loads the script
	for at := 0; ; at++ {
		if err := healthy.(limiter.Resetter).Reset(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		sent := 0
		lim := r.open(name, r.client(tap(func(cmds []redis.Cmder, run func() error) error {
			if setUp(cmds) {
				return run()
			}
			sent++
			if sent-1 != at {
				return run()
			}
			if fault == io.EOF {
				_ = run()
			}
			return fault
		})), l)
		cost := int64(2)
		if entry(t, name).Unit {
			cost = 1
		}
		_, err := lim.Check(t.Context(), "c", cost)
		if err == nil {
			return counted
		}
		var e *limiter.Error
		if !errors.As(err, &e) || e.Limiter != name || !errors.Is(err, fault) {
			t.Fatalf("step %d: %v is not the limiter's own error about %v", at, err, fault)
		}
		if sent != at+1 {
			t.Errorf("step %d: %d steps were sent, so that something came after the fault", at, sent)
		}
		if left := check(t, healthy, 0).Remaining; !e.Unknown && left != 5 {
			t.Errorf("step %d: said to be certainly not counted, but %d of 5 remain", at, left)
		}
		counted += map[bool]string{true: "y", false: "n"}[e.Unknown]
	}
}

// TestHalfABlock lets the lifetime fail that comes with a count: Redis rolls nothing back, so the request counted.
func TestHalfABlock(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"naive-counter", "naive-log", "naive-pipeline", "charging-log", "watch-bucket"} {
		r := newRig(t)
		lim := r.open(name, r.client(tap(func(cmds []redis.Cmder, run func() error) error {
			if cmds[0].Name() != "multi" {
				return run()
			}
			if err := run(); err != nil {
				return err
			}
			expire := cmds[len(cmds)-2]
			expire.SetErr(errNoRight)
			return errNoRight
		})), limiter.Limit{Events: 5, Window: time.Minute})
		if _, err := lim.Check(t.Context(), "c", 1); !limiter.Counted(err) {
			t.Errorf("%s: %v, want that it may have been counted", name, err)
		}
	}
}

// noRight is a reply of Redis.
type noRight struct{}

func (noRight) Error() string { return "ERR no right to do that" }
func (noRight) RedisError()   {}

var errNoRight noRight

// TestForeignKeys finds something else under each key: an error of its own class, never a denial, and nothing changes.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	for _, name := range naives(t, all) {
		if name == "local-bucket" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			lim := r.open(name, r.rdb, limiter.Limit{Events: 5, Window: time.Minute})
			check(t, lim, 1)
			for _, key := range r.keys() {
				r.wantWrongType(lim, name, key, "list")
				if name == "naive-counter" || name == "naive-bucket" { // these decide in the client on what it holds
					r.wantWrongType(lim, name, key, "text")
				}
			}
		})
	}
}

// wantWrongType puts a list or a text in the place of key.
func (r *rig) wantWrongType(lim limiter.Limiter, name, key, kind string) {
	r.t.Helper()
	ctx := r.t.Context()
	r.rdb.Del(ctx, key)
	defer r.rdb.Del(ctx, key)
	if kind == "list" {
		r.rdb.LPush(ctx, key, "x")
	} else {
		r.rdb.Set(ctx, key, "x", 0)
	}
	before := r.dump()
	_, err := lim.Check(ctx, "c", 1)
	var e *limiter.Error
	unsure := entry(r.t, name).BrokenBy == target.Skew // of an error inside a script one cannot tell what was written before
	if !errors.As(err, &e) || e.Class != limiter.ClassWrongType || e.Unknown && !unsure {
		r.t.Errorf("%s holds a %s: %v, want an error of class %s", key, kind, err, limiter.ClassWrongType)
	}
	if r.dump() != before && name != "charging-log" { // which gives it a lifetime
		r.t.Errorf("%s holds a %s: the request changed something", key, kind)
	}
}

// TestReadOnlyServer lets the write of each be refused: certainly not counted, class read-only.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	for _, name := range naives(t, all) {
		if name == "local-bucket" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			lim := r.open(name, r.rdb, limiter.Limit{Events: 5, Window: time.Minute})
			check(t, lim, 1)
			if err := r.rdb.Do(t.Context(), "replicaof", "127.0.0.1", "1").Err(); err != nil {
				t.Fatal(err)
			}
			_, err := lim.Check(t.Context(), "c", 1)
			var e *limiter.Error
			if !errors.As(err, &e) || e.Class != limiter.ClassReadOnly || e.Unknown {
				t.Errorf("%v, want an error of class %s that was not counted", err, limiter.ClassReadOnly)
			}
		})
	}
}

// TestRefusedBeforeIO makes bad calls on a connection that counts what is sent.
func TestRefusedBeforeIO(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := limiter.Limit{Events: 5, Window: time.Minute}
	for _, name := range naives(t, all) {
		sent := 0
		lim := r.open(name, r.client(tap(func(_ []redis.Cmder, run func() error) error { sent++; return run() })), l)
		for _, bad := range []struct {
			client string
			cost   int64
		}{{"", 1}, {"c", -1}, {"c", limiter.MaxCost + 1}, {strings.Repeat("c", 1<<20), 1}} {
			_, err := lim.Check(t.Context(), bad.client, bad.cost)
			wantInvalid(t, name, err)
		}
		wantInvalid(t, name, lim.(limiter.Resetter).Reset(t.Context(), ""))
		if id, ok := lim.(limiter.Identified); ok && name != "skewed-bucket" { // a bucket makes no use of ids
			_, err := id.CheckID(t.Context(), "c", 1, "")
			wantInvalid(t, name, err)
		}
		if sent > 0 {
			t.Errorf("%s sent %d steps", name, sent)
		}
	}
}

// TestLogsBoundOneCost refuses a cost that fits the limit of a log and is too much for one call.
func TestLogsBoundOneCost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, name := range []string{"naive-log", "naive-pipeline", "charging-log"} {
		lim := r.open(name, r.rdb, limiter.Limit{Events: 5000, Window: time.Minute})
		_, err := lim.Check(t.Context(), "c", 1001)
		wantInvalid(t, name, err)
		if !check(t, lim, 1000).Allowed || check(t, lim, 5001).RetryAfter != limiter.Never {
			t.Errorf("%s: want 1000 of 5000 allowed and 5001 never", name)
		}
	}
}

func wantInvalid(t *testing.T, name string, err error) {
	t.Helper()
	var e *limiter.Error
	if !errors.As(err, &e) || e.Class != limiter.ClassInvalid || e.Unknown || e.Limiter != name {
		t.Errorf("%s: %v, want an error of class %s", name, err, limiter.ClassInvalid)
	}
}

// TestBadLimits makes limiters that cannot be.
func TestBadLimits(t *testing.T) {
	t.Parallel()
	for _, name := range naives(t, all) {
		for _, l := range []limiter.Limit{
			{Events: -1, Window: time.Minute},
			{Events: limiter.MaxEvents + 1, Window: time.Minute},
			{Events: 1},
			{Events: 1, Window: time.Minute + time.Nanosecond},
			{Events: 1, Window: 367 * 24 * time.Hour},
			{Events: 1, Window: time.Minute, Burst: -1},
		} {
			_, err := entry(t, name).New(nil, l)
			wantInvalid(t, name, err)
		}
		slow := limiter.Limit{Events: 1, Window: limiter.MaxWindow, Burst: limiter.MaxEvents}
		_, err := entry(t, name).New(nil, slow)
		if bucket := entry(t, name).Twin == "token-bucket"; bucket {
			wantInvalid(t, name, err)
		} else if err != nil {
			t.Errorf("%s, which has no burst: %v", name, err)
		}
		_, err = entry(t, name).New(nil, thousand, limiter.WithPrefix("a{b"))
		wantInvalid(t, name, err)
	}
}

// TestLimitOfZero denies without asking, and peeks.
func TestLimitOfZero(t *testing.T) {
	t.Parallel()
	for _, name := range naives(t, func(e target.Entry) bool { return e.BrokenBy != target.Skew }) {
		lim, err := entry(t, name).New(nil, limiter.Limit{Window: time.Minute, Burst: 5})
		if err != nil {
			t.Fatal(err)
		}
		if d := check(t, lim, 1); d != (limiter.Decision{RetryAfter: limiter.Never}) {
			t.Errorf("%s: %+v, want never", name, d)
		}
		if d := check(t, lim, 0); d != (limiter.Decision{Allowed: true}) {
			t.Errorf("%s: peek %+v", name, d)
		}
	}
}

// TestWatchUnderContention sets 128 callers on one key: exactly the burst passes, whoever fails says so and was not
// counted, and the price shows.
func TestWatchUnderContention(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rdb, err := target.Conn{Socket: r.srv.Socket(), Timeout: 20 * time.Second}.Open(128)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	lim := r.open("watch-bucket", rdb, limiter.Limit{Events: 150, Window: time.Hour})
	var allowed, denied, failed int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 128 {
		wg.Go(func() {
			for range 2 {
				d, err := lim.Check(context.Background(), "c", 1)
				mu.Lock()
				switch {
				case limiter.Counted(err):
					t.Error(err)
				case err != nil:
					failed++
				case d.Allowed:
					allowed++
				default:
					denied++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	retries := lim.(limiter.Retrier).Retries()
	t.Logf("%d allowed, %d denied, %d failed, %d retries", allowed, denied, failed, retries)
	if allowed > 150 || allowed+failed < 150 || retries == 0 || denied == 0 {
		t.Error("want 150 allowed, the rest denied, and retries")
	}
}

// TestWatchGivesUp lets the key change under every attempt.
func TestWatchGivesUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	lim := r.open("watch-bucket", r.client(tap(func(cmds []redis.Cmder, run func() error) error {
		if cmds[0].Name() == "multi" {
			if err := r.rdb.Persist(context.Background(), "test:{c}:watch-bucket").Err(); err != nil {
				return err
			}
			r.rdb.Incr(context.Background(), "others")
			r.rdb.HSet(context.Background(), "test:{c}:watch-bucket", "used", 0, "frac", 0, "at", start, "window", 1)
		}
		return run()
	})), limiter.Limit{Events: 5, Window: time.Minute})
	_, err := lim.Check(t.Context(), "c", 1)
	var e *limiter.Error
	if !errors.As(err, &e) || e.Class != limiter.ClassContention || e.Unknown {
		t.Errorf("%v, want an error of class %s that was not counted", err, limiter.ClassContention)
	}
	if n, _ := r.rdb.Get(t.Context(), "others").Int64(); n != 1000 || lim.(limiter.Retrier).Retries() != n {
		t.Errorf("%d attempts, %d retries, want 1000", n, lim.(limiter.Retrier).Retries())
	}
}
