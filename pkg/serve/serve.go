// Package serve puts one limiter behind HTTP.
//
//	GET /check?key=KEY&cost=N   takes N events (1 if not said) of KEY: what package httplimit answers, and of what passes
//	                            the decision, as rlctl check tells it
//	GET /metrics                what package metrics counts, for Prometheus
//	GET /healthz                200 as long as this process can answer, and whether Redis does
//
// # Health
//
// /healthz is about this process, and says 200 whatever Redis does. A probe that failed with Redis would have every
// instance restarted at once, which mends nothing and takes away the policy's answers while it lasts. Whether Redis
// answers is in the body, and in ratelimit_failures_total, for those who are to be called. It is found out once a second
// in the background, by a peek of the limiter itself, which needs no right that the limiter does not: so a probe costs
// Redis nothing, and is answered at once when Redis is slow.
//
// # Clients that are slow
//
// Each connection is a goroutine and its buffers, and holds nothing else: neither a connection to Redis nor a lock. So
// one that sends a byte a minute, never sends its body or never reads its answer costs memory until its time is over,
// and no other client anything. Bodies are not read at all: who sends one is answered, and cut off.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/httplimit"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/metrics"
	"github.com/rlctl/rlctl/pkg/policy"
	"github.com/rlctl/rlctl/pkg/target"
)

// The bounds of a client.
const (
	maxHeader = 16 << 10         // bytes of the request line and headers; net/http allows 4 KiB more
	readTime  = 5 * time.Second  // for all of a request, from its first byte
	writeTime = 5 * time.Second  // for the answer, beside what the limiter takes
	idleTime  = 2 * time.Minute  // between two requests of a connection
	graceTime = 10 * time.Second // for requests that are under way when the service is stopped
)

// Plan is one limiter behind HTTP.
type Plan struct {
	Limiter string // name in the catalogue
	Limit   limiter.Limit
	Prefix  string
	Conn    target.Conn
	Policy  policy.Policy // its hook is the service's own
	Listen  string        // HOST:PORT; port 0 takes a free one
	Shadow  bool          // let everything pass, and only count

	// Hurry, if not nil, ends the wait for what is under way when the service is stopped.
	Hurry context.Context
	// Why puts what Redis or the network said into a few words; nil takes all of it.
	Why func(error) string

	DenyEntries int           // refusals that are answered from memory; 0 is none
	DenyMaxAge  time.Duration // of one; 0 is the cache's own

	Log   *slog.Logger
	Ready func(url string) error // is told where the service is, when it can be reached
}

// ListenError is an address that cannot be had.
type ListenError struct {
	Address string
	Err     error
}

func (e *ListenError) Error() string { return "listen on " + e.Address + ": " + e.Err.Error() }

// Unwrap returns what the system said.
func (e *ListenError) Unwrap() error { return e.Err }

// ErrCutOff says that requests were still under way when the time for stopping was over.
var ErrCutOff = errors.New("requests were cut off")

// why puts a failed call into words.
func (p Plan) why(err error) string {
	if p.Why == nil {
		return err.Error()
	}
	return p.Why(err)
}

// Validate names the flag at fault.
func (p Plan) Validate(catalogue []target.Entry) error {
	entry, err := target.Find(catalogue, p.Limiter)
	switch {
	case err != nil:
		return fmt.Errorf("--limiter: %w", err)
	case p.DenyEntries < 0 || p.DenyEntries > policy.MaxDenyEntries:
		return fmt.Errorf("--deny-cache: want 0 to %d, got %d", policy.MaxDenyEntries, p.DenyEntries)
	case p.DenyEntries > 0 && entry.Rule.AtOnce:
		return fmt.Errorf("--deny-cache: %s may let a client pass before its wait is over, when somebody releases", entry.Name)
	case p.DenyEntries > 0 && entry.Rule.Recalls:
		return fmt.Errorf("--deny-cache: %s remembers refusals by itself", entry.Name)
	}
	if _, _, err := net.SplitHostPort(p.Listen); err != nil {
		return errors.New("--listen: want HOST:PORT")
	}
	return p.Policy.Validate()
}

// Run serves until ctx is done, and then answers what is under way. It is nil if that could be done, and ErrCutOff if
// not. Else the error is a *ListenError, or the *limiter.Error of a limit that the limiter does not take. A Redis that
// cannot be reached is none: requests are answered by the policy until it can.
func (p Plan) Run(ctx context.Context, catalogue []target.Entry) error {
	if err := p.Validate(catalogue); err != nil {
		return err
	}
	entry, err := target.Find(catalogue, p.Limiter)
	if err != nil {
		return err
	}
	if entry.Rule.Capacity(p.Limit) != p.Limit.Capacity() {
		p.Limit.Burst = 0 // or it would be told to clients
		p.Log.Warn("--burst is ignored: the limiter is no bucket", "limiter", entry.Name)
	}
	p.caution(entry)
	rdb, err := p.Conn.Open(0)
	if err != nil {
		return err
	}
	defer rdb.Close()
	listener, err := net.Listen("tcp", p.Listen)
	if err != nil {
		return &ListenError{p.Listen, err}
	}
	defer listener.Close()
	lines := metrics.NewLines(p.Log, metrics.NewRedactor())
	handler, h, err := p.handler(rdb, entry, lines)
	if err != nil {
		return err
	}
	polling, stop := context.WithCancel(context.Background())
	defer stop()
	go h.poll(polling)
	begun, err := p.serve(ctx, listener, newServer(handler, p.Policy.Timeout, p.Log), graceTime)
	stop()
	lines.Close()
	p.ended(begun, err)
	return err
}

