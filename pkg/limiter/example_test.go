package limiter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

func Example() {
	rdb := redis.NewClient(&redis.Options{
		Addr:                  "127.0.0.1:6379",
		ReadTimeout:           100 * time.Millisecond,
		ContextTimeoutEnabled: true, // or a call's deadline does not end its wait
	})
	perMinute := limiter.Limit{Events: 100, Window: time.Minute}
	l, err := limiter.New(rdb, "sliding-log", perMinute)
	if err != nil {
		log.Fatal(err) // a limit out of range, or no such limiter
	}

	d, err := l.Check(context.Background(), "client-1", 1)
	switch {
	case err != nil && limiter.Counted(err):
		fmt.Println("no answer, and the request may have been counted:", err)
	case err != nil:
		fmt.Println("not decided, and not counted:", err)
	case d.Allowed:
		fmt.Println("go on;", d.Remaining, "left")
	case d.RetryAfter == limiter.Never:
		fmt.Println("costs more than the limit ever allows")
	default:
		fmt.Println("429, Retry-After", d.RetryAfter)
	}
}
