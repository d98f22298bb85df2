package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/metrics"
	"github.com/rlctl/rlctl/pkg/policy"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
)

// TestMain keeps go-redis from writing what it also returns.
func TestMain(m *testing.M) {
	logging.Disable()
	m.Run()
}

const timeout = 200 * time.Millisecond

// rig is a gcra of three an hour on a server of its own, and the registry that tells of it.
type rig struct {
	*testing.T
	server   *redisd.Server
	rdb      *redis.Client
	registry *prometheus.Registry
	metrics  *metrics.Metrics
	limiter  limiter.Limiter
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, server: redisdtest.Start(t, redisd.Options{}), registry: prometheus.NewRegistry()}
	r.rdb = redis.NewClient(&redis.Options{
		Network: "unix", Addr: r.server.Socket(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, PoolSize: 64,
	})
	t.Cleanup(func() { r.rdb.Close() })
	r.metrics = registered(t, r.registry)
	var err error
	r.limiter, err = limiter.New(r.rdb, "gcra", limiter.Limit{Events: 3, Window: time.Hour},
		limiter.WithLoaded(r.metrics.Loaded("gcra")))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func registered(t *testing.T, registry *prometheus.Registry) *metrics.Metrics {
	m, err := metrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// under is the limiter in that mode, counted as name.
func (r *rig) under(name string, mode policy.Mode) limiter.Limiter {
	l, err := policy.New(r.limiter, policy.Policy{Mode: mode, Timeout: timeout, Failed: r.metrics.Failed(name)})
	if err != nil {
		r.Fatal(err)
	}
	return r.metrics.Limiter(name, l)
}

// ask asks n times for one event.
func (r *rig) ask(l limiter.Limiter, key string, n int) {
	for range n {
		_, _ = l.Check(r.Context(), key, 1)
	}
}

// values are the numbers of a registry that are not 0, but for latencies: NAME{LABELS} VALUE.
func values(t *testing.T, registry *prometheus.Registry) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(scrape(t, registry)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "#") && !strings.HasSuffix(line, " 0") &&
			!strings.Contains(line, "seconds_bucket") && !strings.Contains(line, "seconds_sum") {
			all[line] = true
		}
	}
	return all
}

func scrape(t *testing.T, registry *prometheus.Registry) string {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	return w.Body.String()
}

// want holds the numbers that are not 0 against all that there may be.
func (r *rig) want(numbers ...string) {
	r.Helper()
	got := values(r.T, r.registry)
	for _, n := range numbers {
		if !got["ratelimit_"+n] {
			r.Errorf("%s is missing", n)
		}
		delete(got, "ratelimit_"+n)
	}
	for n := range got {
		r.Errorf("%s is too much", n)
	}
}

// Every outcome is told apart, on a real server that is there, stands still and is gone.
func TestOutcomesOfARealServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	plain, open, closed := r.under("plain", policy.Error), r.under("open", policy.Open), r.under("closed", policy.Closed)
	r.want()
	r.ask(plain, "a", 5)
	if _, err := plain.Check(t.Context(), "", 1); err == nil {
		t.Error("an empty key was taken")
	}
	if err := syscall.Kill(r.server.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.ask(plain, "a", 1) // on the connection that is there: it is sent, and may be counted
	r.server.Kill()
	r.ask(plain, "a", 2)
	r.ask(open, "a", 4)
	r.ask(closed, "a", 3)
	r.want(
		`decisions_total{limiter="plain",outcome="allowed"} 3`, `decisions_total{limiter="plain",outcome="denied"} 2`,
		`decisions_total{limiter="plain",outcome="failed"} 3`, `decisions_total{limiter="plain",outcome="unknown"} 1`,
		`decisions_total{limiter="open",outcome="degraded-allowed"} 4`,
		`decisions_total{limiter="closed",outcome="degraded-denied"} 3`,
		`failures_total{class="no-answer",limiter="plain"} 1`, `failures_total{class="unreachable",limiter="plain"} 2`,
		`failures_total{class="unreachable",limiter="open"} 4`, `failures_total{class="unreachable",limiter="closed"} 3`,
		`script_loads_total{limiter="gcra"} 1`,
		`decision_seconds_count{limiter="plain"} 9`, `decision_seconds_count{limiter="open"} 4`,
		`decision_seconds_count{limiter="closed"} 3`,
	)
}

// A script is counted as loaded when the server was given it, as often as the server counts that.
func TestLoadsAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.metrics.Limiter("gcra", r.limiter) // under no deadline: a load whose answer was lost would count at the server alone
	for range 3 {
		r.rdb.ScriptFlush(t.Context())
		var callers sync.WaitGroup
		for i := range 64 {
			callers.Go(func() { r.ask(l, fmt.Sprint(i), 3) })
		}
		callers.Wait()
	}
	stats := r.rdb.Info(t.Context(), "commandstats").Val()
	loads := regexp.MustCompile(`cmdstat_script\|load:calls=([0-9]+),`).FindStringSubmatch(stats)
	if loads == nil {
		t.Fatalf("no script was loaded:\n%s", stats)
	}
	if got := values(t, r.registry); !got[`ratelimit_script_loads_total{limiter="gcra"} `+loads[1]] {
		t.Errorf("the server counts %s loads, and here are %v", loads[1], got)
	}
	r.rdb.ScriptFlush(t.Context())
	r.rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-script|load")
	before := scrape(t, r.registry)
	if _, err := l.Check(t.Context(), "a", 1); err == nil {
		t.Error("decided by a script that was not loaded")
	}
	if line := regexp.MustCompile(`(?m)^ratelimit_script_loads_total\S* .*$`).FindString(before); !strings.Contains(scrape(t, r.registry), line) {
		t.Error("a load that was refused is counted")
	}
}

