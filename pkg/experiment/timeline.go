package experiment

import (
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/report"
)

// timeline counts in steps of equal length, aligned to the epoch. Where there are too many, two or more become one, so that
// a log of any length has a bounded number of them, and one of a second still has milliseconds. Times must not run back
// before the first step.
type timeline struct {
	step   int64 // µs
	first  int64 // the first step, counted from the epoch
	counts []int64
}

// steps are the lengths that timelines go through, each a multiple of the one before; after the last one it doubles.
var steps = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute, 10 * time.Minute,
	time.Hour, 6 * time.Hour, 24 * time.Hour,
}

// maxSteps is how many steps are kept while counting.
const maxSteps = 4800

func newTimeline() timeline { return timeline{step: steps[0].Microseconds()} }

// add counts one at a time.
func (t *timeline) add(at int64) {
	if len(t.counts) > 0 { // most come in the last step
		if last := (t.first + int64(len(t.counts)) - 1) * t.step; at >= last && at < last+t.step {
			t.counts[len(t.counts)-1]++
			return
		}
	}
	if len(t.counts) == 0 {
		t.first = at / t.step
	}
	for at/t.step-t.first >= maxSteps {
		t.widen(nextStep(t.step))
	}
	n := int(at/t.step - t.first)
	for len(t.counts) <= n {
		t.counts = append(t.counts, 0)
	}
	t.counts[n]++
}

func nextStep(step int64) int64 {
	for _, s := range steps {
		if s.Microseconds() > step {
			return s.Microseconds()
		}
	}
	return 2 * step
}

// widen makes the steps as long as given, which is a multiple of what they are.
func (t *timeline) widen(step int64) {
	first := t.first * t.step / step
	var counts []int64
	for i, c := range t.counts {
		n := int((t.first+int64(i))*t.step/step - first)
		for len(counts) <= n {
			counts = append(counts, 0)
		}
		counts[n] += c
	}
	*t = timeline{step, first, counts}
}

// plus adds what another one counted.
func (t *timeline) plus(other timeline) {
	if len(other.counts) == 0 {
		return
	}
	if len(t.counts) == 0 {
		*t = timeline{other.step, other.first, slices.Clone(other.counts)}
		return
	}
	step := max(t.step, other.step)
	other = timeline{other.step, other.first, slices.Clone(other.counts)}
	t.widen(step)
	other.widen(step)
	first := min(t.first, other.first)
	last := max(t.first+int64(len(t.counts)), other.first+int64(len(other.counts)))
	counts := make([]int64, last-first)
	for _, of := range []timeline{*t, other} {
		for i, c := range of.counts {
			counts[of.first+int64(i)-first] += c
		}
	}
	*t = timeline{step, first, counts}
}

// within is the timeline from one step to another, in steps of the length given; what lies outside of it has no counts.
func (t timeline) within(step, first, last int64) []int64 {
	counts := make([]int64, last-first+1)
	for i, c := range t.counts {
		counts[(t.first+int64(i))*t.step/step-first] += c
	}
	return counts
}

// round is the shortest of the usual lengths of time, a multiple of step, of which most are enough for the timeline.
func (t timeline) round(most int64) (step int64) {
	step = t.step
	enough := func() bool { return (t.first+int64(len(t.counts)))*t.step/step-t.first*t.step/step < most }
	for _, d := range report.RoundTimes() {
		if us := d.Microseconds(); us > step && us%t.step == 0 && !enough() {
			step = us
		}
	}
	for !enough() {
		step *= 2
	}
	return step
}
