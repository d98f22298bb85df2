package model

import "slices"

// SlidingLog is the log with ids: a request whose id was counted inside the window is answered again and not counted
// again. At most L in any W.
func SlidingLog() Rule {
	return Rule{Fresh: key[slidingLog]{}, Most: mostLogged}
}

type slidingLog struct{ log }

func (s slidingLog) step(t int64, r Request) (slidingLog, bool, answer) {
	g, now, pulled := s.clock(t)
	if g.seen(r.ID, now-window(r.Limit)) {
		a := g.decide(now, Request{Limit: r.Limit})
		a.allowed = true
		return slidingLog{g}, pulled, a
	}
	a := g.decide(now, r)
	if a.allowed && r.Cost > 0 {
		g = g.without(r.ID, r.Cost).push(now, r.ID, r.Cost).trim(now, r.Limit)
	}
	return slidingLog{g}, a.allowed || pulled, a
}

// entriesOf lists the places of the entries held of id, newest first.
func (g log) entriesOf(id string) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		if g.tape == nil {
			return
		}
		place, ok := g.tape.last[id]
		for ; ok && place >= g.lo; place = g.tape.entries[place].before {
			if place < g.hi && !yield(place) {
				return
			}
		}
	}
}

// seen tells whether id was counted after t.
func (g log) seen(id string, t int64) bool {
	for place := range g.entriesOf(id) {
		if e := g.tape.entries[place]; e.number == 1 {
			return e.time > t
		}
	}
	return false
}

// without is g less what the members 1 to n of id, which a sorted set holds once each, are about to replace.
func (g log) without(id string, n int64) log {
	replaced := func(e entry) bool { return e.id == id && int64(e.number) <= n }
	for place := range g.entriesOf(id) {
		if replaced(g.tape.entries[place]) {
			return g.copied(slices.DeleteFunc(slices.Clone(g.held()), replaced))
		}
	}
	return g
}

func (s slidingLog) alike(other slidingLog) bool { return s.log.alike(other.log) }
