package httplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/httplimit"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
)

var perMinute = limiter.Limit{Events: 100, Window: time.Minute}

// says is a limiter that always answers this.
func says(d limiter.Decision, err error) limiter.Limiter {
	return limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) { return d, err })
}

func key(r *http.Request) (string, error) { return r.Header.Get("X-Api-Key"), nil }

// options are those that most tests begin with.
func options() httplimit.Options {
	return httplimit.Options{Name: "default", Limit: perMinute, Key: key}
}

// passed is the handler behind the limiter.
var passed = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "passed") })

func behind(t testing.TB, l limiter.Limiter, o httplimit.Options) http.Handler {
	t.Helper()
	around, err := httplimit.New(l, o)
	if err != nil {
		t.Fatal(err)
	}
	return around(passed)
}

// asked is the answer to a request of client-1.
func asked(t testing.TB, h http.Handler) *http.Response {
	t.Helper()
	return askedAs(t, h, "client-1")
}

func askedAs(t testing.TB, h http.Handler, client string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	r.Header.Set("X-Api-Key", client)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func failure(class limiter.Class, unknown bool) error {
	return &limiter.Error{Limiter: "gcra", Class: class, Unknown: unknown, Err: errors.New("hunter2 client-1")}
}

// document is what a problem says.
func document(t *testing.T, r *http.Response) map[string]any {
	t.Helper()
	if kind := r.Header.Get("Content-Type"); kind != "application/problem+json" {
		t.Errorf("content type %q", kind)
	}
	var got map[string]any
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"type", "title", "detail"} {
		if text, _ := got[name].(string); text == "" {
			t.Errorf("%s is missing in %v", name, got)
		}
	}
	if got["status"] != float64(r.StatusCode) {
		t.Errorf("status %v in an answer of %d", got["status"], r.StatusCode)
	}
	return got
}

// Each answer of a limiter has its own.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const policy = `"default";q=100;w=60`
	for name, c := range map[string]struct {
		decision                 limiter.Decision
		err                      error
		status                   int
		kind, fields, retryAfter string
		members                  map[string]any
	}{
		"allowed": {decision: limiter.Decision{Allowed: true, Remaining: 99, ResetAfter: time.Minute}, status: 200,
			fields: `"default";r=99;t=60`},
		"allowed, unused": {decision: limiter.Decision{Allowed: true, Remaining: 100}, status: 200, fields: `"default";r=100;t=0`},
		"allowed, rounded up": {decision: limiter.Decision{Allowed: true, ResetAfter: 1001 * time.Millisecond}, status: 200,
			fields: `"default";r=0;t=2`},
		"allowed, nothing told": {decision: limiter.Decision{Allowed: true, Remaining: limiter.Untold}, status: 200},
		"denied": {decision: limiter.Decision{RetryAfter: 41_000_001 * time.Microsecond, ResetAfter: time.Minute}, status: 429,
			kind: httplimit.QuotaExceeded, fields: `"default";r=0;t=42`, retryAfter: "42",
			members: map[string]any{"remaining": 0., "retry_after_us": 41_000_001., "reset_after_us": 60e6, "degraded": false,
				"cost": 1., "limit": 100., "window_us": 60e6, "burst": 100., "violated-policies": []any{"default"},
				"detail": "the request takes 1, and of 100 there are 0 left; retry in 42 s"}},
		"denied for a microsecond": {decision: limiter.Decision{RetryAfter: time.Microsecond, ResetAfter: time.Minute}, status: 429,
			kind: httplimit.QuotaExceeded, fields: `"default";r=0;t=1`, retryAfter: "1"},
		"denied for whole seconds": {decision: limiter.Decision{Remaining: 2, RetryAfter: 120 * time.Second}, status: 429,
			kind: httplimit.QuotaExceeded, fields: `"default";r=2;t=120`, retryAfter: "120"},
		"never": {decision: limiter.Decision{Remaining: 7, RetryAfter: limiter.Never, ResetAfter: time.Second}, status: 429,
			kind: httplimit.QuotaExceeded, fields: `"default";r=7;t=1`,
			members: map[string]any{"retry_after_us": -1.,
				"detail": "a request of 1 never passes where 100 is the most: waiting does not help"}},
		"denied, no wait told": {decision: limiter.Decision{Remaining: limiter.Untold}, status: 429, kind: httplimit.QuotaExceeded,
			members: map[string]any{"retry_after_us": nil, "remaining": nil, "detail": "the request takes 1"}},
		"open": {decision: limiter.Decision{Allowed: true, Remaining: limiter.Untold, Degraded: true}, status: 200},
		"closed": {decision: limiter.Decision{Remaining: limiter.Untold, RetryAfter: 1500 * time.Millisecond, Degraded: true},
			status: 503, kind: httplimit.LimiterUnavailable, retryAfter: "2",
			members: map[string]any{"remaining": nil, "reset_after_us": nil, "retry_after_us": 1.5e6, "degraded": true}},
		"closed, by whoever": {decision: limiter.Decision{Remaining: 5, RetryAfter: time.Second, ResetAfter: time.Second, Degraded: true},
			status: 503, kind: httplimit.LimiterUnavailable, retryAfter: "1",
			members: map[string]any{"remaining": nil, "reset_after_us": nil, "retry_after_us": 1e6}},
		"failed": {err: failure(limiter.ClassUnreachable, false), status: 503, kind: httplimit.NotDecided,
			members: map[string]any{"counted": "no", "detail": "it was not counted"}},
		"unknown": {err: failure(limiter.ClassNoAnswer, true), status: 503, kind: httplimit.NotDecided,
			members: map[string]any{"counted": "perhaps"}},
		"invalid": {err: limiter.Classify("gcra", &limiter.FieldError{Field: "cost", Problem: "must be small"}, false), status: 400,
			kind: httplimit.NotCountable, members: map[string]any{"detail": "cost must be small"}},
		"invalid, as Redis says": {err: failure(limiter.ClassInvalid, false), status: 400, kind: httplimit.NotCountable,
			members: map[string]any{"detail": "the limiter takes no such request"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := asked(t, behind(t, says(c.decision, c.err), options()))
			if r.StatusCode != c.status || r.Header.Get("RateLimit") != c.fields || r.Header.Get("Retry-After") != c.retryAfter ||
				r.Header.Get("RateLimit-Policy") != policy {
				t.Errorf("%d, %v", r.StatusCode, r.Header)
			}
			if c.status == 200 {
				if body, _ := io.ReadAll(r.Body); string(body) != "passed" {
					t.Errorf("%q", body)
				}
				return
			}
			if r.Header.Get("Cache-Control") != "no-store" {
				t.Error("a cache may keep it")
			}
			got := document(t, r)
			if got["type"] != c.kind {
				t.Errorf("type %v", got["type"])
			}
			for member, want := range c.members {
				if value, there := got[member]; !there || !reflect.DeepEqual(value, want) {
					t.Errorf("%s is %v, want %v", member, value, want)
				}
			}
			if text := strings.ToLower(r.Status + got["detail"].(string)); strings.Contains(text, "hunter2") || strings.Contains(text, "client-1") {
				t.Errorf("it tells what Redis said: %s", text)
			}
		})
	}
}

