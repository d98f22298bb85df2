package replay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// remembering makes the history of four processes that remember their refusals, and ask one after another, some 150 µs
// apart. In the middle the server's clock is set.
func remembering(rule model.Rule, n int, by time.Duration, seed uint64) ([]history.Op, Course) {
	type known struct {
		told limiter.Decision
		sent int64
	}
	r := rand.New(rand.NewPCG(seed, 0))
	state, mono, off := rule.Fresh, int64(0), time.Duration(0)
	var c Course
	var ops []history.Op
	memories := map[memorized]known{}
	for i := range n {
		mono += r.Int64N(300_000) + 1_000
		if i%40 == 0 || i == n-1 {
			at := epoch.Add(time.Duration(mono) + off).Truncate(time.Microsecond)
			c.Readings = append(c.Readings, history.Reading{Server: at, Before: mono - 50_000, After: mono + 50_000})
		}
		if i == n/2 && by != 0 {
			off += by
			c.Steps = append(c.Steps, history.Step{Before: mono - 10, After: mono + 10})
			mono += 1_000
		}
		op := history.Op{Proc: i % 4, Seq: int64(i), Outcome: history.Decided}
		op.Call, op.Return = mono-r.Int64N(100_000), mono+r.Int64N(100_000)+1_000
		op.Request = model.Request{Limit: limit, Cost: 1 + int64(r.IntN(2)), ID: fmt.Sprint(i)}
		by := memorized{op.Proc, op.Request.Cost}
		sent := op.Call + r.Int64N(mono-op.Call+1)
		k, ok := memories[by]
		if since := time.Duration(sent-k.sent+999) / time.Microsecond * time.Microsecond; ok && since < k.told.RetryAfter {
			op.Decision = limiter.Decision{
				Remaining: k.told.Remaining, RetryAfter: k.told.RetryAfter - since, ResetAfter: k.told.ResetAfter - since,
			}
		} else {
			at := epoch.Add(time.Duration(mono) + off).Truncate(time.Microsecond)
			state, op.Decision = state.Check(at, op.Request)
			op.Decision.At = at
			delete(memories, by)
			if !op.Decision.Allowed {
				memories[by] = known{op.Decision, sent}
			}
		}
		ops = append(ops, op)
	}
	return ops, c
}

func recallingRules() map[string]model.Rule {
	all := map[string]model.Rule{}
	for name, rule := range rules {
		r := rule()
		r.Recalls = true
		all[name] = r
	}
	return all
}

func fromAMemory(op history.Op) bool { return op.Outcome == history.Decided && op.Decision.At.IsZero() }

// TestWhatIsRememberedHolds: also when the clock was set, after which what was told before is not compared.
func TestWhatIsRememberedHolds(t *testing.T) {
	for name, rule := range recallingRules() {
		for _, by := range []time.Duration{0, time.Hour, -10 * time.Second} {
			for seed := range uint64(20) {
				ops, course := remembering(rule, 400, by, seed)
				j := JudgeCourse(ops, rule, course)
				local := int64(0)
				for _, op := range ops {
					if fromAMemory(op) {
						local++
					}
				}
				pressed := local >= 50 && j.Recalled+j.Loose == local && j.Recalled >= local*3/4 && (by != 0 || j.Loose == 0)
				if j.Verdict != Held || !pressed {
					t.Fatalf("%s by %v, seed %d: %s: %s; %d of %d recalled, %d loose",
						name, by, seed, j.Verdict, j.Reason, j.Recalled, local, j.Loose)
				}
				if !strings.Contains(j.Reason, "from memory") || j.Replayed+local != 400 {
					t.Errorf("%s: %s, %d replayed", name, j.Reason, j.Replayed)
				}
				rule := rule
				if rule.Recalls = false; JudgeCourse(ops, rule, course).Verdict != Inconclusive {
					t.Errorf("%s: a limiter that has to tell the time was let off without", name)
				}
			}
		}
	}
}

