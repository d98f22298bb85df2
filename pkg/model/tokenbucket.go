package model

import (
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// TokenBucket holds up to the capacity in tokens, starts full and is refilled at L/W. It counts what is used rather
// than what is left, so that the capacity may change, in units of 1/W of a token, in which a µs refills exactly L.
func TokenBucket() Rule {
	return Rule{Fresh: key[tokenBucket]{}, Most: mostPoured, Memory: Level}
}

// mostPoured is a full bucket and all that flows in afterwards. It is reached unless the bucket is so small that it
// spills between two µs.
func mostPoured(l limiter.Limit, from, to time.Time) int64 {
	if to.Before(from) {
		return 0
	}
	refilled, _ := product(l.Events, to.UnixMicro()-from.UnixMicro()).over(window(l))
	return refilled.plus(product(l.Capacity(), 1)).small()
}

type tokenBucket struct {
	used   wide  // in 1/window of a token
	at     int64 // µs, the last write
	window int64 // µs, at the last write
}

func (b tokenBucket) step(t int64, r Request) (tokenBucket, bool, answer) {
	used, pulled := b.usedAt(t, r.Limit)
	used, a := take(used, r)
	return tokenBucket{used, t, window(r.Limit)}, a.allowed || pulled, a
}

// usedAt is what is used at t in units of l's window, and whether a clock that stepped back made it more than a full
// bucket.
func (b tokenBucket) usedAt(t int64, l limiter.Limit) (used wide, pulled bool) {
	used = b.used
	if capacity := product(l.Capacity(), b.window); capacity.less(used) {
		used = capacity
	}
	if b.window != 0 && b.window != window(l) {
		used = used.times(window(l)).up(b.window)
	}
	if t >= b.at {
		return used.minus(product(t-b.at, l.Events)), false
	}
	used = used.plus(product(b.at-t, l.Events))
	if capacity := product(l.Capacity(), window(l)); capacity.less(used) {
		return capacity, true
	}
	return used, false
}

// take decides r for a bucket of which used, in 1/W of a token and at most the capacity, is gone. It returns what is
// gone afterwards.
func take(used wide, r Request) (wide, answer) {
	w, limit, capacity := window(r.Limit), r.Limit.Events, r.Limit.Capacity()
	full := product(capacity, w)
	wanted := used.plus(product(r.Cost, w))

	var a answer
	switch {
	case r.Cost > capacity:
		a.retry = never
	case full.less(wanted):
		a.retry = wanted.minus(full).up(limit).small()
	default:
		a.allowed = true
		used = wanted
	}
	a.remaining = capacity - used.up(w).small()
	a.reset = used.up(limit).small()
	return used, a
}

func (b tokenBucket) alike(other tokenBucket) bool { return b == other }
