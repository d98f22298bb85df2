package outside_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/outside"
)

// service is a limiter that asks what a URL names, which may take so long.
func service(t *testing.T, timeout time.Duration, url string, headers ...string) limiter.Limiter {
	t.Helper()
	kind, err := outside.Open(url, outside.Terms{As: "gcra", Headers: headers})
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

func serve(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

func TestServiceAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code    int
		headers map[string]string
		want    limiter.Decision
	}{
		"allowed":      {200, nil, limiter.Decision{Allowed: true, Remaining: limiter.Untold}},
		"any 2xx":      {299, nil, limiter.Decision{Allowed: true, Remaining: limiter.Untold}},
		"without body": {204, nil, limiter.Decision{Allowed: true, Remaining: limiter.Untold}},
		"denied":       {429, nil, limiter.Decision{Remaining: limiter.Untold}},
		"a wait":       {429, map[string]string{"Retry-After": "7"}, limiter.Decision{Remaining: limiter.Untold, RetryAfter: 7 * time.Second}},
		"no wait":      {200, map[string]string{"Retry-After": "7"}, limiter.Decision{Allowed: true, Remaining: limiter.Untold}},
		"what is left": {200, map[string]string{"RateLimit": `"default";r=3;t=9`},
			limiter.Decision{Allowed: true, Remaining: 3, ResetAfter: 9 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				for name, value := range c.headers {
					w.Header().Set(name, value)
				}
				w.WriteHeader(c.code)
			})
			got, err := service(t, time.Minute, url+"/{key}").Check(t.Context(), "client", 1)
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestServiceFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		class  limiter.Class
	}{
		"an error":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, "http-503"},
		"a refusal":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, "http-403"},
		"no answer":      {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, limiter.ClassNoAnswer},
		"hangs up":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, limiter.ClassNoAnswer},
		"speaks no HTTP": {func(w http.ResponseWriter, _ *http.Request) { raw(w, "hello\r\n\r\n") }, limiter.ClassNoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			url := serve(t, func(w http.ResponseWriter, r *http.Request) { asked.Add(1); c.answer(w, r) })
			_, err := service(t, 100*time.Millisecond, url+"/{key}", "Authorization: Bearer sesame").Check(t.Context(), "client", 1)
			var e *limiter.Error
			if !errors.As(err, &e) || e.Class != c.class || !e.Unknown || asked.Load() != 1 {
				t.Errorf("got %v after %d requests, want class %s, counted, after 1", err, asked.Load(), c.class)
			}
			if strings.Contains(err.Error(), "sesame") {
				t.Errorf("the secret is in %q", err)
			}
		})
	}
}

// raw answers what is no HTTP and hangs up.
func raw(w http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, text)
}

func TestServiceThatIsNotThere(t *testing.T) {
	t.Parallel()
	away, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + away.Addr().String() + "/{key}"
	away.Close()
	for _, cost := range []int64{0, 1} {
		_, err := service(t, time.Minute, url).Check(t.Context(), "client", cost)
		var e *limiter.Error
		if !errors.As(err, &e) || e.Class != limiter.ClassUnreachable || e.Unknown {
			t.Errorf("cost %d: got %v, want unreachable, not counted", cost, err)
		}
	}
}

func TestServiceIsNotFollowedElsewhere(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ask" {
			elsewhere.Add(1)
			return
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	_, err := service(t, time.Minute, url+"/ask?{key}").Check(t.Context(), "client", 1)
	var e *limiter.Error
	if !errors.As(err, &e) || e.Class != "http-307" || elsewhere.Load() != 0 {
		t.Errorf("got %v, and %d requests went elsewhere", err, elsewhere.Load())
	}
}