// TestOneWrongMemoryIsFound spoils one answer from memory in a history that otherwise holds.
func TestOneWrongMemoryIsFound(t *testing.T) {
	spoils := map[string]func(op *history.Op){
		"admitted":      func(op *history.Op) { op.Decision.Allowed, op.Decision.RetryAfter = true, 0 },
		"one more left": func(op *history.Op) { op.Decision.Remaining++ },
		"a longer wait": func(op *history.Op) { op.Decision.RetryAfter += time.Millisecond },
		"both longer": func(op *history.Op) {
			op.Decision.RetryAfter += time.Millisecond
			op.Decision.ResetAfter += time.Millisecond
		},
		"both shorter": func(op *history.Op) {
			op.Decision.RetryAfter, op.Decision.ResetAfter = op.Decision.RetryAfter/2, op.Decision.ResetAfter-op.Decision.RetryAfter/2
		},
		"of another cost":    func(op *history.Op) { op.Request.Cost = 3 },
		"of another process": func(op *history.Op) { op.Proc = 9 },
	}
	for name, rule := range recallingRules() {
		for what, spoil := range spoils {
			ops, course := remembering(rule, 400, 0, 1)
			spoiled := 0
			for k := range ops {
				was := ops[k]
				if k%5 > 0 || !fromAMemory(was) || was.Decision.RetryAfter < time.Millisecond {
					continue
				}
				spoil(&ops[k])
				spoiled++
				if j := JudgeCourse(ops, rule, course); j.Verdict != Broken {
					t.Errorf("%s, %s in call %d: %s: %s", name, what, k, j.Verdict, j.Reason)
				}
				ops[k] = was
			}
			if spoiled < 5 {
				t.Errorf("%s, %s: only %d were spoiled", name, what, spoiled)
			}
		}
	}
}

