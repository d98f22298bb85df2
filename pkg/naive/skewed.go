package naive

import (
	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/scripts"
)

// skewed-bucket is the script of token-bucket, told the time by its caller. It imitates token-bucket.
//
// It is atomic, and holds under any race of callers with one clock. When clocks differ, a caller ahead sees a refill
// that has not happened yet, and a caller behind turns it back. A burst of 2 that refills one a second, B's clock 1 s
// ahead:
//
//	step | used, since | client A, at 12:00:00 | client B, at 12:00:01
//	   1 | 2, 12:00:00 | take 2      allowed   |
//	   2 | 2, 12:00:01 |                       | take 1, 1 refilled   allowed   <- the third of two
//	   3 | 2, 12:00:00 | take 1      denied    |                                <- the bucket runs back
//	   4 | 2, 12:00:01 |                       | take 1, 1 refilled   allowed   <- the fourth, and so on
//
// B gets whatever it asks for, and A, whose clock is right, gets nothing.
type skewed struct {
	limiter.Identified
	limiter.Resetter
}

// NewSkewed makes a skewed-bucket.
func NewSkewed(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
	c, err := openBucket("skewed-bucket", rdb, l, opts)
	if err != nil {
		return nil, err
	}
	source, _ := scripts.Source("token-bucket")
	s, err := limiter.NewScript(rdb, c.name, source, l, limiter.WithPrefix(c.prefix), limiter.WithClock(c.clock))
	if err != nil {
		return nil, err
	}
	return skewed{s.(limiter.Identified), s.(limiter.Resetter)}, nil
}
