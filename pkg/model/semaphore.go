package model

import (
	"maps"
	"slices"
)

// Semaphore admits a request while fewer than the limit hold a slot, or if its id already does. The window is the lease
// that it asks for, the cost 1. A holder may renew its lease and release its slot; to all others that is denied for ever,
// and a release by them changes nothing.
func Semaphore() Rule {
	return Rule{Fresh: key[leases]{}, Most: mostLogged, AtOnce: true}
}

// leases are when the lease of each holder ends, in µs of the semaphore's own clock. That never runs behind the newest
// lease given: where the server's clock would, the difference is kept as an offset, and every lease keeps its length.
type leases struct {
	ends   map[string]int64
	newest int64 // when the newest was given
	offset int64 // µs from the server's time to the semaphore's
}

func (g leases) step(t int64, r Request) (next leases, written bool, a answer) {
	pulled := g.newest > t+g.offset
	if pulled {
		g.offset = g.newest - t
	}
	now := t + g.offset
	switch {
	case r.Act == Release:
		next, written, a.allowed, a.retry = g.release(now, r)
	case r.Act == Renew:
		next, written, a.allowed, a.retry = g.renew(now, pulled, r)
	case r.Cost > 0:
		next, written, a.allowed, a.retry = g.acquire(now, pulled, r)
	default:
		next = g
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

// acquire, renew and release tell what the key then holds, whether that is written, whether the call is allowed, and how
// long to wait if it is not. now is a time of the semaphore's own clock, which had to be set for it if pulled.
func (g leases) acquire(now int64, pulled bool, r Request) (next leases, written, allowed bool, retry int64) {
	if r.Cost > 1 { // one slot a holder
		return g, pulled, false, never
	}
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

func (g leases) release(now int64, r Request) (leases, bool, bool, int64) {
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
