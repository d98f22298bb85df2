package outside

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/httplimit"
	"github.com/rlctl/rlctl/pkg/limiter"
)

func TestHeadersAreRead(t *testing.T) {
	t.Parallel()
	now := time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC) // 1700000000
	const s = time.Second
	type fields map[string]string
	for _, c := range []struct {
		headers fields
		want    said
	}{
		{fields{}, said{limiter.Untold, 0, 0}},
		{fields{"Retry-After": "120"}, said{limiter.Untold, 120 * s, 0}},
		{fields{"Retry-After": "0"}, said{limiter.Untold, 0, 0}},
		{fields{"Retry-After": "-3"}, said{limiter.Untold, 0, 0}},
		{fields{"Retry-After": "soon"}, said{limiter.Untold, 0, 0}},
		{fields{"Retry-After": "Tue, 14 Nov 2023 22:13:50 GMT"}, said{limiter.Untold, 30 * s, 0}},
		{fields{"Retry-After": "Tue, 14 Nov 2023 22:13:50 GMT", "Date": "Tue, 14 Nov 2023 22:13:49 GMT"}, said{limiter.Untold, s, 0}},
		{fields{"Retry-After": "Tue, 14 Nov 2023 22:13:00 GMT"}, said{limiter.Untold, 0, 0}},
		{fields{"RateLimit": `"default";r=50;t=30`}, said{50, 0, 30 * s}},
		{fields{"RateLimit": `"burst";r=10;t=1, "day; r=1, t=2";t=86400;r=4`}, said{4, 0, 86400 * s}},
		{fields{"RateLimit": `"a\"b;r=1";r=3`}, said{3, 0, 0}},
		{fields{"RateLimit": `limit=100, remaining=7, reset=5`}, said{7, 0, 5 * s}},
		{fields{"RateLimit": `"default";r=-1;t=30`}, said{limiter.Garbled, 0, 30 * s}},
		{fields{"RateLimit": `"default";t=30`}, said{limiter.Untold, 0, 0}},
		{fields{"RateLimit": `"`}, said{limiter.Untold, 0, 0}},
		{fields{"RateLimit-Limit": "9", "RateLimit-Remaining": "8", "RateLimit-Reset": "7"}, said{8, 0, 7 * s}},
		{fields{"RateLimit-Remaining": "8", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "2"}, said{8, 0, 0}},
		{fields{"X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "1700000042"}, said{1, 0, 42 * s}},
		{fields{"X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "1699999999"}, said{1, 0, 0}},
		{fields{"X-RateLimit-Remaining": "-1"}, said{limiter.Garbled, 0, 0}},
		{fields{"X-RateLimit-Remaining": "many"}, said{limiter.Garbled, 0, 0}},
		{fields{"X-RateLimit-Reset": "3"}, said{limiter.Untold, 0, 3 * s}},
		{fields{"X-RateLimit-Remaining": "99999999999999999999"}, said{limiter.Garbled, 0, 0}},
	} {
		h := http.Header{}
		for name, value := range c.headers {
			h.Set(name, value)
		}
		if got := readHeaders(h, now); got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.headers, got, c.want)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add("7", `"default";r=50;t=30, "b";r=1`, "8", "1700000042")
	f.Fuzz(func(t *testing.T, retry, list, remaining, reset string) {
		h := http.Header{}
		h.Set("Retry-After", retry)
		h.Set("RateLimit", list)
		h.Set("X-RateLimit-Remaining", remaining)
		h.Set("X-RateLimit-Reset", reset)
		if s := readHeaders(h, time.Now()); s.retry < 0 || s.reset < 0 || s.remaining < limiter.Garbled {
			t.Errorf("got %+v", s)
		}
	})
}

// What the middleware writes is read back as it was meant: names and units are the same on both sides.
func TestReadsWhatHTTPLimitWrites(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		decision limiter.Decision
		want     said
	}{
		{limiter.Decision{Allowed: true, Remaining: 99, ResetAfter: time.Minute}, said{99, 0, time.Minute}},
		{limiter.Decision{Allowed: true, ResetAfter: 1}, said{0, 0, time.Second}},
		{limiter.Decision{Remaining: 3, RetryAfter: 41_000_001 * time.Microsecond, ResetAfter: time.Hour},
			said{3, 42 * time.Second, 42 * time.Second}},
		{limiter.Decision{Remaining: 3, RetryAfter: limiter.Never, ResetAfter: time.Hour}, said{3, 0, time.Hour}},
		{limiter.Decision{Remaining: limiter.Untold, RetryAfter: time.Second, Degraded: true}, said{limiter.Untold, time.Second, 0}},
	} {
		around, err := httplimit.New(
			limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) { return c.decision, nil }),
			httplimit.Options{
				Name: "per-minute", Limit: limiter.Limit{Events: 100, Window: time.Minute},
				Key: func(*http.Request) (string, error) { return "client-1", nil },
			})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		around(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
		if got := readHeaders(w.Result().Header, time.Now()); got != c.want {
			t.Errorf("%+v: read %+v from %v", c.decision, got, w.Result().Header)
		}
	}
}
