package cmd_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/replay"
)

// service is an HTTP server in front of a limiter of 100 a minute, which answers as its kind does.
type service struct {
	kind string
	next limiter.Limiter
}

// kinds of services, and what each does with the decision of a limiter: it says so, or something else.
var kinds = map[string]func(h http.Header, d limiter.Decision){
	"honest": func(h http.Header, d limiter.Decision) {
		if !d.Allowed {
			h.Set("Retry-After", seconds(d.RetryAfter))
		}
		h.Set("RateLimit", fmt.Sprintf(`"minute";r=%d;t=%s`, d.Remaining, seconds(d.ResetAfter)))
	},
	"lying": func(h http.Header, d limiter.Decision) {
		h.Set("Retry-After", "86400")
		h.Set("X-RateLimit-Remaining", "100")
	},
	"silent": func(http.Header, limiter.Decision) {},
}

func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// ServeHTTP wants its client in a header, with the secret of all of them, or in the query.
func (s service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	client := r.URL.Query().Get("client")
	if client == "" && r.Header.Get("Authorization") == "Bearer sesame" {
		client = r.Header.Get("X-Client")
	}
	if client == "" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	d, err := s.next.Check(r.Context(), client, 1)
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	kinds[s.kind](w.Header(), d)
	if !d.Allowed {
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// racy counts as many a service does: it reads, and writes a moment later what it makes of that.
func racy() limiter.Limiter {
	var mu sync.Mutex
	counts := map[string]int{}
	return limiter.Func(func(_ context.Context, key string, _ int64) (limiter.Decision, error) {
		mu.Lock()
		n := counts[key]
		mu.Unlock()
		if n >= 100 {
			return limiter.Decision{}, nil
		}
		time.Sleep(time.Millisecond) // as long as a database takes
		mu.Lock()
		counts[key] = n + 1
		mu.Unlock()
		return limiter.Decision{Allowed: true, Remaining: int64(99 - n)}, nil
	})
}

// sound is a gcra on a server of its own.
func sound() (l limiter.Limiter, end func(), err error) {
	server, err := redisd.Start(context.Background(), redisd.Options{})
	if err != nil {
		return nil, nil, err
	}
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: server.Socket()})
	l, err = limiter.New(rdb, "gcra", limiter.Limit{Events: 100, Window: time.Minute})
	return l, func() { rdb.Close(); server.Close() }, err
}

// serve starts a service: of a kind above in front of a sound limiter, or "racy"; "tls KIND" speaks TLS.
func serve(kind string, tls bool) (*httptest.Server, func(), error) {
	next, end := racy(), func() {}
	if kind == "racy" {
		kind = "silent"
	} else {
		var err error
		if next, end, err = sound(); err != nil {
			return nil, nil, err
		}
	}
	s := httptest.NewUnstartedServer(service{kind, next})
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	return s, func() { s.Close(); end() }, nil
}

// serviceCommand is `service KIND [tls]` of the scripts: it sets SERVICE, and writes ca.pem.
func serviceCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: service KIND [tls]")
	}
	s, end, err := serve(args[0], len(args) > 1)
	ts.Check(err)
	ts.Defer(end)
	if cert := s.Certificate(); cert != nil {
		ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), 0o600))
	}
	ts.Setenv("SERVICE", s.URL)
}

// exitOf runs a command.
func exitOf(c *exec.Cmd) int {
	_ = c.Run()
	return c.ProcessState.ExitCode()
}

// servedRace is what the tests read of a race against services.
type servedRace struct {
	Env struct {
		Command string `json:"command"`
	} `json:"env"`
	Results []struct {
		Limiter   string          `json:"limiter"`
		Verdict   replay.Verdict  `json:"verdict"`
		Allowed   int64           `json:"allowed"`
		Denied    int64           `json:"denied"`
		Overshoot int64           `json:"overshoot"`
		Headers   *replay.Headers `json:"headers"`
	} `json:"results"`
}

func TestRaceAgainstServices(t *testing.T) {
	for _, c := range []struct {
		kind    string
		code    int
		verdict replay.Verdict
		honest  func(h replay.Headers, denied int64) bool
	}{
		{"honest", 0, replay.Held, func(h replay.Headers, denied int64) bool {
			return h.Honest() && h.Silent == 0 && h.Denials == denied && h.Told > denied
		}},
		{"lying", 0, replay.Held, func(h replay.Headers, denied int64) bool {
			return h.TooLong == denied && h.TooMuch >= denied && h.TooShort == 0 && h.Silent == 0
		}},
		{"silent", 0, replay.Held, func(h replay.Headers, denied int64) bool {
			return h.Honest() && h.Silent == denied && h.Told == 0
		}},
		{"racy", 1, replay.Broken, func(h replay.Headers, denied int64) bool { return h.Honest() }},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			s, end, err := serve(c.kind, false)
			if err != nil {
				t.Fatal(err)
			}
			defer end()
			cmd, stdout, stderr := withOutput(t, "race", s.URL+"/?client={key}", "--as", "gcra", "--procs", "6", "--format", "json")
			if code := exitOf(cmd); code != c.code {
				t.Fatalf("exit code %d, want %d: %s", code, c.code, stderr)
			}
			row := parse[servedRace](t, stdout.Bytes()).Results[0]
			if row.Verdict != c.verdict || row.Headers == nil || row.Denied == 0 || !c.honest(*row.Headers, row.Denied) {
				t.Errorf("%+v, %+v", row, row.Headers)
			}
			if c.verdict == replay.Held && row.Allowed < 100 {
				t.Errorf("%d admitted of 100", row.Allowed)
			}
		})
	}
}

// What a header holds gets to the service, and nowhere else.
func TestServiceHeadersStaySecret(t *testing.T) {
	t.Parallel()
	s, end, err := serve("honest", false)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	out := filepath.Join(t.TempDir(), "race.json")
	cmd, stdout, stderr := withOutput(t, "race", s.URL, "--as", "gcra", "--procs", "2", "--limit", "100",
		"--header", "Authorization: Bearer sesame", "--header", "X-Client: {key}", "--format", "json", "--out", out)
	if code := exitOf(cmd); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	saved, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"stdout": stdout.String(), "stderr": stderr.String(), "file": string(saved)} {
		if strings.Contains(text, "sesame") {
			t.Errorf("the secret is in %s:\n%s", name, text)
		}
	}
	var got servedRace
	if err := json.Unmarshal(saved, &got); err != nil {
		t.Fatal(err)
	}
	want := "--header 'Authorization: ***' --header 'X-Client: ***'"
	if len(got.Results) != 1 || got.Results[0].Verdict != replay.Held || !strings.Contains(got.Env.Command, want) {
		t.Errorf("%+v", got)
	}
}