// What is announced is what the limit is, in units that clients read.
func TestPolicyFields(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]limiter.Limit{
		`"default";q=100;w=60`:                 perMinute,
		`"default";q=0;w=1`:                    {Window: time.Second},
		`"default";q=10`:                       {Events: 10, Window: 1500 * time.Millisecond},
		`"default";q=5;w=86400`:                {Events: 5, Window: 24 * time.Hour},
		`"default";q=50;w=10;rlctl-burst=20`:   {Events: 50, Window: 10 * time.Second, Burst: 20},
		`"default";q=20;w=10`:                  {Events: 20, Window: 10 * time.Second, Burst: 20},
		`"default";q=1000000000;w=31622400`:    {Events: limiter.MaxEvents, Window: limiter.MaxWindow},
		`"default";q=1;rlctl-burst=1000000000`: {Events: 1, Window: time.Millisecond, Burst: limiter.MaxEvents},
	} {
		o := options()
		o.Limit = l
		if got := asked(t, behind(t, says(limiter.Decision{Allowed: true}, nil), o)).Header.Get("RateLimit-Policy"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A key that cannot be used is refused before the limiter is asked, and so is a cost.
func TestUnusableRequests(t *testing.T) {
	t.Parallel()
	unasked := limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
		t.Error("the limiter was asked")
		return limiter.Decision{}, nil
	})
	o := options()
	o.MaxKey = 8
	bad := options()
	bad.Cost = func(*http.Request) (int64, error) { return 0, errors.New(`cost "x" is none`) }
	nobody := options()
	nobody.Key = func(*http.Request) (string, error) { return "", errors.New("who are you?") }
	for _, c := range []struct {
		options     httplimit.Options
		key, detail string
	}{
		{o, "", "the request names no key to count it for"},
		{o, "123456789", "the key has more than 8 bytes"},
		{options(), strings.Repeat("k", httplimit.DefaultMaxKey+1), "the key has more than 4096 bytes"},
		{bad, "a", `cost "x" is none`},
		{nobody, "a", "who are you?"},
	} {
		r := askedAs(t, behind(t, unasked, c.options), c.key)
		if got := document(t, r); r.StatusCode != 400 || got["type"] != httplimit.NotCountable || got["detail"] != c.detail {
			t.Errorf("%d, %v", r.StatusCode, got)
		}
	}
	if r := askedAs(t, behind(t, says(limiter.Decision{Allowed: true}, nil), o), "12345678"); r.StatusCode != 200 {
		t.Errorf("a key of the longest length: %d", r.StatusCode)
	}
}

