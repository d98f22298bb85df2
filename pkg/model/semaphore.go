package model

import (
	"maps"
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// Semaphore is the state of a semaphore's key: who holds a slot, and until when. A request's limit is how many may hold
// at once, its window the lease that it asks for, its id the holder; its cost is 1, or 0 for a peek. The zero value is a
// key that does not exist. Semaphores are values, as States are.
type Semaphore struct{ key key[leases] }

// Acquire is let in while fewer than the limit hold, or if its id already does; then its lease begins at that time.
func (s Semaphore) Acquire(at time.Time, r Request) (Semaphore, limiter.Decision) {
	return s.decide(at, r, leases.acquire)
}

// Renew begins the lease of a holder anew, and denies it to all others.
func (s Semaphore) Renew(at time.Time, r Request) (Semaphore, limiter.Decision) {
	return s.decide(at, r, leases.renew)
}

// Release ends the lease of a holder. To all others it is denied, and changes nothing.
func (s Semaphore) Release(at time.Time, r Request) (Semaphore, limiter.Decision) {
	return s.decide(at, r, leases.release)
}

// Expires is the last millisecond at which the key still lives, as of a State.
func (s Semaphore) Expires() time.Time { return s.key.Expires() }

// Persist returns s without a TTL, as Persist does of a State.
func (s Semaphore) Persist() Semaphore {
	if s.key.until != 0 {
		s.key.until = immortal
	}
	return s
}

// act is one of the three calls, at a time of the semaphore's own clock. pulled says that the clock had to be set for it.
// It tells whether the key then holds next, whether the call is allowed, and how long to wait if it is not.
type act func(g leases, now int64, pulled bool, r Request) (next leases, written, allowed bool, retry int64)

func (s Semaphore) decide(at time.Time, r Request, a act) (Semaphore, limiter.Decision) {
	k, d := s.key.decide(at, r, func(g leases, t int64) (leases, bool, answer) { return g.after(t, r, a) })
	return Semaphore{k}, d
}

// leases are when the lease of each holder ends, in µs of the semaphore's own clock. That never runs behind the newest
// lease given: where the server's clock would, the difference is kept as an offset, and every lease keeps its length.
type leases struct {
	ends   map[string]int64
	newest int64 // when the newest was given
	offset int64 // µs from the server's time to the semaphore's
}

// step takes the calls of a rate limiter for acquisitions.
func (g leases) step(t int64, r Request) (leases, bool, answer) { return g.after(t, r, leases.acquire) }

// after is what g is after a call that arrives at t of the server's clock, and what is told.
func (g leases) after(t int64, r Request, call act) (next leases, written bool, a answer) {
	pulled := g.newest > t+g.offset
	if pulled {
		g.offset = g.newest - t
	}
	now := t + g.offset
	next = g
	if r.Cost > 0 {
		next, written, a.allowed, a.retry = call(g, now, pulled, r)
	}
	ends := next.running(now)
	a.remaining = max(0, r.Limit.Events-int64(len(ends)))
	if len(ends) > 0 {
		a.reset = slices.Max(ends) - now
	}
	return next, written, a
}

// running are the ends of the leases that run at that time.
func (g leases) running(now int64) (ends []int64) {
	for _, end := range g.ends {
		if end > now {
			ends = append(ends, end)
		}
	}
	return ends
}

func (g leases) holds(id string, now int64) bool { return g.ends[id] > now }

func (g leases) acquire(now int64, pulled bool, r Request) (leases, bool, bool, int64) {
	ends := g.running(now)
	if excess := len(ends) - int(r.Limit.Events); excess >= 0 && !g.holds(r.ID, now) {
		slices.Sort(ends)
		return g, pulled, false, ends[excess] - now
	}
	return g.given(now, r), true, true, 0
}

func (g leases) renew(now int64, pulled bool, r Request) (leases, bool, bool, int64) {
	if !g.holds(r.ID, now) {
		return g, pulled, false, never
	}
	return g.given(now, r), true, true, 0
}

func (g leases) release(now int64, _ bool, r Request) (leases, bool, bool, int64) {
	if !g.holds(r.ID, now) {
		return g, false, false, never
	}
	g.ends = maps.Clone(g.ends)
	delete(g.ends, r.ID)
	return g, true, true, 0
}

// given is g with a lease for r's id that begins now. Those that have ended by then can never run again.
func (g leases) given(now int64, r Request) leases {
	ends := map[string]int64{r.ID: now + window(r.Limit)}
	for id, end := range g.ends {
		if end > now && id != r.ID {
			ends[id] = end
		}
	}
	g.ends, g.newest = ends, now
	return g
}

func (g leases) alike(other leases) bool {
	return g.newest == other.newest && g.offset == other.offset && maps.Equal(g.ends, other.ends)
}
