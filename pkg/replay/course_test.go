package replay

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// stepping makes the history of n calls that a correct limiter leaves behind on a clock that is set half-way, and the
// course of that clock. CLOCK_MONOTONIC counts from epoch here.
func stepping(rule model.Rule, n int, by time.Duration, seed uint64) ([]history.Op, Course) {
	r := rand.New(rand.NewPCG(seed, 0))
	state, mono := rule.Fresh, int64(0)
	var off time.Duration
	var c Course
	read := func() {
		at := epoch.Add(time.Duration(mono) + off).Truncate(time.Microsecond)
		c.Readings = append(c.Readings, history.Reading{Server: at, Before: mono - 50_000, After: mono + 50_000})
	}
	var ops []history.Op
	for i := range n {
		mono += r.Int64N(300_000) + 1_000
		if i%40 == 0 {
			read()
		}
		if i == n/2 {
			off += by
			c.Steps = append(c.Steps, history.Step{Before: mono - 10, After: mono + 10})
			mono += 1_000
		}
		at := epoch.Add(time.Duration(mono) + off).Truncate(time.Microsecond)
		op := history.Op{Client: i % 4, Seq: int64(i), Outcome: history.Decided, Call: mono - r.Int64N(200_000), Return: mono + r.Int64N(200_000) + 1_000}
		op.Request = model.Request{Limit: limit, Cost: 1 + int64(r.IntN(2)), ID: fmt.Sprint(i)}
		state, op.Decision = state.Check(at, op.Request)
		op.Decision.At = at
		ops = append(ops, op)
	}
	mono += 1_000_000
	read()
	return ops, c
}

// TestStepsAreGoneOver: a limiter that pulls its state as the rule says holds across a step, and one that does not is
// found.
func TestStepsAreGoneOver(t *testing.T) {
	for name, rule := range rules {
		for _, by := range []time.Duration{0, -10 * time.Second, time.Hour, -time.Hour} {
			for seed := range uint64(10) {
				ops, course := stepping(rule(), 400, by, seed)
				if j := JudgeCourse(ops, rule(), course); j.Verdict != Held || j.Replayed != 400 {
					t.Fatalf("%s by %v, seed %d: %s: %s, %d replayed", name, by, seed, j.Verdict, j.Reason, j.Replayed)
				}
				ops[300].Decision.Remaining++
				if j := JudgeCourse(ops, rule(), course); j.Verdict != Broken {
					t.Errorf("%s by %v, seed %d, spoiled: %s: %s", name, by, seed, j.Verdict, j.Reason)
				}
			}
			ops, course := stepping(rule(), 400, by, 1)
			course.Steps = nil
			if j := JudgeCourse(ops, rule(), course); by != 0 && j.Verdict != Inconclusive {
				t.Errorf("%s by %v that nobody tells of: %s: %s", name, by, j.Verdict, j.Reason)
			}
		}
	}
}

// TestATimeThatTheClockNeverShowedIsBroken: each decision is placed by readings next to it.
func TestATimeThatTheClockNeverShowedIsBroken(t *testing.T) {
	for name, rule := range rules {
		ops, course := stepping(rule(), 400, 0, 1)
		state := rule().Fresh
		for i := range ops { // a clock of its own, 5 ms ahead
			ops[i].Decision.At = ops[i].Decision.At.Add(5 * time.Millisecond)
			state, ops[i].Decision = state.Check(ops[i].Decision.At, ops[i].Request)
		}
		if j := JudgeCourse(ops, rule(), course); j.Verdict != Broken {
			t.Errorf("%s: %s: %s", name, j.Verdict, j.Reason)
		}
	}
}

// lose takes every n-th reply away and says by when its call had counted.
func lose(ops []history.Op, n int, within time.Duration) (lost int) {
	for i := n; i < len(ops)-100; i += n {
		ops[i].Outcome, ops[i].Decision = history.Unknown, limiter.Decision{}
		ops[i].Until = ops[i].Return + within.Nanoseconds()
		lost++
	}
	return lost
}

// TestLostRepliesAreSettled: with a few lost at a time every rule holds to the end, and one that is wrong long after the
// last is found.
func TestLostRepliesAreSettled(t *testing.T) {
	for name, rule := range rules {
		for seed := range uint64(10) {
			ops, course := stepping(rule(), 3000, 0, seed)
			lost := lose(ops, 400, 5*time.Millisecond)
			j := JudgeCourse(ops, rule(), course)
			if j.Verdict != Held || j.Unknown != int64(lost) || j.Replayed < 1500 {
				t.Errorf("%s seed %d: %s: %s, %d unknown, %d settled, %d replayed", name, seed, j.Verdict, j.Reason, j.Unknown, j.Settled, j.Replayed)
			}
			last := len(ops) - 3
			ops[last].Decision.Remaining++
			if j := JudgeCourse(ops, rule(), course); j.Verdict != Broken {
				t.Errorf("%s seed %d, spoiled at the end: %s: %s", name, seed, j.Verdict, j.Reason)
			}
		}
	}
}

