package experiment

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// However long and however uneven, a timeline loses no count and moves none into another step than its own.
func TestTimelines(t *testing.T) {
	t.Parallel()
	for _, span := range []time.Duration{0, time.Millisecond, 3 * time.Second, 50 * time.Minute, 400 * 24 * time.Hour, 90 * 365 * 24 * time.Hour} {
		rnd := rand.New(rand.NewPCG(uint64(span), 1))
		var times []int64
		for range 2000 {
			times = append(times, 1_000_000_123_456+rnd.Int64N(span.Microseconds()+1))
		}
		slices.Sort(times)
		all := newTimeline()
		parts := []timeline{newTimeline(), newTimeline(), newTimeline()}
		for _, at := range times {
			all.add(at)
			if parts[2].counts == nil { // one whose steps stay short
				parts[2].add(at)
				continue
			}
			parts[rnd.IntN(2)].add(at)
		}
		sum := newTimeline()
		for _, p := range parts {
			sum.plus(p)
		}
		for name, tl := range map[string]timeline{"one": all, "of parts": sum} {
			step := tl.round(100)
			first, last := times[0]/step, times[len(times)-1]/step
			counts := tl.within(step, first, last)
			if len(counts) > 100 || len(tl.counts) > maxSteps {
				t.Errorf("%v, %s: %d steps of %d", span, name, len(counts), len(tl.counts))
			}
			for _, at := range times {
				counts[at/step-first]--
			}
			if slices.Max(counts) != 0 || slices.Min(counts) != 0 {
				t.Errorf("%v, %s: differs in steps of %d µs", span, name, step)
			}
		}
	}
}