// A kept connection that dies under a request is no reason to send it again: it may have been counted. The server
// answers the first request of a connection and takes the second one without an answer.
func TestServiceIsAskedOnce(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*net.TCPConn){
		"closed": func(c *net.TCPConn) { c.Close() },
		"reset":  func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { listener.Close() })
			var asked atomic.Int64
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					go answerFirst(conn.(*net.TCPConn), &asked, end)
				}
			}()
			l := service(t, 10*time.Second, "http://"+listener.Addr().String()+"/{key}")
			for i, good := range []bool{true, false, true, false} {
				_, err := l.Check(t.Context(), "client", 1)
				if asked.Load() != int64(i+1) || good != (err == nil) || !good && !limiter.Counted(err) {
					t.Fatalf("request %d: %v, after %d were sent", i+1, err, asked.Load())
				}
			}
		})
	}
}

func answerFirst(conn *net.TCPConn, asked *atomic.Int64, end func(*net.TCPConn)) {
	defer end(conn)
	in := bufio.NewReader(conn)
	for first := true; ; first = false {
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		asked.Add(1)
		if !first {
			return
		}
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
}

// As many callers as there are find each a connection, and keep it.
func TestServiceConnectionsAreKept(t *testing.T) {
	t.Parallel()
	const callers, requests = 8, 20
	var opened, asked atomic.Int64
	var rounds [requests]sync.WaitGroup
	for i := range rounds {
		rounds[i].Add(callers)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		round := &rounds[(asked.Add(1)-1)/callers]
		round.Done()
		round.Wait() // those of a round are under way at once
		if r.ContentLength != 0 || len(r.TransferEncoding) > 0 || r.Method != http.MethodGet {
			t.Errorf("%s with a body of %d bytes, %v", r.Method, r.ContentLength, r.TransferEncoding)
		}
		io.WriteString(w, strings.Repeat("x", 10_000))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	l := service(t, time.Minute, s.URL+"/{key}")
	for range requests {
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				if _, err := l.Check(t.Context(), "client", 1); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait() // now all connections are idle
	}
	// net/http gives a connection up if a busy machine was slow to tell that the request had been written.
	if n := opened.Load(); asked.Load() != callers*requests || n < callers || n > 2*callers {
		t.Errorf("%d requests on %d connections, want %d on %d or few more", asked.Load(), n, callers*requests, callers)
	}
}

// A body without end holds nobody up, and neither does one that stops.
func TestServiceBodyIsBounded(t *testing.T) {
	t.Parallel()
	patience := map[string]time.Duration{"endless": 20 * time.Second, "stops": 100 * time.Millisecond}
	for name, next := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"endless": func(w http.ResponseWriter, _ *http.Request) bool {
			_, err := io.WriteString(w, strings.Repeat("x", 10_000))
			return err == nil
		},
		"stops": func(w http.ResponseWriter, r *http.Request) bool {
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusTooManyRequests)
				for next(w, r) {
				}
			})
			start := time.Now()
			d, err := service(t, patience[name], url+"/{key}").Check(t.Context(), "client", 1)
			if took := time.Since(start); err != nil || d.Allowed || took > 5*time.Second {
				t.Errorf("got %+v, %v after %v; want a denial", d, err, took)
			}
		})
	}
}

// A peek is not sent: it might be charged.
func TestServicePeekTakesNothing(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	url := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	for _, template := range []string{"/{key}", "/{key}?n={cost}"} {
		d, err := service(t, time.Minute, url+template).Check(t.Context(), "client", 0)
		if err != nil || !d.Allowed || asked.Load() != 0 {
			t.Errorf("%s: got %+v, %v after %d requests", template, d, err, asked.Load())
		}
	}
}

