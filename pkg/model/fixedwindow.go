package model

import (
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// FixedWindow counts what was admitted in the window that now lies in. Windows are aligned to the epoch, so two full
// ones can meet at an edge: 2L within any W.
func FixedWindow() Rule {
	return Rule{
		Fresh:  key[fixedWindow]{},
		Memory: Windows,
		Most: func(l limiter.Limit, from, to time.Time) int64 {
			return product(l.Events, windows(l, from, to)).small()
		},
	}
}

// windows is how many of l's windows hold an instant from from to to.
func windows(l limiter.Limit, from, to time.Time) int64 {
	if to.Before(from) {
		return 0
	}
	w := window(l)
	return to.UnixMicro()/w - from.UnixMicro()/w + 1
}

type fixedWindow struct {
	at    int64 // µs, the last write
	count int64 // admitted in the window of at
}

func (f fixedWindow) step(t int64, r Request) (fixedWindow, bool, answer) {
	w, limit := window(r.Limit), r.Limit.Events
	left := w - t%w
	count, pulled := f.count, false
	switch then, now := f.at/w, t/w; {
	case then < now:
		count = 0
	case then > now:
		count, pulled = min(count, limit), true
	}

	a := answer{retry: left}
	switch {
	case r.Cost > limit:
		a.retry = never
	case count+r.Cost <= limit:
		a.allowed = true
		count += r.Cost
	}
	a.remaining = max(0, limit-count)
	if count > 0 {
		a.reset = left
	}
	return fixedWindow{t, count}, a.allowed || pulled, a
}

func (f fixedWindow) alike(other fixedWindow) bool { return f == other }
