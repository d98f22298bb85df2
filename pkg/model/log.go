package model

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// A log remembers the time of every event it admitted and counts those of the last W, exactly. Its own time never runs
// backwards: when the server's clock steps back behind the newest entry, the log goes on from that entry and keeps the
// difference as an offset.
//
// Every state of a key is a stretch of one tape, to which the newest state appends; an older state finds it longer than
// it left it and ignores the rest. Only a state that appends where another already has, or that must take entries out
// of the middle, copies its stretch. A step costs a search instead of a copy, and what was trimmed is given back when
// half of the tape is.
type log struct {
	tape   *tape
	lo, hi int   // the stretch of the tape that is held, oldest first
	offset int64 // µs from the server's time to the log's
}

// slice is the most entries that one admission trims.
const slice = 1000

// spare is how many trimmed entries a tape may hold beyond half of it.
const spare = 256

type tape struct {
	entries []entry
	last    map[string]int // the place of each id's newest entry
}

// entry is one event. The event number i of a request is the member i:id of the sorted set, which holds it once.
type entry struct {
	time   int64  // µs of the log's time
	id     string // empty in a log that keeps none
	number int
	before int // the place of the entry of this id before this one, or -1
}

func (e entry) member() string { return strconv.Itoa(e.number) + ":" + e.id }

// compare orders entries as a sorted set does.
func (e entry) compare(f entry) int {
	return cmp.Or(cmp.Compare(e.time, f.time), cmp.Compare(e.member(), f.member()))
}

// mostLogged fills the log at once whenever the window has passed.
func mostLogged(l limiter.Limit, from, to time.Time) int64 {
	if to.Before(from) {
		return 0
	}
	return product(l.Events, (to.UnixMicro()-from.UnixMicro())/window(l)+1).small()
}

// clock is the time that g takes t for. pulled says that g had to set its offset for it.
func (g log) clock(t int64) (at log, now int64, pulled bool) {
	if g.lo < g.hi {
		if newest := g.newest(); newest > t+g.offset {
			g.offset, pulled = newest-t, true
		}
	}
	return g, t + g.offset, pulled
}

func (g log) newest() int64 { return g.tape.entries[g.hi-1].time }

// after is the place of the first entry later than t.
func (g log) after(t int64) int {
	lo, hi := g.lo, g.hi
	for lo < hi {
		if mid := (lo + hi) / 2; g.tape.entries[mid].time > t {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// decide tells whether r passes at now by what g holds, and what is told then.
func (g log) decide(now int64, r Request) answer {
	w, limit := window(r.Limit), r.Limit.Events
	oldest := g.after(now - w)
	count := int64(g.hi - oldest)

	var a answer
	switch excess := count + r.Cost - limit; {
	case r.Cost > limit:
		a.retry = never
	case excess <= 0:
		a.allowed = true
		count += r.Cost
	default:
		a.retry = g.tape.entries[oldest+int(excess)-1].time + w - now
	}
	a.remaining = max(0, limit-count)
	switch {
	case a.allowed && r.Cost > 0:
		a.reset = w
	case count > 0:
		a.reset = g.newest() + w - now
	}
	return a
}

// push appends n entries of one request.
func (g log) push(now int64, id string, n int64) log {
	if g.tape == nil || g.hi < len(g.tape.entries) || g.lo > g.hi/2+spare {
		g = g.copied(g.held())
	}
	for i := range n {
		g.tape.add(entry{time: now, id: id, number: int(i) + 1})
	}
	g.hi += int(n)
	return g
}

// trim drops the oldest entries that have left the window, a slice at most. Where that parts entries of one time, they
// go in the sorted set's order.
func (g log) trim(now int64, l limiter.Limit) log {
	n := min(g.after(now-window(l))-g.lo, slice)
	if cut := g.lo + n; n > 0 && cut < g.hi && g.tape.entries[cut-1].time == g.tape.entries[cut].time {
		g = g.copied(slices.SortedFunc(slices.Values(g.held()), entry.compare))
	}
	g.lo += n
	return g
}

// alike tells whether two logs hold the same entries.
func (g log) alike(h log) bool {
	return g.offset == h.offset && slices.EqualFunc(g.held(), h.held(), func(a, b entry) bool {
		return a.time == b.time && a.id == b.id && a.number == b.number
	})
}

func (g log) held() []entry {
	if g.tape == nil {
		return nil
	}
	return g.tape.entries[g.lo:g.hi]
}

// copied is g with these entries on a tape of its own.
func (g log) copied(held []entry) log {
	own := &tape{entries: make([]entry, 0, len(held)+len(held)/2+1)}
	for _, e := range held {
		own.add(e)
	}
	return log{tape: own, hi: len(held), offset: g.offset}
}

func (p *tape) add(e entry) {
	e.before = -1
	if e.id != "" {
		if last, ok := p.last[e.id]; ok {
			e.before = last
		} else if p.last == nil {
			p.last = map[string]int{}
		}
		p.last[e.id] = len(p.entries)
	}
	p.entries = append(p.entries, e)
}