// In shadow mode nothing is refused and nothing claimed, and the hook hears what would have been.
func TestShadow(t *testing.T) {
	t.Parallel()
	for want, l := range map[int]limiter.Limiter{
		0: says(limiter.Decision{Allowed: true}, nil), 429: says(limiter.Decision{RetryAfter: time.Second}, nil),
		503: says(limiter.Decision{}, failure(limiter.ClassOOM, false)), 400: says(limiter.Decision{}, failure(limiter.ClassInvalid, false)),
	} {
		var heard []httplimit.Answer
		o := options()
		o.Shadow = true
		o.Decided = func(_ *http.Request, a httplimit.Answer) { heard = append(heard, a) }
		r := asked(t, behind(t, l, o))
		body, _ := io.ReadAll(r.Body)
		if r.StatusCode != 200 || string(body) != "passed" || r.Header.Get("RateLimit")+r.Header.Get("RateLimit-Policy")+r.Header.Get("Retry-After") != "" {
			t.Errorf("%d: %d %q %v", want, r.StatusCode, body, r.Header)
		}
		if len(heard) != 1 || heard[0].Status != want || heard[0].Key != "client-1" {
			t.Errorf("%d: heard %+v", want, heard)
		}
	}
	o := options()
	o.Shadow = true
	if r := askedAs(t, behind(t, says(limiter.Decision{}, nil), o), ""); r.StatusCode != 200 {
		t.Errorf("no key: %d", r.StatusCode)
	}
}

// Key and cost are the limiter's, what it answers the hook's and the handler's.
func TestWhatGoesAround(t *testing.T) {
	t.Parallel()
	want := limiter.Decision{Allowed: true, Remaining: 4, ResetAfter: time.Minute}
	l := limiter.Func(func(_ context.Context, key string, cost int64) (limiter.Decision, error) {
		if key != "client-1" || cost != 7 {
			t.Errorf("asked for %q, %d", key, cost)
		}
		return want, nil
	})
	var heard httplimit.Answer
	o := options()
	o.Cost = func(*http.Request) (int64, error) { return 7, nil }
	o.Decided = func(_ *http.Request, a httplimit.Answer) { heard = a }
	for _, o.Tell = range []bool{false, true} {
		around, err := httplimit.New(l, o)
		if err != nil {
			t.Fatal(err)
		}
		asked(t, around(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			a, ok := httplimit.AnswerOf(r.Context())
			if ok != o.Tell || ok && a != heard {
				t.Errorf("%+v, %v; heard %+v", a, ok, heard)
			}
		})))
		if heard != (httplimit.Answer{Key: "client-1", Cost: 7, Decision: want}) {
			t.Errorf("heard %+v", heard)
		}
	}
}

// A client that hangs up takes nothing back, and a Redis that is silent for longer than it waits is told of.
func TestClientHangsUp(t *testing.T) {
	t.Parallel()
	type word struct{}
	for _, failed := range []error{nil, failure(limiter.ClassNoAnswer, true)} {
		told := 0
		guarded, err := policy.New(limiter.Func(func(ctx context.Context, _ string, _ int64) (limiter.Decision, error) {
			if _, bounded := ctx.Deadline(); ctx.Err() != nil || !bounded || ctx.Value(word{}) != "kept" {
				t.Errorf("asked with %v", ctx)
			}
			return limiter.Decision{Allowed: true}, failed
		}), policy.Policy{
			Mode: policy.Open, Timeout: time.Minute, Failed: func(context.Context, error) { told++ },
		})
		if err != nil {
			t.Fatal(err)
		}
		gone, hangUp := context.WithCancel(context.WithValue(t.Context(), word{}, "kept"))
		hangUp()
		o := options()
		o.Decided = func(r *http.Request, a httplimit.Answer) {
			if !a.Decision.Allowed || a.Decision.Degraded != (failed != nil) || r.Context().Err() == nil {
				t.Errorf("%+v for %v", a, failed)
			}
		}
		r := httptest.NewRequestWithContext(gone, "GET", "/", nil)
		r.Header.Set("X-Api-Key", "client-1")
		behind(t, guarded, o).ServeHTTP(httptest.NewRecorder(), r)
		if told == 1 != (failed != nil) {
			t.Errorf("told of %d failures", told)
		}
	}
}

