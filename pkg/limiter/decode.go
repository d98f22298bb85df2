package limiter

import (
	"errors"
	"math"
	"time"
)

var errReply = errors.New("the reply is not the five integers allowed, remaining, retry_us, reset_us, now_us")

// decode turns the five integers of a script into a Decision. A reply that breaks the contract is an error and never
// a denial.
func decode(reply []int64) (Decision, error) {
	if len(reply) != 5 {
		return Decision{}, errReply
	}
	allowed, remaining, retry, reset, now := reply[0], reply[1], reply[2], reply[3], reply[4]
	const most = math.MaxInt64 / int64(time.Microsecond)
	if allowed>>1 != 0 || (allowed == 1) != (retry == 0) || remaining < 0 || retry < -1 || retry > most ||
		reset < 0 || reset > most || now < 0 {
		return Decision{}, errReply
	}
	d := Decision{Allowed: allowed == 1, Remaining: remaining, RetryAfter: Never, ResetAfter: micros(reset)}
	if retry >= 0 {
		d.RetryAfter = micros(retry)
	}
	if now > 0 {
		d.At = time.UnixMicro(now)
	}
	return d, nil
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