// TestABurstOfLostRepliesIsSettled: those of a server that stopped come in at one instant when it goes on, across a step
// of the clock too.
func TestABurstOfLostRepliesIsSettled(t *testing.T) {
	for name, rule := range rules {
		for _, by := range []time.Duration{0, -10 * time.Second, time.Hour} {
			ops, course := stepping(rule(), 1000, by, 1)
			for i := 500; i < 504; i++ {
				ops[i].Outcome, ops[i].Decision = history.Unknown, limiter.Decision{}
				ops[i].Until = ops[i].Return + int64(5*time.Millisecond)
			}
			if j := JudgeCourse(ops, rule(), course); j.Verdict != Held {
				t.Errorf("%s by %v: %s: %s", name, by, j.Verdict, j.Reason)
			}
		}
	}
}

// TestALostCallBeforeAStepBackAccusesNobody: it alone knows of the time before the step, of which what follows keeps
// what rule 6 says: a bucket is empty, though next to nothing was asked for. Without the step that is a fault.
func TestALostCallBeforeAStepBackAccusesNobody(t *testing.T) {
	for name, rule := range rules {
		for _, by := range []time.Duration{-10 * time.Second, -time.Hour, time.Hour} {
			ops, course := stepping(rule(), 400, by, 1)
			step := course.Steps[0]
			first := find(ops, func(op history.Op) bool { return op.Call > step.After })
			ops = slices.DeleteFunc(ops[first-1:], func(op history.Op) bool { return op.Call <= step.After && op.Return >= step.Before })
			lost := history.Op{Client: 9, Request: model.Request{Limit: limit, Cost: 1, ID: "lost"}, Outcome: history.Unknown,
				Call: step.Before - 3_000_000, Return: step.Before - 2_000_000, Until: ops[len(ops)-1].Return}
			state, _ := rule().Fresh.Check(epoch.Add(time.Duration(lost.Call+500_000)), lost.Request)
			for i := range ops {
				at := ops[i].Decision.At
				state, ops[i].Decision = state.Check(at, ops[i].Request)
			}
			ops = append(ops, lost)
			if j := JudgeCourse(ops, rule(), course); j.Verdict == Broken || j.Undershoot > 0 {
				t.Errorf("%s by %v: %s: %s, %d under", name, by, j.Verdict, j.Reason, j.Undershoot)
			}
			for i := range ops { // one that bears no time is bounded, by the same
				ops[i].Decision.At = time.Time{}
			}
			if j := JudgeCourse(ops, rule(), course); j.Verdict == Broken || j.Undershoot > 0 {
				t.Errorf("%s by %v, without times: %s: %s, %d under", name, by, j.Verdict, j.Reason, j.Undershoot)
			}
		}
	}
}

// TestTheWorstIntervalIsFound: six admissions in a window of five, hidden in a run that asks for little else.
func TestTheWorstIntervalIsFound(t *testing.T) {
	l := limiter.Limit{Events: 5, Window: time.Second}
	ms := int64(time.Millisecond)
	history6 := func(n int) []history.Op {
		var ops []history.Op
		for i := range n {
			call := 20_300*ms + int64(i)*10*ms
			op := history.Op{Client: i, Call: call, Return: call + ms, Outcome: history.Decided, Request: model.Request{Limit: l, Cost: 1}}
			op.Decision.Allowed = true
			ops = append(ops, op)
		}
		for i := range 20 {
			op := history.Op{Client: 100 + i, Call: 20_300 * ms, Return: 20_400 * ms, Outcome: history.Decided, Request: model.Request{Limit: l, Cost: 1}}
			op.Decision.RetryAfter = time.Second
			ops = append(ops, op)
		}
		return ops
	}
	start := time.Unix(1_700_000_000, 0)
	var course Course
	for i := range int64(40) {
		course.Readings = append(course.Readings, history.Reading{Server: start.Add(time.Duration(i) * time.Second), Before: i * 1000 * ms, After: i*1000*ms + 1000})
	}
	for _, rule := range []model.Rule{model.SlidingLog(), model.FixedWindow(), model.TokenBucket(), model.SlidingCounter()} {
		j := JudgeCourse(history6(6), rule, course)
		if j.Verdict != Broken || j.Overshoot != 1 || j.Worst == nil || len(j.Worst.In) != 6 || j.Worst.To.Sub(j.Worst.From) > time.Second {
			t.Errorf("six: %s: %s, %+v", j.Verdict, j.Reason, j.Worst)
		}
		if j := JudgeCourse(history6(5), rule, course); j.Verdict == Broken || j.Overshoot != 0 || j.Worst != nil {
			t.Errorf("five: %s: %s", j.Verdict, j.Reason)
		}
	}
}