// TestAMemoryThatIsLateIsFound: one that counts a wait from when the answer was there, which came late, tells what it was
// told, and still refuses when the server no longer would. Up to what a reading of the clock leaves open nobody is accused.
func TestAMemoryThatIsLateIsFound(t *testing.T) {
	ms := func(n float64) int64 { return int64(n * float64(time.Millisecond)) }
	at := func(ns int64) time.Time { return epoch.Add(time.Duration(ns)) }
	later := 0
	for name, rule := range recallingRules() {
		for lag, want := range map[float64]Verdict{-0.1: Held, 0.6: Broken, 3: Broken} { // ms after the server would let it pass
			state, ops := rule.Fresh, []history.Op{}
			ask := func(proc int, ns, returns int64, cost int64) *history.Op {
				op := history.Op{Proc: proc, Seq: int64(len(ops)), Outcome: history.Decided, Call: ns - 1_000, Return: returns}
				op.Request = model.Request{Limit: limit, Cost: cost, ID: fmt.Sprint(len(ops))}
				state, op.Decision = state.Check(at(ns), op.Request)
				op.Decision.At = at(ns)
				ops = append(ops, op)
				return &ops[len(ops)-1]
			}
			ask(1, ms(1), ms(1.1), 7)
			refused := *ask(0, ms(2), ms(6), 1)
			ask(1, ms(2), ms(6), 1)
			op := refused
			op.Seq, op.Call = 9, ms(2+lag)+refused.Decision.RetryAfter.Nanoseconds()
			op.Return = op.Call + 1_000
			if ms(6) > op.Return { // it cannot have known then
				continue
			}
			since := time.Duration(op.Return - ms(6)).Truncate(time.Microsecond)
			if want == Held { // as one does that counts from when it was sent
				since = refused.Decision.RetryAfter - 99*time.Microsecond
			}
			op.Decision = limiter.Decision{RetryAfter: refused.Decision.RetryAfter - since, ResetAfter: refused.Decision.ResetAfter - since}
			ops = append(ops, op)
			course := Course{}
			for n := int64(0); n < 60; n++ {
				now := n * time.Millisecond.Nanoseconds()
				course.Readings = append(course.Readings, history.Reading{Server: at(now), Before: now - 50_000, After: now + 50_000})
			}
			if j := JudgeCourse(ops, rule, course); j.Verdict != want || want == Broken && j.Undershoot != 1 {
				t.Errorf("%s, %v ms late: %s: %s, under %d", name, lag, j.Verdict, j.Reason, j.Undershoot)
			}
			for i := range course.Readings { // what cannot be placed is accused of nothing
				course.Readings[i].Before -= ms(20)
				course.Readings[i].After += ms(20)
			}
			if j := JudgeCourse(ops, rule, course); j.Verdict != Held {
				t.Errorf("%s, %v ms late by readings that say little: %s: %s", name, lag, j.Verdict, j.Reason)
			}
			ask(1, op.Call-ms(0.2), op.Call-ms(0.1), 0)                                  // unless one that was answered before bears a time that does
			ask(1, ms(0)+refused.Decision.RetryAfter.Nanoseconds(), op.Call-ms(0.08), 0) // and returned later
			if j := JudgeCourse(ops, rule, course); j.Verdict != want {
				t.Errorf("%s, %v ms late by another decision: %s: %s", name, lag, j.Verdict, j.Reason)
			}
			// One that was asked for later would explain it.
			if full := ask(1, op.Return+ms(0.5), op.Return+ms(0.6), 7); full.Decision.Allowed {
				if j := JudgeCourse(ops, rule, course); j.Verdict != want {
					t.Errorf("%s, %v ms late by a later decision: %s: %s", name, lag, j.Verdict, j.Reason)
				}
				ask(2, op.Return+ms(0.8), op.Return+ms(0.9), 0).Call = op.Return + 1 // called first, and decided after it
				if j := JudgeCourse(ops, rule, course); j.Verdict != want {
					t.Errorf("%s, %v ms late by two later decisions: %s: %s", name, lag, j.Verdict, j.Reason)
				}
				later++
			}
		}
	}
	if later < 4 {
		t.Errorf("%d were followed by a decision that would explain them", later)
	}
}

// TestALostCallAccusesNoMemory: it may have come in, and then a wait is longer than replies tell.
func TestALostCallAccusesNoMemory(t *testing.T) {
	for name, rule := range recallingRules() {
		for seed := range uint64(20) {
			ops, course := remembering(rule, 400, 0, seed)
			at := 80 + find(ops[80:], history.Op.Admitted)
			ops[at].Outcome, ops[at].Decision = history.Unknown, limiter.Decision{}
			ops[at].Until = ops[at].Return + limit.Window.Nanoseconds()
			if j := JudgeCourse(ops, rule, course); j.Verdict != Held || j.Recalled < 50 {
				t.Errorf("%s, seed %d: %s: %s, %d recalled, %d loose", name, seed, j.Verdict, j.Reason, j.Recalled, j.Loose)
			}
		}
	}
}

// TestAcrossAFailoverMemoriesAreNotCompared: what they tell may be of what was lost.
func TestAcrossAFailoverMemoriesAreNotCompared(t *testing.T) {
	for name, rule := range recallingRules() {
		ops, course := remembering(rule, 400, 0, 1)
		local := int64(0)
		for i := range ops {
			if fromAMemory(ops[i]) {
				local++
				ops[i].Decision.Remaining = 0
			}
		}
		j, _ := JudgeFailover(ops, rule, course, ops[200].Call)
		if j.Verdict != Held || j.Loose != local || j.Attempts != 400 || j.Replayed != 400-local {
			t.Errorf("%s: %s: %s; %d of %d loose, %d attempts, %d replayed",
				name, j.Verdict, j.Reason, j.Loose, local, j.Attempts, j.Replayed)
		}
	}
}
