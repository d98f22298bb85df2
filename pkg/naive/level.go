package naive

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// level is how much of a bucket is used, and when that was so. The bucket leaks it at L a window. Units of 1/window of
// a token make every step whole: L of them leak each µs. They pass 2^63, hence big integers.
//
// What is used is kept rather than what is left, so that a missing key is a full bucket and a burst may change.
type level struct {
	used   *big.Int // in units; nil is none
	window int64    // µs, which gives the units their size
	at     int64    // µs since 1970
}

// take asks for cost at time t and returns the level to store, whether it has to be, and the decision. A clock that
// stepped back makes the bucket fill again, up to full; that much is stored even when the request is denied.
func (v level) take(l limiter.Limit, t, cost int64) (next level, store bool, d limiter.Decision) {
	window := l.Window.Microseconds()
	full := product(l.Capacity(), window)
	used := v.in(l.Capacity(), window)
	used.Sub(used, product(t-v.at, l.Events))
	if used.Sign() < 0 {
		used.SetInt64(0)
	}
	pulled := used.Cmp(full) > 0
	if pulled {
		used.Set(full)
	}
	need := product(cost, window)
	over := need.Add(need, used).Sub(need, full)
	switch {
	case over.Sign() <= 0:
		d.Allowed = true
		used.Add(full, over)
	case cost > l.Capacity():
		d.RetryAfter = limiter.Never
	default:
		d.RetryAfter = micros(ceil(over, l.Events))
	}
	d.Remaining = l.Capacity() - ceil(used, window)
	d.ResetAfter = micros(ceil(used, l.Events))
	return level{used, window, t}, cost > 0 && (d.Allowed || pulled), d
}

// in is what is used, at most the capacity, in units of another window, fractions rounded up.
func (v level) in(capacity, window int64) *big.Int {
	if v.used == nil {
		return new(big.Int)
	}
	full := product(capacity, v.window)
	if v.used.Cmp(full) > 0 {
		return product(capacity, window)
	}
	if v.window == window {
		return new(big.Int).Set(v.used)
	}
	tokens, fraction := v.split()
	used := product(tokens, window)
	return used.Add(used, big.NewInt(ceil(product(fraction, window), v.window)))
}

// split is what is used as whole tokens and a fraction of one, in 1/window.
func (v level) split() (tokens, fraction int64) {
	q, r := new(big.Int).QuoRem(v.used, big.NewInt(v.window), new(big.Int))
	return q.Int64(), r.Int64()
}

// String is "TOKENS FRACTION/WINDOW", or "TOKENS" without a fraction, of what is used.
func (v level) String() string {
	tokens, fraction := v.split()
	s := strconv.FormatInt(tokens, 10)
	if fraction > 0 {
		s += " " + strconv.FormatInt(fraction, 10) + "/" + strconv.FormatInt(v.window, 10)
	}
	return s
}

// parseLevel reads what String wrote, as of time at.
func parseLevel(s string, at int64) (level, bool) {
	tokens, rest, fractional := strings.Cut(s, " ")
	fraction, window, _ := strings.Cut(rest, "/")
	if !fractional {
		fraction, window = "0", "1"
	}
	return newLevel(tokens, fraction, window, at)
}

// newLevel is a level from its numbers as they are stored; false if they cannot be one's.
func newLevel(tokens, fraction, window string, at int64) (level, bool) {
	whole, err1 := strconv.ParseInt(tokens, 10, 64)
	part, err2 := strconv.ParseInt(fraction, 10, 64)
	size, err3 := strconv.ParseInt(window, 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || whole < 0 || part < 0 || size <= 0 || at < 0 {
		return level{}, false
	}
	used := product(whole, size)
	return level{used.Add(used, big.NewInt(part)), size, at}, true
}

func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// ceil is a/b rounded up, for a ≥ 0 and b > 0.
func ceil(a *big.Int, b int64) int64 {
	q, r := new(big.Int).QuoRem(a, big.NewInt(b), new(big.Int))
	return q.Int64() + int64(r.Sign())
}