func TestServiceTemplate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url     string
		headers []string
		key     string
		cost    int64
		want    string // as the server got it
	}{
		{"/v1/{key}/ask", nil, "client-1", 1, "/v1/client-1/ask"},
		{"/{key}", nil, "a/b?c d%\xff", 1, "/a%2Fb%3Fc%20d%25%FF"},
		{"/?id={key}&n={cost}", nil, "a/b&c=d e+#", 12, "/?id=a%2Fb%26c%3Dd+e%2B%23&n=12"},
		{"/{key}/{cost}?{key}", nil, "{cost}", 3, "/%7Bcost%7D/3?%7Bcost%7D"},
		{"?{key}", nil, "client", 1, "/?client"},
		{"/", []string{"X-Client:{key}", "X-Cost:  {cost} ", "x-api-key: a: b"}, "client 1", 2, "/ X-Api-Key=a: b X-Client=client 1 X-Cost=2"},
		{"/{key}", []string{"Host: api.example"}, "k", 1, "/k Host=api.example"},
	} {
		var got string
		url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			got = r.RequestURI
			for _, name := range []string{"X-Api-Key", "X-Client", "X-Cost"} {
				if value := r.Header.Get(name); value != "" {
					got += " " + name + "=" + value
				}
			}
			if !strings.HasPrefix(r.Host, "127.0.0.1:") {
				got += " Host=" + r.Host
			}
		})
		if _, err := service(t, time.Minute, url+c.url, c.headers...).Check(t.Context(), c.key, c.cost); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v; want %q", c.url, got, err, c.want)
		}
	}
}

func TestServiceIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url    string
		header string
		says   string
	}{
		{"http://127.0.0.1/", "", "has {key}"},
		{"http://127.0.0.1/", "X-Cost: {cost}", "has {key}"},
		{"http://{key}/", "", "without a host"},
		{"http:///{key}", "", "without a host"},
		{"http://127.0.0.1:x/{key}", "", "without a host"},
		{"http://user:sesame@127.0.0.1/{key}", "", "--header"},
		{"https://127.0.0.1/{key}#{cost}", "", "#"},
		{"http://127.0.0.1/{key}%zz", "", "not a URL"},
		{"http://127.0.0.1/{key}", "sesame", "NAME: VALUE"},
		{"http://127.0.0.1/{key}", ": sesame", "NAME: VALUE"},
		{"http://127.0.0.1/{key}", "a b: sesame", "NAME: VALUE"},
		{"http://127.0.0.1/{key}", "a: sesame\r\nb: c", "NAME: VALUE"},
	} {
		terms := outside.Terms{As: "gcra"}
		if c.header != "" {
			terms.Headers = []string{c.header}
		}
		_, err := outside.Open(c.url, terms)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s %q: got %v, want what says %q", c.url, c.header, err, c.says)
		}
	}
}

func TestServiceRefusesARequest(t *testing.T) {
	t.Parallel()
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	for name, c := range map[string]struct {
		url, header, key string
		cost             int64
	}{
		"a cost that it is not told": {"/{key}", "", "k", 2},
		"a negative cost":            {"/{key}{cost}", "", "k", -1},
		"no key":                     {"/{key}", "", "", 1},
		"a key for no header":        {"/", "X-Client: {key}", "a\nb", 1},
	} {
		var headers []string
		if c.header != "" {
			headers = append(headers, c.header)
		}
		_, err := service(t, time.Minute, url+c.url, headers...).Check(t.Context(), c.key, c.cost)
		var e *limiter.Error
		if !errors.As(err, &e) || e.Class != limiter.ClassInvalid || e.Unknown {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
}

func TestServiceKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url  string
		unit bool
		host string
	}{
		{"http://127.0.0.1:80/{key}", true, "127.0.0.1"},
		{"https://[::1]/{key}?n={cost}", false, "::1"},
		{"https://api.example?{key}", true, "api.example"},
	} {
		kind, err := outside.Open(c.url, outside.Terms{})
		if err != nil || kind.Unit != c.unit || !kind.Service || outside.HostOf(c.url) != c.host {
			t.Errorf("%s: %+v at %q, %v", c.url, kind, outside.HostOf(c.url), err)
		}
	}
	if host := outside.HostOf("exec:true http://h/"); host != "" {
		t.Errorf("a worker has the host %q", host)
	}
}

// A service whose certificate nobody vouches for is not asked.
func TestServiceIsVerified(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	for _, cost := range []int64{0, 1} {
		_, err := service(t, time.Minute, s.URL+"/{key}").Check(context.Background(), "client", cost)
		var e *limiter.Error
		if !errors.As(err, &e) || e.Class != limiter.ClassUnreachable || e.Unknown || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("cost %d: got %v, want unreachable", cost, err)
		}
	}
}

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