// caution warns of a limiter that does not do what a service wants.
func (p Plan) caution(e target.Entry) {
	if !e.Own() && e.Outside == nil {
		p.Log.Warn("the limiter is for experiments: its flaw is on purpose", "limiter", e.Name, "flaw", e.Flaw, "instead", e.Twin)
	}
	if e.Rule.Recalls {
		p.Log.Warn("refusals from memory are not in ratelimit_recalled_total: they are with --deny-cache",
			"limiter", e.Name)
	}
	if e.Rule.AtOnce {
		p.Log.Warn("a slot comes back when its lease ends, and not before: nobody can release it here", "limiter", e.Name, "lease", p.Limit.Window)
	}
}

// handler is the whole service.
func (p Plan) handler(rdb redis.UniversalClient, e target.Entry, lines *metrics.Lines) (http.Handler, *health, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m, err := metrics.New(registry)
	if err != nil {
		return nil, nil, err
	}
	bare, err := e.New(rdb, p.Limit, limiter.WithPrefix(p.Prefix), limiter.WithLoaded(m.Loaded(e.Name)))
	if err != nil {
		return nil, nil, err
	}
	p.Policy.Failed = m.Failed(e.Name)
	p.Policy.Breaker.Opened = p.rested
	guarded, err := policy.New(lines.Limiter(e.Name, bare), p.Policy)
	if err != nil {
		return nil, nil, err
	}
	bad := m.Bad(e.Name)
	remembered, err := p.remembered(guarded, m.Recalled(e.Name))
	if err != nil {
		return nil, nil, err
	}
	around, err := httplimit.New(m.Limiter(e.Name, remembered), httplimit.Options{
		Name: e.Name, Limit: p.Limit, Key: key, Cost: cost, Shadow: p.Shadow, Tell: true, Decided: counted(bad),
	})
	if err != nil {
		return nil, nil, err
	}
	h := newHealth(bare, p)
	mux := http.NewServeMux()
	mux.Handle("/check", get(around(checked{e.Name, p.Limit}), bad))
	mux.Handle("/metrics", get(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), bad))
	mux.Handle("/healthz", get(h, bad))
	mux.HandleFunc("/", elsewhere(bad))
	return mux, h, nil
}

// remembered is the limiter behind a deny cache, if there is to be one: around the policy, so that a refusal from memory
// needs no deadline.
func (p Plan) remembered(l limiter.Limiter, answered func()) (limiter.Limiter, error) {
	if p.DenyEntries == 0 {
		return l, nil
	}
	return policy.WithDenyCache(l, policy.DenyCache{Entries: p.DenyEntries, MaxAge: p.DenyMaxAge, Answered: answered})
}

// newServer bounds what clients may send, and for how long. The limiter may take timeout.
func newServer(h http.Handler, timeout time.Duration, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: unread(h), MaxHeaderBytes: maxHeader,
		ReadTimeout: readTime, WriteTimeout: writeTime + timeout, IdleTimeout: idleTime,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// unread answers a request without waiting for its body, and ends its connection.
func unread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// serve answers until ctx is done, and then, within the grace, all that have asked. It returns when it began to stop.
func (p Plan) serve(
	ctx context.Context, listener net.Listener, server *http.Server, grace time.Duration,
) (stopping time.Time, err error) {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	p.announce(listener.Addr())
	if err := p.Ready("http://" + listener.Addr().String()); err != nil {
		_ = server.Close()
		return stopping, err
	}
	select {
	case err := <-ended:
		return stopping, fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	p.Log.Info("stopping", "why", context.Cause(ctx))
	stopping = time.Now()
	hurry := p.Hurry
	if hurry == nil {
		hurry = context.Background()
	}
	within, cancel := context.WithTimeout(hurry, grace)
	defer cancel()
	if server.Shutdown(within) != nil {
		_ = server.Close()
		return stopping, ErrCutOff
	}
	return stopping, nil
}

// ended is the last line of the log.
func (p Plan) ended(stopping time.Time, err error) {
	switch {
	case err == nil:
		p.Log.Info("stopped, and all requests were answered")
	case errors.Is(err, ErrCutOff):
		p.Log.Warn("stopped, and requests were cut off", "after", time.Since(stopping).Round(time.Millisecond))
	}
}

// rested tells that a breaker begins to leave Redis alone, or ends to.
func (p Plan) rested(open bool) {
	if open {
		p.Log.Warn("breaker open: redis is left alone", "after_silent_calls", p.Policy.Breaker.Failures, "for", p.Policy.Breaker.Pause)
		return
	}
	p.Log.Info("breaker closed: redis is asked again")
}

func (p Plan) announce(at net.Addr) {
	about := []any{"at", at.String(), "limiter", p.Limiter, "limit", p.Limit.Events, "window", p.Limit.Window,
		"burst", p.Limit.Capacity(), "redis", p.Conn, "on_failure", p.Policy.Mode, "timeout", p.Policy.Timeout, "shadow", p.Shadow}
	if b := p.Policy.Breaker; b.Failures > 0 {
		about = append(about, "breaker_after", b.Failures, "breaker_for", b.Pause)
	}
	if p.DenyEntries > 0 {
		about = append(about, "deny_cache", p.DenyEntries, "deny_cache_age", p.DenyMaxAge)
	}
	p.Log.Info("serving", about...)
	if tcp, ok := at.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		p.Log.Warn("others than this machine can take from every client's limit, and nobody is asked who they are")
	}
}
