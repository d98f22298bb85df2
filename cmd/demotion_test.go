package cmd_test

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
)

// A service whose master became a replica went on failing until it was restarted. (envoyproxy/ratelimit#1191) Here one of
// each policy is asked by several clients without pause while its server is demoted and promoted again: they get
// decisions and the policy's answers, nothing else, and decisions again from the same process when the server is back.
func TestServeThroughADemotion(t *testing.T) {
	t.Parallel()
	server := redisdtest.Start(t, redisd.Options{})
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: server.Socket()})
	defer rdb.Close()
	do := func(words ...any) {
		t.Helper()
		if err := rdb.Do(t.Context(), words...).Err(); err != nil {
			t.Fatalf("%v: %v", words, err)
		}
	}
	refusals := map[string]string{
		"error": `^503 .*#not-decided".*"counted":"no"`, "open": `^200 .*"allowed":true.*"degraded":true`, "closed": `^503 .*#limiter-unavailable"`,
	}
	var asked []*asked
	for policy, refusal := range refusals {
		url := start(t, "rlctl", "serve", "--listen", "127.0.0.1:0", "--limit", "1000000/1d", "--limiter", "fixed-window",
			"--prefix", policy, "--on-failure", policy, "-s", server.Socket()).line()
		asked = append(asked, ask(t, url, map[string]*regexp.Regexp{
			"decided": regexp.MustCompile(`^200 .*"allowed":true.*"degraded":false`), "refused": regexp.MustCompile(refusal),
		}))
	}
	until := func(answer string) {
		t.Helper()
		before := map[string]int{}
		for _, a := range asked {
			before[a.url] = a.count(answer)
		}
		for _, a := range asked {
			for end := time.Now().Add(20 * time.Second); a.count(answer) < before[a.url]+20; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s: waited in vain for answers that are %s", a.url, answer)
				}
			}
		}
	}
	until("decided")
	do("REPLICAOF", "127.0.0.1", "1")
	until("refused")
	do("REPLICAOF", "NO", "ONE")
	do("SCRIPT", "FLUSH")
	until("decided")
	for _, a := range asked {
		a.stop()
		_, page, err := get(a.url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		for _, failure := range regexp.MustCompile(`(?m)^ratelimit_failures_total.*[^ ]* [1-9].*$`).FindAllString(string(page), -1) {
			if !strings.Contains(failure, `class="read-only"`) {
				t.Errorf("%s: %s", a.url, failure)
			}
		}
	}
}

// asked is a service that several clients ask without pause, and what they got.
type asked struct {
	url  string
	stop func()

	mu     sync.Mutex
	counts map[string]int
}

// ask begins to ask, and holds that each answer is of one of the kinds.
func ask(t *testing.T, url string, kinds map[string]*regexp.Regexp) *asked {
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	a := &asked{url: url, counts: map[string]int{}, stop: func() { cancel(); clients.Wait() }}
	t.Cleanup(a.stop)
	one := func() string {
		r, err := http.Get(url + "/check?key=k")
		if err != nil {
			return err.Error()
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err.Error()
		}
		return r.Status[:4] + string(body)
	}
	for range 8 {
		clients.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				answer, known := one(), false
				a.mu.Lock()
				for kind, pattern := range kinds {
					if pattern.MatchString(answer) {
						a.counts[kind]++
						known = true
					}
				}
				a.mu.Unlock()
				if !known {
					t.Errorf("%s: %s", url, answer)
				}
			}
		})
	}
	return a
}

func (a *asked) count(kind string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[kind]
}
