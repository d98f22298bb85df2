package outside_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/outside"
)

// worker is a limiter that is a shell script: it says that it is ready, and then what the test wants.
func worker(t *testing.T, timeout time.Duration, script string) limiter.Limiter {
	t.Helper()
	return command(t, timeout, "sh -c '"+opening+script+"'")
}

const opening = `read open; echo "{\"ready\":true,\"protocol\":\"rlctl.worker/v1\"}"; `

func command(t *testing.T, timeout time.Duration, text string) limiter.Limiter {
	t.Helper()
	kind, err := outside.Open("exec:"+text, outside.Terms{As: "fixed-window"})
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: timeout}) // never used
	t.Cleanup(func() { rdb.Close() })
	l, err := kind.New(rdb, limiter.Limit{Events: 10, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.(io.Closer).Close() })
	return l
}

func TestWorkerAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, line string
		want       limiter.Decision
	}{
		{"allowed and no more", `{"id":1,"allowed":true}`, limiter.Decision{Allowed: true}},
		{"denied with a wait", `{"id":1,"allowed":false,"retry_after_us":1500}`, limiter.Decision{RetryAfter: 1500 * time.Microsecond}},
		{"never", `{"id":1,"allowed":false,"retry_after_us":-1}`, limiter.Decision{RetryAfter: limiter.Never}},
		{"whole", `{"id":1,"allowed":true,"remaining":3,"retry_after_us":0,"reset_after_us":7,"now_us":1700000000000001}`,
			limiter.Decision{Allowed: true, Remaining: 3, ResetAfter: 7 * time.Microsecond, At: time.UnixMicro(1700000000000001)}},
		{"a time alone is not compared with anything", `{"id":1,"allowed":true,"now_us":1700000000000001}`, limiter.Decision{Allowed: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := worker(t, time.Minute, `read q; echo "`+strings.ReplaceAll(c.line, `"`, `\"`)+`"; read end`)
			got, err := l.Check(t.Context(), "client", 1)
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestWorkerFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		class        limiter.Class
		counted      bool
		says         string
	}{
		{"dies", `read q; echo why >&2; exit 3`, outside.ClassDied, true, "exit status 3): why"},
		{"ends", `read q`, outside.ClassDied, true, "the worker ended"},
		{"hangs", `read q; read never`, outside.ClassHung, true, "did not answer"},
		{"writes no JSON", `read q; echo allowed; read end`, outside.ClassRubbish, true, `invalid character 'a' looking for beginning of value: "allowed\n"`},
		{"answers what was not asked", `read q; echo "{\"id\":7,\"allowed\":true}"; read end`, outside.ClassRubbish, true, "request 7"},
		{"answers nothing", `read q; echo "{\"id\":1}"; read end`, outside.ClassRubbish, true, "without allowed"},
		{"contradicts itself", `read q; echo "{\"id\":1,\"allowed\":true,\"retry_after_us\":5}"; read end`, outside.ClassRubbish, true, "disagree"},
		{"writes without end", `read q; head -c 100000 /dev/zero | tr "\\0" x; read end`, outside.ClassRubbish, true, "65536 bytes"},
		{"is ready twice", `echo "{\"ready\":true,\"protocol\":\"rlctl.worker/v1\"}"; read q; read end`, outside.ClassRubbish, true, "without having been asked"},
		{"reports an error", `read q; echo "{\"id\":1,\"error\":\"lost\"}"; read end`, outside.ClassRefused, true, "lost"},
		{"reports one that did not count", `read q; echo "{\"id\":1,\"error\":\"refused\",\"counted\":false}"; read end`,
			outside.ClassRefused, false, "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := worker(t, 10*time.Millisecond, c.script).Check(t.Context(), "client", 1)
			var e *limiter.Error
			if !errors.As(err, &e) || e.Class != c.class || e.Unknown != c.counted || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want class %s, counted %t, saying %q", err, c.class, c.counted, c.says)
			}
		})
	}
}

func TestWorkerThatNeverGetsReady(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command string
		class   limiter.Class
	}{
		"another protocol": {`sh -c 'read open; echo "{\"ready\":true,\"protocol\":\"rlctl.worker/v9\"}"; read end'`, outside.ClassRubbish},
		"no such program":  {"/nonexistent/worker", outside.ClassDied},
		"answers first":    {`sh -c 'read open; echo "{\"id\":1,\"allowed\":true}"; read end'`, outside.ClassRubbish},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := command(t, time.Minute, c.command).Check(t.Context(), "client", 1)
			var e *limiter.Error
			if !errors.As(err, &e) || e.Class != c.class || e.Unknown {
				t.Errorf("got %v, want %s, not counted", err, c.class)
			}
		})
	}
}

