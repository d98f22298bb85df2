package rivals

import (
	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/target"
)

// leastSource reads the time and one key, and writes the key with a lifetime where the request passes, as gcra does. It
// checks nothing and refills nothing: a script that works like gcra cannot do less.
const leastSource = `local now = redis.call('TIME')
local t = now[1] * 1000000 + now[2]
local used = (redis.call('GET', KEYS[1]) or 0) + ARGV[4]
if used > ARGV[1] + 0 then return {0, 0, 1, 1, t} end
redis.call('SET', KEYS[1], string.format('%d', used), 'PX', '86400000')
return {1, ARGV[1] - used, 0, 1, t}
`

// least bounds from below what a script like gcra's costs, more closely than a floor, which touches no key.
func least() target.Entry {
	return target.Entry{
		Name: "least", Summary: "the least of a script like gcra: one key, no checks, no refill", BrokenBy: target.Nothing,
		State: "string: count", Worst: "B", Rule: model.FixedWindow(),
		New: func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
			return limiter.NewScript(rdb, "least", leastSource, l, opts...)
		},
	}
}
