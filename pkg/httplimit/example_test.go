package httplimit_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/httplimit"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
)

// A whole service: the limiter under a policy, which is said and never a default, and the middleware in front of a handler.
func Example_service() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", MaxRetries: -1, ContextTimeoutEnabled: true})
	perMinute := limiter.Limit{Events: 100, Window: time.Minute}
	l, err := limiter.New(rdb, "sliding-log", perMinute)
	if err != nil {
		log.Fatal(err)
	}
	l, err = policy.New(l, policy.Policy{Mode: policy.Open, Timeout: 100 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := httplimit.New(l, httplimit.Options{
		Name: "per-minute", Limit: perMinute,
		Key: func(r *http.Request) (string, error) { return r.Header.Get("X-Api-Key"), nil }, // who it is, checked before
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/", limit(http.FileServer(http.Dir("public"))))
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}

// A service that lets each API key have a hundred requests a minute. The limiter belongs under a policy, see package
// policy; here it is one that has no room.
func Example() {
	var l limiter.Limiter = limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
		return limiter.Decision{RetryAfter: 1500 * time.Millisecond, ResetAfter: time.Minute}, nil
	})
	limit, err := httplimit.New(l, httplimit.Options{
		Name:  "per-minute",
		Limit: limiter.Limit{Events: 100, Window: time.Minute},
		Key:   func(r *http.Request) (string, error) { return r.Header.Get("X-Api-Key"), nil }, // checked before, see above
		Decided: func(_ *http.Request, a httplimit.Answer) {
			if a.Status == http.StatusTooManyRequests {
				fmt.Println("somebody has to wait", a.Decision.RetryAfter)
			}
		},
	})
	if err != nil {
		log.Fatal(err) // an option is missing or out of range
	}
	service := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }))

	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Api-Key", "client-1")
	service.ServeHTTP(w, r)
	fmt.Println(w.Code, "Retry-After:", w.Header().Get("Retry-After"), "RateLimit:", w.Header().Get("RateLimit"))
	// Output:
	// somebody has to wait 1.5s
	// 429 Retry-After: 2 RateLimit: "per-minute";r=0;t=2
}
