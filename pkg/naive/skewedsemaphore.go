package naive

import (
	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/scripts"
)

// skewed-semaphore is the scripts of semaphore, told the time by their callers. It imitates semaphore.
//
// It is atomic, and holds under any race of callers with one clock. When clocks differ, a lease ends early for a caller
// ahead, while its holder still works. A limit of 1, a lease of 30 s, B's clock 20 ms ahead:
//
//	step | true time    | lease ends    | client A              | client B
//	   1 | 12:00:00.000 | 12:00:30.000  | acquire      allowed  |
//	   2 | 12:00:29.970 | 12:00:30.000  |                       | at 12:00:29.990: acquire   denied
//	   3 | 12:00:29.985 | 12:01:00.005  |                       | at 12:00:30.005: acquire   allowed  <- A holds, too
//
// A few milliseconds are enough, at the end of any lease. And what the scripts do about a clock that ran back makes it
// worse: after a slot went to a caller ahead, the next one behind takes the semaphore's time up to that of the other. So
// it goes on by the difference whenever they take slots in turn, faster than any clock.
type skewedSemaphore struct{ *limiter.Semaphore }

// NewSkewedSemaphore makes a skewed-semaphore.
func NewSkewedSemaphore(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
	c, err := open("skewed-semaphore", rdb, l, opts)
	if err != nil {
		return nil, err
	}
	source := func(name string) string { text, _ := scripts.Source(name); return text }
	s, err := limiter.NewSemaphoreScripts(rdb, c.name, source, l, limiter.WithPrefix(c.prefix), limiter.WithClock(c.clock))
	if err != nil {
		return nil, err
	}
	return skewedSemaphore{s}, nil
}