// losing makes a course with one reply in ten thousand lost.
func losing(rule model.Rule, n int) ([]history.Op, Course) {
	ops, course := stepping(rule, n, time.Hour, 1)
	for i := 10_000; i < len(ops); i += 10_000 {
		ops[i].Outcome, ops[i].Decision = history.Unknown, limiter.Decision{}
		ops[i].Until = ops[i].Return + int64(5*time.Millisecond)
	}
	return ops, course
}

// TestManyDecisionsOfACourse holds a fifth of a million to a fifth of the promise of 2 s where the clock was read often,
// with 25 times that as a watchdog.
func TestManyDecisionsOfACourse(t *testing.T) {
	if testing.Short() {
		t.Skip("a promise of seconds is not measured under the race detector, nor in haste")
	}
	for name, rule := range rules {
		ops, course := losing(rule(), 200_000)
		runtime.GC()
		start := time.Now()
		j := JudgeCourse(ops, rule(), course)
		took := time.Since(start)
		t.Logf("%s: %v, %d replayed, %d settled, %d loose", name, took, j.Replayed, j.Settled, j.Loose)
		if j.Verdict != Held || took > 10*time.Second {
			t.Errorf("%s: %s: %s, %v", name, j.Verdict, j.Reason, took)
		}
	}
}

// BenchmarkAMillionDecisionsOfACourse is to take less than 2 s each.
func BenchmarkAMillionDecisionsOfACourse(b *testing.B) {
	for name, rule := range rules {
		b.Run(name, func(b *testing.B) {
			ops, course := losing(rule(), 1_000_000)
			for b.Loop() {
				if j := JudgeCourse(ops, rule(), course); j.Verdict != Held {
					b.Fatal(j.Reason)
				}
			}
		})
	}
}

func TestSpansNeverCountTooMuch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var in []placed
	for range 200 {
		least := r.Int64N(1000)
		in = append(in, placed{least, least + r.Int64N(200), &history.Op{Request: model.Request{Cost: 1 + r.Int64N(3)}}})
	}
	slices.SortFunc(in, func(a, b placed) int { return int(a.least - b.least) })
	s := newSpans(in)
	for from := int64(0); from < 1000; from += 7 {
		for to := from; to < 1200; to += 11 {
			certain := int64(0)
			for _, p := range in {
				if p.least >= from && p.most <= to {
					certain += p.Request.Cost
				}
			}
			if got := s.within(from, to); got > certain {
				t.Fatalf("from %d to %d: %d of %d", from, to, got, certain)
			}
		}
	}
}

// TestAReplyThatSaysNothingIsBroken: a lost reply excuses what follows, and a script that failed does not.
func TestAReplyThatSaysNothingIsBroken(t *testing.T) {
	for name, rule := range rules {
		for class, want := range map[limiter.Class]Verdict{limiter.ClassNoAnswer: Held, limiter.ClassScript: Broken} {
			ops, course := stepping(rule(), 1000, 0, 1)
			ops[500].Outcome, ops[500].Class, ops[500].Decision = history.Unknown, class, limiter.Decision{}
			ops[500].Until = ops[500].Return
			if j := JudgeCourse(ops, rule(), course); j.Verdict != want {
				t.Errorf("%s, %s: %s: %s", name, class, j.Verdict, j.Reason)
			}
		}
	}
}

// TestWhatCanNeverBeAdmittedDoesNotPress: any limiter denies it.
func TestWhatCanNeverBeAdmittedDoesNotPress(t *testing.T) {
	for name, rule := range rules {
		for cost, want := range map[int64]Verdict{limit.Events: Held, limit.Events + 1: Inconclusive} {
			ops := truthful(rule(), limit, 4, 1)
			state := rule().Fresh
			for i := range ops {
				ops[i].Request.Cost = 1
				if i > 1 {
					ops[i].Request.Cost = cost
				}
				at := ops[i].Decision.At
				state, ops[i].Decision = state.Check(at, ops[i].Request)
				ops[i].Call, ops[i].Return = ops[0].Call, at.UnixNano()+1_000_000
			}
			if j := exact(ops, rule()); j.Verdict != want || j.Denied == 0 {
				t.Errorf("%s, cost %d: %s: %s, %d denied", name, cost, j.Verdict, j.Reason, j.Denied)
			}
		}
	}
}
