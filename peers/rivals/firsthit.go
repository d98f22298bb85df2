package rivals

import (
	"math"
	"math/bits"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// firstHitWindow counts every request in a window that begins with its first, and refuses those beyond L. A refused
// request counts as well: one that cost more than was left leaves nothing to smaller ones.
//
// The window ends when Redis removes the key, which it does on the millisecond and never early: begun at t, it holds
// until the end of the millisecond ⌊t⌋ + W. So two windows begin at least W + 1 µs apart.
func firstHitWindow() model.Rule {
	return model.Rule{Fresh: firstHit{}, Most: mostOfWindows, Charges: true}
}

func mostOfWindows(l limiter.Limit, from, to time.Time) int64 {
	if to.Before(from) {
		return 0
	}
	windows := to.Sub(from)/(l.Window+time.Microsecond) + 1
	high, low := bits.Mul64(uint64(windows), uint64(l.Events))
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}

// firstHit is the state of a key.
type firstHit struct {
	count int64
	until int64 // the last ms at which the key lives; 0 if there is no key
}

// Check implements [model.State].
func (s firstHit) Check(at time.Time, r model.Request) (model.State, limiter.Decision) {
	t := at.UnixMicro()
	if t/1000 > s.until {
		s = firstHit{}
	}
	if r.Cost > 0 {
		if s.until == 0 {
			s.until = t/1000 + r.Limit.Window.Milliseconds()
		}
		s.count += min(r.Cost, math.MaxInt64-s.count)
	}
	d := limiter.Decision{Allowed: r.Cost == 0 || s.count <= r.Limit.Events, Remaining: max(0, r.Limit.Events-s.count), At: at}
	if s.until != 0 {
		d.ResetAfter = time.UnixMilli(s.until + 1).Sub(at)
	}
	switch {
	case d.Allowed:
	case r.Cost > r.Limit.Events:
		d.RetryAfter = limiter.Never
	default:
		d.RetryAfter = d.ResetAfter
	}
	return s, d
}

// Expires implements [model.State].
func (s firstHit) Expires() time.Time {
	if s.until == 0 {
		return time.Time{}
	}
	return time.UnixMilli(s.until)
}
