package policy_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
)

// A gateway that would rather refuse than overload what stands behind it, and lets a silent Redis rest.
func Example() {
	redisIsGone := limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
		return limiter.Decision{}, &limiter.Error{
			Limiter: "gcra", Class: limiter.ClassUnreachable, Err: errors.New("connection refused"),
		}
	})
	l, err := policy.New(redisIsGone, policy.Policy{
		Mode:       policy.Closed,
		Timeout:    100 * time.Millisecond,
		RetryAfter: 2 * time.Second,
		Breaker:    policy.Breaker{Failures: 5, Pause: time.Second},
		Failed: func(_ context.Context, err error) {
			fmt.Println(err, "- may have been counted:", limiter.Counted(err))
		},
	})
	if err != nil {
		log.Fatal(err) // no mode, or no timeout
	}
	d, err := l.Check(context.Background(), "client-1", 1)
	fmt.Println(d.Allowed, d.RetryAfter, d.Degraded, err)
	// Output:
	// gcra: unreachable: connection refused - may have been counted: false
	// false 2s true <nil>
}

// A client that hammers costs Redis nothing while it has to wait.
func ExampleWithDenyCache() {
	asked := 0
	redis := limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
		asked++
		return limiter.Decision{RetryAfter: time.Minute, ResetAfter: time.Minute}, nil
	})
	l, err := policy.WithDenyCache(redis, policy.DenyCache{})
	if err != nil {
		log.Fatal(err) // a semaphore, or a number that cannot be
	}
	for range 1000 {
		if d, err := l.Check(context.Background(), "client-1", 1); err != nil || d.Allowed {
			log.Fatal(d, err)
		}
	}
	fmt.Println("asked", asked, "time")
	// Output:
	// asked 1 time
}
