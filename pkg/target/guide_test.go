package target_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

const day = 24 * time.Hour

// Clocks stay in a range that scripts count exactly in: an empty bucket may be full again 2^52 µs later, and 2^53 is
// the last number before which doubles hold all.
var (
	earliest = time.UnixMicro(1 << 50)
	latest   = time.UnixMicro(1 << 52)
)

// guide chooses where a walk goes next.
type guide struct {
	*rand.Rand
	entry target.Entry
}

func isLog(e target.Entry) bool { return strings.HasSuffix(e.Name, "-log") }

func isBucket(e target.Entry) bool {
	return strings.HasSuffix(e.Name, "gcra") || strings.HasSuffix(e.Name, "-bucket")
}

// capacity is the largest cost that e ever passes.
func capacity(e target.Entry, l limiter.Limit) int64 {
	if isBucket(e) {
		return l.Capacity()
	}
	return l.Events
}

// limits are those that do not divide their windows, and extremes of both.
func limits(e target.Entry) []limiter.Limit {
	if isLog(e) {
		return []limiter.Limit{
			{Events: 7, Window: time.Minute},
			{Events: 1, Window: time.Millisecond},
			{Events: 17, Window: 30 * time.Second},
			{Events: 100, Window: 400 * time.Millisecond},
			{Events: 999, Window: 999 * time.Millisecond},
			{Events: 1000, Window: day},
			{Events: 3001, Window: time.Minute}, // more than one admission trims
			{Events: 1000, Window: 366 * day},
		}
	}
	return []limiter.Limit{
		{Events: 7, Window: time.Minute},
		{Events: 1, Window: time.Millisecond},
		{Events: 17, Window: 30 * time.Second, Burst: 40},
		{Events: 31_623, Window: time.Second},
		{Events: 300_000, Window: time.Second},
		{Events: 999_983, Window: day},
		{Events: 1_000_000, Window: day, Burst: 3},
		{Events: 1_000_000_000, Window: time.Second},
		{Events: 1_000_000_000, Window: 366*day - µs},
		{Events: 999_999_937, Window: 366 * day, Burst: 142_000_000},
	}
}

func (g *guide) limit() limiter.Limit { return pick(g, limits(g.entry)) }

// change is another limit, or l with another number.
func (g *guide) change(l limiter.Limit) limiter.Limit {
	next := l
	switch g.IntN(6) {
	case 0:
		next.Events = pick(g, []int64{0, 1, l.Events / 2, l.Events - 1, l.Events + 1, l.Events * 3})
	case 1:
		next.Window = pick(g, []time.Duration{time.Millisecond, 400 * time.Millisecond, 1500 * time.Millisecond,
			l.Window / 2, l.Window - µs, l.Window + µs, l.Window * 3, 30*time.Second + µs}).Truncate(µs)
	case 2, 3:
		next.Burst = pick(g, []int64{0, 1, 2, l.Events / 2, l.Events, 2*l.Events + 1, 1_000_000_000})
	default:
		next = g.limit()
	}
	if isLog(g.entry) && next.Events > 5000 || next.Validate() != nil || isBucket(g.entry) && next.ValidateBucket() != nil {
		return l
	}
	return next
}

func (g *guide) move(w *walker, l limiter.Limit, n int) move {
	m := move{Step: g.step(w, l), Persist: g.IntN(persist) == 0, Limit: l, Cost: g.cost(w, l), ID: fmt.Sprint("id", n)}
	if g.IntN(6) == 0 {
		m.ID = fmt.Sprint("id", max(0, n-g.IntN(20)))
	}
	if isLog(g.entry) && m.Cost <= l.Events {
		m.Cost = min(m.Cost, limiter.MaxLogCost)
	}
	return m
}

// step is how far the clock moves: nothing, a µs, to an edge of a window or of what the last reply told, or back.
func (g *guide) step(w *walker, l limiter.Limit) time.Duration {
	var step time.Duration
	edge := pick(g, []time.Duration{0, µs, -µs})
	switch g.IntN(12) {
	case 0, 1, 2:
	case 3:
		step = µs
	case 4:
		step = l.Window/time.Duration(max(1, l.Events)) + edge
	case 5:
		step = l.Window + edge
	case 6:
		step = time.Duration(g.Int64N(int64(l.Window)))
	case 7:
		step = w.last.RetryAfter + edge
	case 8:
		step = w.last.ResetAfter + edge
	case 9:
		step = g.farther(w, l)
	default:
		step = l.Window / time.Duration(1+g.IntN(50))
	}
	if step < 0 && g.IntN(4) > 0 || w.now.Add(step).After(latest) || w.now.Add(step).Before(earliest) {
		return 0
	}
	return step.Truncate(µs)
}

// farther goes where walks seldom do: back, beyond several windows, and to the millisecond in which the key dies.
func (g *guide) farther(w *walker, l limiter.Limit) time.Duration {
	death := time.Duration(0)
	if dies := w.state.Expires(); !dies.IsZero() && dies.Before(latest) {
		death = dies.Add(time.Millisecond).Sub(w.now)
	}
	return pick(g, []time.Duration{
		-µs, -l.Window / 3, -l.Window, -10 * time.Second, -time.Hour, -time.Duration(g.Int64N(int64(3 * l.Window))),
		2*l.Window - µs, 2 * l.Window, 3 * l.Window, time.Hour, death - µs, death,
	})
}

func (g *guide) cost(w *walker, l limiter.Limit) int64 {
	room := capacity(g.entry, l)
	return max(0, pick(g, []int64{
		0, 1, 1, 1, 1, 2, room / 10, room / 3, room - 1, room, room + 1, w.last.Remaining, w.last.Remaining + 1,
		g.Int64N(room + 1), limiter.MaxCost,
	}))
}

func pick[T any](g *guide, from []T) T { return from[g.IntN(len(from))] }
