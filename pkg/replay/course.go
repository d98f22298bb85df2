package replay

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// Course is what is known of the server's clock during a history: readings in their order, the first before all calls
// and the last after them, and when it was set. Between two steps, in an era, the clock goes at our rate. A decision is
// in the era in which its call was under way; where a step was made meanwhile, its time tells on which side it was.
type Course struct {
	Readings []history.Reading
	Steps    []history.Step
}

// era is a stretch of the clock in which it was not set.
type era struct {
	number   int
	from, to int64 // ns; calls that ended before or began after are not in it
	readings []history.Reading
}

// eras cuts the course at its steps. An era in which the clock was never read is one without readings, of which any
// time may be.
func (c Course) eras() []era {
	steps := slices.SortedFunc(slices.Values(c.Steps), func(a, b history.Step) int { return int(a.Before - b.Before) })
	const always = int64(1) << 62
	from, clear := -always, -always
	var out []era
	for i := 0; i <= len(steps); i++ {
		end := history.Step{Before: always, After: always}
		if i < len(steps) {
			end = steps[i]
		}
		e := era{number: i, from: from, to: end.After}
		for _, r := range c.Readings {
			if r.Before >= clear && r.After <= end.Before {
				e.readings = append(e.readings, r)
			}
		}
		out = append(out, e)
		from, clear = end.Before, end.After
	}
	return out
}

// ever is the end of a time in which the clock is never set.
const ever = int64(math.MaxInt64)

// untilSet is the instant up to which the clock was certainly not set.
func untilSet(eras []era) int64 {
	if len(eras) < 2 {
		return ever
	}
	return eras[1].from
}

// bounds are the least and the most that the server's clock can have shown at an instant, by the readings next to it.
func (e era) bounds(ns int64) (least, most time.Time) {
	i := sort.Search(len(e.readings), func(i int) bool { return e.readings[i].Before >= ns })
	for j := max(0, i-2); j < min(len(e.readings), i+2); j++ {
		lo, hi := around(e.readings[j], ns)
		if least.IsZero() || lo.After(least) {
			least = lo
		}
		if most.IsZero() || hi.Before(most) {
			most = hi
		}
	}
	return least, most
}

// around is what the clock can have shown at an instant, by one reading. The clock is told in whole microseconds, cut
// off.
func around(r history.Reading, ns int64) (least, most time.Time) {
	away := func(from int64) time.Duration { return time.Duration(ns - from) }
	slack := time.Duration(max(abs(ns-r.Before), abs(ns-r.After)) / drift)
	return r.Server.Add(away(r.After) - slack).Truncate(time.Microsecond), r.Server.Add(away(r.Before) + slack + time.Microsecond)
}

func abs(n int64) int64 { return max(n, -n) }

// contradicted finds a reading that no clock at our rate can have shown after the one before it.
func (e era) contradicted() (by time.Duration, yes bool) {
	for i := 1; i < len(e.readings); i++ {
		least, most := around(e.readings[i-1], e.readings[i].Before)
		_, latest := around(e.readings[i-1], e.readings[i].After)
		switch at := e.readings[i].Server; {
		case at.Before(least):
			return at.Sub(least), true
		case at.After(latest):
			return at.Sub(most), true
		}
	}
	return 0, false
}

// holds tells whether a decision may have been made in this era: its call was under way in it, at its time.
func (e era) holds(op *history.Op) bool {
	if op.Return < e.from || op.Call > e.to {
		return false
	}
	if len(e.readings) == 0 || op.Decision.At.IsZero() {
		return true
	}
	least, _ := e.bounds(max(op.Call, e.from))
	_, most := e.bounds(min(op.Return, e.to))
	return !op.Decision.At.Before(least) && !op.Decision.At.After(most)
}

// place returns the number of the era that a decision was made in, -1 if it can have been in none.
func place(eras []era, op *history.Op) int {
	i := sort.Search(len(eras), func(i int) bool { return eras[i].to >= op.Call })
	for ; i < len(eras) && eras[i].from <= op.Return; i++ {
		if eras[i].holds(op) {
			return i
		}
	}
	return -1
}

// supposed gives an era in which the clock was never read a clock that agrees with ours. Where in a window it stands is not
// known: the rule then admits what it does from any point of one.
func supposed(eras []era, rule model.Rule, ops []history.Op) ([]era, model.Rule) {
	unread := false
	for i, e := range eras {
		if len(e.readings) > 0 || len(ops) == 0 {
			continue
		}
		unread = true
		first := slices.MinFunc(ops, func(a, b history.Op) int { return cmp.Compare(a.Call, b.Call) }).Call
		eras[i].readings = []history.Reading{{Server: supposedStart, Before: first, After: first}}
	}
	if !unread {
		return eras, rule
	}
	most := rule.Most
	rule.Most = func(l limiter.Limit, from, to time.Time) int64 {
		edge := time.UnixMicro(l.Window.Microseconds() - 1) // the last instant of a window
		return max(most(l, from, to), most(l, edge, edge.Add(to.Sub(from))))
	}
	return eras, rule
}

// supposedStart is any time after 1970.
var supposedStart = time.Unix(1_000_000_000, 0)
