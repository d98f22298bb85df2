package model

import (
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// SlidingCounter counts the window that now lies in, plus the one before it by the share of it that a window ending
// now still covers. It takes the older events as evenly spread, which bounds any W by 2L-1.
func SlidingCounter() Rule {
	return Rule{Fresh: key[slidingCounter]{}, Most: mostCounted, Memory: Shares}
}

type slidingCounter struct {
	at        int64 // µs, the last write
	cur, prev int64 // admitted in the window of at, and in the one before it
}

func (s slidingCounter) step(t int64, r Request) (slidingCounter, bool, answer) {
	w, limit, n := window(r.Limit), r.Limit.Events, r.Cost
	since := t % w
	s, pulled := s.shift(t, r.Limit)
	weight := s.prev - floor(s.prev, since, w)

	var a answer
	switch {
	case n > limit:
		a.retry = never
	case s.cur+n+weight <= limit:
		a.allowed = true
		s.cur += n
	case s.cur+n <= limit:
		a.retry = ceil(s.prev+s.cur+n-limit, w, s.prev) - since
	default:
		a.retry = w - since + ceil(s.cur+n-limit, w, s.cur)
	}
	a.remaining = max(0, limit-s.cur-weight)
	switch {
	case s.cur > 0:
		a.reset = 2*w - since
	case s.prev > 0:
		a.reset = w - since
	}
	return s, a.allowed || pulled, a
}

// shift brings the counts into the window of t. Counts of a window that lies ahead all move into it.
func (s slidingCounter) shift(t int64, l limiter.Limit) (shifted slidingCounter, pulled bool) {
	shifted = slidingCounter{at: t}
	switch then, now := s.at/window(l), t/window(l); {
	case then > now:
		shifted.cur = min(s.cur+s.prev, l.Events)
		return shifted, true
	case then == now:
		shifted.cur, shifted.prev = s.cur, s.prev
	case then == now-1:
		shifted.prev = s.cur
	}
	return shifted, false
}

// mostCounted admits in each window, as late in it as it may, all that the window before leaves room for. To admit
// fewer never pays: one admission less makes room for at most one more in the next window. What full windows admit soon
// repeats in pairs.
func mostCounted(l limiter.Limit, from, to time.Time) int64 {
	var total wide
	var before, last int64 // admitted in the last window but one, and in the last
	w := window(l)
	for left := windows(l, from, to); left > 0; left-- {
		since := w - 1
		if left == 1 {
			since = to.UnixMicro() % w
		}
		next := max(0, l.Events-(last-floor(last, since, w)))
		if pairs := (left - 1) / 2; next == before && pairs > 0 {
			total = total.plus(product(last+next, pairs))
			left -= 2*pairs - 1
			continue
		}
		total = total.plus(product(next, 1))
		before, last = last, next
	}
	return total.small()
}

func (s slidingCounter) alike(other slidingCounter) bool { return s == other }