func TestWorkerMayAnswerInAnyOrder(t *testing.T) {
	t.Parallel()
	l := worker(t, time.Minute, `read a; read b; echo "{\"id\":2,\"allowed\":false}"; echo "{\"id\":1,\"allowed\":true}"; read end`)
	var allowed, denied int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			d, err := l.Check(t.Context(), "client", 1)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case d.Allowed:
				allowed++
			default:
				denied++
			}
		})
	}
	wg.Wait()
	if allowed != 1 || denied != 1 {
		t.Errorf("%d allowed, %d denied; want one of each", allowed, denied)
	}
}

// A late answer to a request that was given up is nobody's, and no fault.
func TestWorkerMayBeLate(t *testing.T) {
	t.Parallel()
	l := worker(t, time.Minute, `read a; echo "{\"id\":1,\"allowed\":true}"; read b; read c; `+
		`echo "{\"id\":2,\"allowed\":true}"; echo "{\"id\":3,\"allowed\":false}"; read end`)
	if _, err := l.Check(t.Context(), "client", 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Check(ctx, "client", 1); err == nil || !limiter.Counted(err) {
		t.Errorf("a request that was given up: %v, want one that may have counted", err)
	}
	d, err := l.Check(t.Context(), "client", 1)
	if err != nil || d.Allowed {
		t.Errorf("got %+v, %v; want the third answer", d, err)
	}
}

func TestWorkerBeginsAnew(t *testing.T) {
	t.Parallel()
	l := command(t, time.Minute, `sh -c 'while read x; do case $x in *open*) echo "{\"ready\":true,\"protocol\":\"rlctl.worker/v1\"}"; n=0;; `+
		`*dies*) exit 1;; *) n=$((n+1)); id=${x#*:}; echo "{\"id\":${id%%,*},\"allowed\":true,\"remaining\":$n}";; esac; done'`)
	ask := func(key string) int64 {
		t.Helper()
		d, err := l.Check(t.Context(), key, 1)
		if err != nil {
			t.Fatal(err)
		}
		return d.Remaining
	}
	ask("client")
	if n := ask("client"); n != 2 {
		t.Fatalf("the second request was number %d of the worker's", n)
	}
	l.(outside.Renewer).Renew()
	if n := ask("client"); n != 1 {
		t.Errorf("after a new beginning the request was number %d", n)
	}
	if _, err := l.Check(t.Context(), "dies", 1); err == nil {
		t.Fatal("a dead worker answered")
	}
	if _, err := l.Check(t.Context(), "client", 1); err == nil {
		t.Error("a worker that had died was started again, which could charge twice")
	}
	l.(outside.Renewer).Renew()
	if n := ask("client"); n != 1 {
		t.Errorf("after its death and a new beginning the request was number %d", n)
	}
}

func TestWorkerIsToldNoPasswordByItsEnvironment(t *testing.T) {
	t.Setenv("RLCTL_URL", "redis://:secret@host")
	t.Setenv("REDISCLI_AUTH", "secret")
	l := command(t, time.Minute, `sh -c 'read open; env | grep -c secret >&2; exit 1'`)
	if _, err := l.Check(t.Context(), "client", 1); err == nil || !strings.HasSuffix(err.Error(), ": 0") {
		t.Errorf("%v, want no line of its environment", err)
	}
}

// The worker's own children go with it.
func TestWorkerIsEnded(t *testing.T) {
	t.Parallel()
	in := filepath.Join(t.TempDir(), "child")
	l := worker(t, 10*time.Millisecond, fmt.Sprintf(`sleep 1000 & echo $! > %s; wait`, in))
	if _, err := l.Check(t.Context(), "client", 1); err == nil {
		t.Fatal("it answered")
	}
	text, err := os.ReadFile(in)
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); syscall.Kill(child, 0) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d goes on", child)
		}
	}
}

func TestWorkerIsToldWhereRedisIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options redis.Options
		want    string
	}{
		"host":     {redis.Options{Addr: "127.0.0.1:7000", DB: 3}, "redis://127.0.0.1:7000/3"},
		"socket":   {redis.Options{Network: "unix", Addr: "/run/r.sock", DB: 2}, "unix:///run/r.sock?db=2"},
		"password": {redis.Options{Addr: "127.0.0.1:7000", Password: "p/w"}, "redis://:***@127.0.0.1:7000/0"},
		"user":     {redis.Options{Addr: "127.0.0.1:7000", Username: "usr", Password: "pwd"}, "redis://usr:***@127.0.0.1:7000/0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, err := outside.Open(`exec:sh -c 'read open; echo "$open" >&2; exit 1'`, outside.Terms{As: "gcra"})
			if err != nil {
				t.Fatal(err)
			}
			c.options.Dialer = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("not here") }
			rdb := redis.NewClient(&c.options)
			defer rdb.Close()
			l, err := kind.New(rdb, limiter.Limit{Events: 7, Window: time.Second, Burst: 3}, limiter.WithPrefix("p"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = l.Check(t.Context(), "client", 1)
			want := `"redis":"` + c.want + `","timeout_ms":5000,"limiter":"gcra","limit":7,"window_us":1000000,"burst":3,"prefix":"p"`
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("it was told %v, want %s", err, want)
			}
		})
	}
}