// The handler has the server's own ResponseWriter, with all that it can do: flushing, hijacking, deadlines.
func TestWriterIsPassedOn(t *testing.T) {
	t.Parallel()
	around, err := httplimit.New(says(limiter.Decision{Allowed: true}, nil), options())
	if err != nil {
		t.Fatal(err)
	}
	mine := httptest.NewRecorder()
	h := around(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if w != http.ResponseWriter(mine) {
			t.Errorf("it is a %T", w)
		}
	}))
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	r.Header.Set("X-Api-Key", "client-1")
	h.ServeHTTP(mine, r)
}

// Two limiters in a row tell of both, and spoil nothing for other requests.
func TestTwoInARow(t *testing.T) {
	t.Parallel()
	day := httplimit.Options{Name: "day", Limit: limiter.Limit{Events: 1000, Window: 24 * time.Hour}, Key: key}
	outer, err := httplimit.New(says(limiter.Decision{Allowed: true, Remaining: 500, ResetAfter: time.Hour}, nil), day)
	if err != nil {
		t.Fatal(err)
	}
	h := outer(behind(t, says(limiter.Decision{RetryAfter: time.Second}, nil), options()))
	for range 3 {
		got := asked(t, h).Header
		want := http.Header{
			"Ratelimit":        {`"day";r=500;t=3600`, `"default";r=0;t=1`},
			"Ratelimit-Policy": {`"day";q=1000;w=86400`, `"default";q=100;w=60`},
		}
		for name := range want {
			if !reflect.DeepEqual(got[name], want[name]) {
				t.Errorf("%s: %q, want %q", name, got[name], want[name])
			}
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*httplimit.Options){
		"Name":   func(o *httplimit.Options) { o.Name = `a"b` },
		"Name ":  func(o *httplimit.Options) { o.Name = "" },
		"Key":    func(o *httplimit.Options) { o.Key = nil },
		"MaxKey": func(o *httplimit.Options) { o.MaxKey = 65537 },
		"Limit":  func(o *httplimit.Options) { o.Limit.Window = 0 },
	} {
		o := options()
		change(&o)
		if around, err := httplimit.New(says(limiter.Decision{}, nil), o); err == nil || around != nil || !strings.Contains(err.Error(), strings.TrimSpace(field)) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A type of problem that nobody registered leads to where it is explained.
func TestProblemsAreExplained(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{httplimit.LimiterUnavailable, httplimit.NotDecided, httplimit.NotCountable} {
		_, anchor, _ := strings.Cut(kind, "docs/http.md#")
		if anchor == "" || !strings.Contains(string(page), "\n### "+anchor+"\n") {
			t.Errorf("docs/http.md has no section %q", anchor)
		}
	}
}

// quiet is a ResponseWriter that allocates nothing.
type quiet struct{ header http.Header }

func (q quiet) Header() http.Header         { return q.header }
func (q quiet) Write(p []byte) (int, error) { return len(p), nil }
func (q quiet) WriteHeader(int)             {}

// prices are what a request costs beside its handler and its limiter, in allocations.
var prices = []struct {
	name     string
	decision limiter.Decision
	tell     bool
	allocs   float64
}{
	{"allowed", limiter.Decision{Allowed: true, Remaining: 99, ResetAfter: time.Minute}, false, 3},
	{"allowed and told", limiter.Decision{Allowed: true, Remaining: 99, ResetAfter: time.Minute}, true, 6},
	{"denied", limiter.Decision{RetryAfter: 1000 * time.Second, ResetAfter: time.Hour}, false, 6},
	{"open", limiter.Decision{Allowed: true, Remaining: limiter.Untold, Degraded: true}, false, 1},
}

// requester returns a function that sends one request through the middleware.
func requester(t testing.TB, d limiter.Decision, tell bool) func() {
	o := options()
	o.Tell = tell
	around, err := httplimit.New(says(d, nil), o)
	if err != nil {
		t.Fatal(err)
	}
	h := around(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	r.Header.Set("X-Api-Key", "client-1")
	w := quiet{http.Header{}}
	return func() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}

func TestAllocations(t *testing.T) {
	for _, p := range prices {
		if n := testing.AllocsPerRun(100, requester(t, p.decision, p.tell)); n > p.allocs {
			t.Errorf("%s: %v allocations, want %v", p.name, n, p.allocs)
		}
	}
}

func BenchmarkMiddleware(b *testing.B) {
	for _, p := range prices {
		b.Run(p.name, func(b *testing.B) {
			ask := requester(b, p.decision, p.tell)
			b.ReportAllocs()
			for b.Loop() {
				ask()
			}
		})
	}
}