// What a deny cache answers is a denial like others, and counted beside.
func TestRefusalsFromMemoryAreCounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := registered(t, registry)
	l, err := policy.WithDenyCache(limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
		return limiter.Decision{RetryAfter: time.Hour}, nil
	}), policy.DenyCache{Answered: m.Recalled("x")})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		_, _ = m.Limiter("x", l).Check(t.Context(), "secret", 1)
	}
	got := values(t, registry)
	if !got[`ratelimit_recalled_total{limiter="x"} 4`] || !got[`ratelimit_decisions_total{limiter="x",outcome="denied"} 5`] {
		t.Errorf("%v", got)
	}
}

// fails is a limiter that ends every call in err.
func fails(err error) limiter.Limiter {
	return limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) { return limiter.Decision{}, err })
}

// No key, no address and no class that somebody else made up becomes a label, whatever clients ask for.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := registered(t, registry)
	failed := m.Failed("x")
	for i := range 1000 {
		err := &limiter.Error{Limiter: "http", Class: limiter.Class(fmt.Sprintf("http-%d", i)), Unknown: true, Err: errors.New("secret")}
		_, _ = m.Limiter("x", fails(err)).Check(t.Context(), fmt.Sprint("secret", i), 1)
		failed(t.Context(), err)
		failed(t.Context(), errors.New("secret"))
	}
	page := scrape(t, registry)
	if n := strings.Count(page, "\n"); n > 60 || strings.Contains(page, "secret") || strings.Contains(page, "http-") {
		t.Errorf("%d lines:\n%s", n, page)
	}
	if got := values(t, registry); !got[`ratelimit_failures_total{class="other",limiter="x"} 2000`] ||
		!got[`ratelimit_decisions_total{limiter="x",outcome="unknown"} 1000`] {
		t.Errorf("%v", got)
	}
}

// Latencies fall into buckets from 50 µs to 1 s.
func TestBuckets(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	l := registered(t, registry).Limiter("x", limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
		time.Sleep(2 * time.Millisecond)
		return limiter.Decision{}, nil
	}))
	_, _ = l.Check(t.Context(), "a", 1)
	page := scrape(t, registry)
	for le, n := range map[string]int{"5e-05": 0, "0.001": 0, "+Inf": 1} {
		if !strings.Contains(page, fmt.Sprintf("ratelimit_decision_seconds_bucket{limiter=\"x\",le=\"%s\"} %d\n", le, n)) {
			t.Errorf("not %d in %s:\n%s", n, le, page)
		}
	}
}

func TestARegistryHasTheNumbersOnce(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	registered(t, registry)
	if m, err := metrics.New(registry); err == nil || m != nil {
		t.Error("they were registered twice")
	}
}

// named is a limiter that takes ids.
type named struct {
	limiter.Limiter
	id string
}

func (n *named) CheckID(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
	n.id = id
	return n.Check(ctx, key, cost)
}

func TestIdsPass(t *testing.T) {
	t.Parallel()
	m, lines := registered(t, prometheus.NewRegistry()), newLog().lines()
	for _, around := range []func(string, limiter.Limiter) limiter.Limiter{m.Limiter, lines.Limiter} {
		if _, ok := around("x", fails(nil)).(limiter.Identified); ok {
			t.Error("takes ids that its limiter does not")
		}
		n := &named{Limiter: fails(nil)}
		l, ok := around("x", n).(limiter.Identified)
		if !ok {
			t.Fatal("takes no ids")
		}
		if _, err := l.CheckID(t.Context(), "a", 1, "id-1"); err != nil || n.id != "id-1" {
			t.Errorf("%v, asked with %q", err, n.id)
		}
	}
}

// Counting a call allocates nothing.
func TestCountingAllocatesNothing(t *testing.T) {
	l := newLog().lines().Limiter("x", fails(nil))
	l = registered(t, prometheus.NewRegistry()).Limiter("x", l)
	if n := testing.AllocsPerRun(100, func() { _, _ = l.Check(t.Context(), "a", 1) }); n > 0 {
		t.Errorf("%v allocations a call", n)
	}
}

// A decorator does not hide what the limiter beneath it can do.
func TestPowersBeneathDecorators(t *testing.T) {
	t.Parallel()
	semaphore, err := limiter.NewSemaphore(nil, limiter.Limit{Events: 1, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	numbers := registered(t, prometheus.NewRegistry())
	lines := metrics.NewLines(slog.New(slog.DiscardHandler), metrics.NewRedactor())
	defer lines.Close()
	bare := limiter.Func(semaphore.Check)
	for name, around := range map[string]func(limiter.Limiter) limiter.Limiter{
		"numbers": func(l limiter.Limiter) limiter.Limiter { return numbers.Limiter("x", l) },
		"lines":   func(l limiter.Limiter) limiter.Limiter { return lines.Limiter("x", l) },
	} {
		if found, ok := limiter.As[limiter.Releaser](around(semaphore)); !ok || found != limiter.Releaser(semaphore) {
			t.Errorf("%s: %v, %v", name, found, ok)
		}
		if _, ok := limiter.As[limiter.Releaser](around(bare)); ok {
			t.Errorf("%s: a function releases", name)
		}
	}
}
