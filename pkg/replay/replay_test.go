package replay

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

var rules = map[string]func() model.Rule{
	"sliding-log": model.SlidingLog, "compact-log": model.CompactLog, "sliding-counter": model.SlidingCounter,
	"fixed-window": model.FixedWindow, "token-bucket": model.TokenBucket, "gcra": model.GCRA,
}

var limit = limiter.Limit{Events: 7, Window: 10 * time.Millisecond}

// epoch lies 2 ms into an aligned window.
var epoch = time.UnixMicro(1_700_000_000_002_000)

// truthful makes the history of n calls by 4 clients that a correct limiter leaves behind, about 100 µs apart. Each
// call begins up to 300 µs before its decision and ends up to 300 µs after.
func truthful(rule model.Rule, l limiter.Limit, n int, seed uint64) []history.Op {
	r := rand.New(rand.NewPCG(seed, 0))
	state, at := rule.Fresh, epoch
	free := [4]int64{} // when each client is next without a call under way
	ops := make([]history.Op, 0, n)
	for i := range n {
		at = at.Add(time.Duration(1+r.IntN(200)) * time.Microsecond)
		client := i % 4
		op := history.Op{Client: client, Seq: int64(i), Outcome: history.Decided, Call: at.UnixNano() - r.Int64N(300_000)}
		op.Call = max(op.Call, free[client])
		op.Call = min(op.Call, at.UnixNano())
		op.Return = at.UnixNano() + r.Int64N(300_000)
		free[client] = op.Return + 1
		op.Request = model.Request{Limit: l, Cost: 1 + int64(r.IntN(2)), ID: fmt.Sprint(i)}
		state, op.Decision = state.Check(at, op.Request)
		op.Decision.At = at
		ops = append(ops, op)
	}
	return ops
}

func find(ops []history.Op, want func(history.Op) bool) int { return slices.IndexFunc(ops, want) }

func TestCorrectHistoriesHold(t *testing.T) {
	for name, rule := range rules {
		for seed := range uint64(50) {
			ops := truthful(rule(), limit, 400, seed)
			rand.New(rand.NewPCG(seed, 1)).Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
			if j := exact(ops, rule()); j.Verdict != Held || j.Overshoot != 0 || j.Undershoot != 0 {
				t.Fatalf("%s seed %d: %s: %s", name, seed, j.Verdict, j.Reason)
			}
		}
	}
}

// TestOneWrongFieldIsFound spoils one thing in a history that otherwise holds.
func TestOneWrongFieldIsFound(t *testing.T) {
	spoils := map[string]func(ops []history.Op){
		"a denial allowed":    func(ops []history.Op) { ops[find(ops, history.Op.Denied)].Decision.Allowed = true },
		"an admission denied": func(ops []history.Op) { ops[find(ops, history.Op.Admitted)].Decision.Allowed = false },
		"remaining too high":  func(ops []history.Op) { ops[100].Decision.Remaining++ },
		"remaining too low":   func(ops []history.Op) { ops[100].Decision.Remaining-- },
		"retry too short": func(ops []history.Op) {
			ops[find(ops, history.Op.Denied)].Decision.RetryAfter -= time.Microsecond
		},
		"reset too long": func(ops []history.Op) { ops[100].Decision.ResetAfter += time.Microsecond },
		"the first to return bears the latest time": func(ops []history.Op) {
			ops[0].Decision.At = ops[399].Decision.At.Add(time.Millisecond)
		},
		"sorted so that it would be valid": func(ops []history.Op) {
			i := find(ops, func(op history.Op) bool { return op.Return < ops[399].Call })
			ops[i].Call, ops[399].Call = ops[399].Call, ops[i].Call
			ops[i].Return, ops[399].Return = ops[399].Return, ops[i].Return
		},
	}
	for name, rule := range rules {
		for what, spoil := range spoils {
			ops := truthful(rule(), limit, 400, 1)
			spoil(ops)
			if j := exact(ops, rule()); j.Verdict != Broken {
				t.Errorf("%s, %s: %s: %s", name, what, j.Verdict, j.Reason)
			}
		}
	}
}

// TestUntoldFieldsAreNotCompared makes rubbish of what is not told: the rest is still judged, and only the rest.
func TestUntoldFieldsAreNotCompared(t *testing.T) {
	spoils := map[model.Fields]func(d *limiter.Decision){
		model.Remaining:  func(d *limiter.Decision) { d.Remaining += 3 },
		model.RetryAfter: func(d *limiter.Decision) { d.RetryAfter += time.Second },
		model.ResetAfter: func(d *limiter.Decision) { d.ResetAfter = 0 },
	}
	for name, rule := range rules {
		for field, spoil := range spoils {
			for _, untold := range []model.Fields{field, model.AllFields, model.AllFields &^ field} {
				ops, r := truthful(rule(), limit, 400, 1), rule()
				for i := range ops {
					spoil(&ops[i].Decision)
				}
				was := slices.Clone(ops)
				want := Held
				if r.Untold = untold; untold&field == 0 {
					want = Broken
				}
				if j := exact(ops, r); j.Verdict != want {
					t.Errorf("%s, rubbish in %b, untold %b: %s: %s, want %s", name, field, untold, j.Verdict, j.Reason, want)
				}
				if !slices.Equal(ops, was) {
					t.Errorf("%s: the history was changed", name)
				}
				ops[find(ops, history.Op.Denied)].Decision.Allowed = true
				if j := exact(ops, r); j.Verdict != Broken {
					t.Errorf("%s, untold %b, and a denial allowed: %s: %s", name, untold, j.Verdict, j.Reason)
				}
			}
		}
	}
}

// TestLostReplies takes replies away: the history still holds, for the call may have been counted. Without the call
// itself it does not, for then nothing explains what the next reply says.
func TestLostReplies(t *testing.T) {
	for name, rule := range rules {
		for seed := range uint64(20) {
			ops := truthful(rule(), limit, 200, seed)
			i := 10 + find(ops[10:], history.Op.Admitted)
			gone := slices.Delete(slices.Clone(ops), i, i+1)
			if j := exact(gone, rule()); j.Verdict != Broken {
				t.Errorf("%s seed %d: without an admitted call: %s", name, seed, j.Verdict)
			}
			ops[i].Outcome, ops[i].Decision = history.Unknown, limiter.Decision{}
			if j := exact(ops, rule()); j.Verdict == Broken || j.Unknown != 1 {
				t.Errorf("%s seed %d: with its reply lost: %s: %s", name, seed, j.Verdict, j.Reason)
			}
			d := 10 + find(ops[10:], history.Op.Denied)
			ops[d].Outcome, ops[d].Decision = history.Unknown, limiter.Decision{}
			if j := exact(ops, rule()); j.Verdict == Broken || j.Unknown != 2 {
				t.Errorf("%s seed %d: with a denial lost too: %s: %s", name, seed, j.Verdict, j.Reason)
			}
		}
	}
}

// TestLostReplyOfABucketIsSettled: what a bucket holds does not depend on when the lost take came, so it must be found.
func TestLostReplyOfABucketIsSettled(t *testing.T) {
	for _, rule := range []model.Rule{model.TokenBucket(), model.GCRA()} {
		ops := truthful(rule, limit, 200, 3)
		i := 10 + find(ops[10:], history.Op.Admitted)
		ops[i].Outcome, ops[i].Decision = history.Unknown, limiter.Decision{}
		if j := exact(ops, rule); j.Verdict != Held {
			t.Errorf("%s: %s", j.Verdict, j.Reason)
		}
	}
}

func TestLostReplyExcusesNoGenerosity(t *testing.T) {
	rule := model.TokenBucket()
	ops := truthful(rule, limit, 200, 1)
	ops[find(ops, history.Op.Denied)].Decision.Allowed = true
	lost := ops[0]
	lost.Client, lost.Outcome, lost.Decision = 9, history.Unknown, limiter.Decision{}
	if j := exact(append(ops, lost), rule); j.Verdict != Broken {
		t.Errorf("%s: %s", j.Verdict, j.Reason)
	}
}

// TestLostReplyExcusesNoMeanness: 3 of 100 were taken and a fourth lost, so no order explains a denial.
func TestLostReplyExcusesNoMeanness(t *testing.T) {
	for name, rule := range rules {
		ops := truthful(rule(), limiter.Limit{Events: 100, Window: time.Minute}, 200, 1)
		ops[3].Outcome, ops[3].Decision = history.Unknown, limiter.Decision{}
		for i := range ops[4:] {
			ops[4+i].Decision.Allowed, ops[4+i].Decision.RetryAfter = false, time.Second
		}
		if j := exact(ops, rule()); j.Verdict != Broken || j.Undershoot == 0 {
			t.Errorf("%s: %s, undershoot %d: %s", name, j.Verdict, j.Undershoot, j.Reason)
		}
	}
}

func TestDecisionsOfOneMicrosecondStandEitherWayRound(t *testing.T) {
	for name, rule := range rules {
		state, at := rule().Fresh, epoch
		var ops []history.Op
		for i := range 300 {
			op := history.Op{Client: i, Outcome: history.Decided, Call: 0, Return: 1000}
			op.Request = model.Request{Limit: limit, Cost: 1, ID: fmt.Sprint(i)}
			state, op.Decision = state.Check(at, op.Request)
			op.Decision.At = at
			ops = append(ops, op)
		}
		slices.Reverse(ops)
		if j := exact(ops, rule()); j.Verdict != Held {
			t.Errorf("%s: %s: %s", name, j.Verdict, j.Reason)
		}
		for i := range ops {
			ops[i].Call, ops[i].Return = int64(i*10), int64(i*10+5) // now the last admitted came first
		}
		if j := exact(ops, rule()); j.Verdict != Broken {
			t.Errorf("%s against real time: %s", name, j.Verdict)
		}
	}
}

func TestWhatDidNotPressIsInconclusive(t *testing.T) {
	rule := model.FixedWindow()
	calls := func(n int, apart bool, l limiter.Limit) []history.Op {
		ops := truthful(rule, l, n, 1)
		for i := range ops {
			if apart {
				ops[i].Call, ops[i].Return = int64(10*i), int64(10*i+5)
			}
		}
		return ops
	}
	long := limiter.Limit{Events: 20, Window: time.Hour}
	for what, ops := range map[string][]history.Op{
		"nothing":                nil,
		"demand below the limit": calls(3, false, long),
		"one after the other":    calls(200, true, long),
		"everything denied":      calls(200, false, limiter.Limit{Window: time.Hour}),
	} {
		if j := exact(ops, rule); j.Verdict != Inconclusive || j.Reason == "" || j.Apart != (what == "one after the other") {
			t.Errorf("%s: %s, apart %v: %s", what, j.Verdict, j.Apart, j.Reason)
		}
	}
	if j := exact(calls(200, false, long), rule); j.Verdict != Held {
		t.Errorf("pressed: %s: %s", j.Verdict, j.Reason)
	}
}

// TestJudgeChoosesTheWay: without the server's time a history can only be bounded, and across a step of its clock
// nothing is said.
func TestJudgeChoosesTheWay(t *testing.T) {
	rule := model.FixedWindow()
	l := limiter.Limit{Events: 20, Window: time.Hour}
	ops := truthful(rule, l, 200, 1)
	first := history.Reading{Server: epoch, Before: epoch.UnixNano(), After: epoch.UnixNano()}
	after := epoch.Add(time.Second)
	last := history.Reading{Server: after, Before: after.UnixNano(), After: after.UnixNano()}
	if j := Judge(ops, rule, first, last); j.Verdict != Held || j.Replayed != 200 {
		t.Errorf("%s, %d replayed: %s", j.Verdict, j.Replayed, j.Reason)
	}
	stepped := last
	stepped.Server = after.Add(-time.Minute)
	if j := Judge(ops, rule, first, stepped); j.Verdict != Inconclusive || !strings.Contains(j.Reason, "stepped") {
		t.Errorf("stepped: %s: %s", j.Verdict, j.Reason)
	}
	ops[7].Decision.At = time.Time{}
	if j := Judge(ops, rule, first, last); j.Verdict != Inconclusive || j.Replayed != 0 {
		t.Errorf("one without a time: %s, %d replayed: %s", j.Verdict, j.Replayed, j.Reason)
	}
	for i := range ops {
		ops[i].Decision.At = time.Time{}
	}
	if j := Judge(ops, rule, first, last); j.Verdict != Held || j.Replayed != 0 {
		t.Errorf("without a time: %s, %d replayed: %s", j.Verdict, j.Replayed, j.Reason)
	}
}

// TestAClockOfItsOwnIsSeen: a limiter whose clock goes ten times as fast, or an hour ahead, is true to it in all it says.
func TestAClockOfItsOwnIsSeen(t *testing.T) {
	for name, rule := range rules {
		for what, clock := range map[string]func(time.Time) time.Time{
			"fast":  func(at time.Time) time.Time { return epoch.Add(10 * at.Sub(epoch)) },
			"slow":  func(at time.Time) time.Time { return epoch.Add(at.Sub(epoch) / 10) },
			"ahead": func(at time.Time) time.Time { return at.Add(time.Hour) },
			"true":  func(at time.Time) time.Time { return at },
		} {
			ops := truthful(rule(), limit, 400, 1)
			slices.SortFunc(ops, func(a, b history.Op) int { return a.Decision.At.Compare(b.Decision.At) })
			state, want := rule().Fresh, Broken
			for i := range ops {
				at := clock(ops[i].Decision.At)
				state, ops[i].Decision = state.Check(at, ops[i].Request)
			}
			if what == "true" {
				want = Held
			}
			end := epoch.Add(time.Second)
			j := Judge(ops, rule(), history.Reading{Server: epoch, Before: epoch.UnixNano(), After: epoch.UnixNano()},
				history.Reading{Server: end, Before: end.UnixNano(), After: end.UnixNano()})
			if j.Verdict != want {
				t.Errorf("%s, %s: %s: %s", name, what, j.Verdict, j.Reason)
			}
		}
	}
}

// TestManyLostRepliesEnd: a log's denial shows when its newest entry came. With 20 lost, the subsets are too many to try.
func TestManyLostRepliesEnd(t *testing.T) {
	for name, rule := range rules {
		ops := truthful(rule(), limiter.Limit{Events: 100, Window: time.Minute}, 300, 1)
		denied := find(ops, history.Op.Denied)
		for i := denied - 20; i < denied; i++ {
			ops[i].Outcome, ops[i].Decision = history.Unknown, limiter.Decision{}
		}
		start := time.Now()
		if j := exact(ops, rule()); j.Verdict == Broken || time.Since(start) > 10*time.Second {
			t.Errorf("%s: %s after %v: %s", name, j.Verdict, time.Since(start), j.Reason)
		}
	}
}

func TestBoundIsPassedByOneEvent(t *testing.T) {
	rule := model.TokenBucket()
	l := limiter.Limit{Events: 10, Window: time.Second}
	burst := func(allowed, denied int) []history.Op {
		var ops []history.Op
		for i := range allowed + denied {
			op := history.Op{Client: i, Outcome: history.Decided, Call: int64(i), Return: 1000}
			op.Request = model.Request{Limit: l, Cost: 1}
			op.Decision.Allowed = i < allowed
			ops = append(ops, op)
		}
		return ops
	}
	for _, c := range []struct {
		allowed, denied int
		passed          time.Duration
		want            Verdict
		over            int64
	}{
		{10, 5, 0, Held, 0}, {11, 5, 0, Broken, 1}, {11, 5, 100 * time.Millisecond, Held, 0}, {12, 5, 199 * time.Millisecond, Broken, 1},
		{9, 0, 0, Inconclusive, 0},
	} {
		j := byBound(burst(c.allowed, c.denied), rule, clock{history.Reading{Server: epoch}, history.Reading{Server: epoch.Add(c.passed), Before: 1000, After: 1000}})
		if j.Verdict != c.want || j.Overshoot != c.over {
			t.Errorf("%d allowed in %v: %s, over by %d: %s", c.allowed, c.passed, j.Verdict, j.Overshoot, j.Reason)
		}
	}
}

// TestBracketTakesOffWhatPassedOutsideTheCalls: of 10 s between the readings, the calls took 1.
func TestBracketTakesOffWhatPassedOutsideTheCalls(t *testing.T) {
	second := int64(time.Second)
	ops := []history.Op{
		{Outcome: history.Decided, Call: 1 * second, Return: 9 * second},
		{Outcome: history.Decided, Call: 5 * second, Return: 5*second + 1, Decision: limiter.Decision{Allowed: true}},
		{Outcome: history.Decided, Call: 5 * second, Return: 6 * second, Decision: limiter.Decision{Allowed: true}},
	}
	first := history.Reading{Server: epoch, Before: -10, After: 0}
	last := history.Reading{Server: epoch.Add(10 * time.Second), Before: 10 * second, After: 10 * second}
	from, to := clock{first, last}.bracket(ops)
	if from.After(epoch.Add(5*time.Second)) || to.Before(epoch.Add(6*time.Second)) || to.Sub(from) > 1060*time.Millisecond {
		t.Errorf("from %v to %v after the first reading", from.Sub(epoch), to.Sub(epoch))
	}
	if from, to := (clock{first, last}).bracket(ops[:1]); from != first.Server || to != last.Server {
		t.Errorf("with nothing admitted: %v to %v", from, to)
	}
}

func TestSteppedClocksAreSeen(t *testing.T) {
	ms := int64(time.Millisecond)
	first := history.Reading{Server: epoch, Before: 0, After: ms}
	last := func(passed time.Duration) history.Reading {
		return history.Reading{Server: epoch.Add(passed), Before: 1000 * ms, After: 1001 * ms}
	}
	for passed, want := range map[time.Duration]time.Duration{
		999 * time.Millisecond: 0, 1002 * time.Millisecond: 0, time.Second: 0, 0: -998_001 * time.Microsecond,
		-time.Hour: -time.Hour - 998_001*time.Microsecond, time.Hour: time.Hour - 1_002_002*time.Microsecond,
	} {
		if got := (clock{first, last(passed)}).stepped(); got != want {
			t.Errorf("%v on the server in a second: stepped by %v, want %v", passed, got, want)
		}
	}
}

// TestUndershootIsSeenWithoutAModel: of 10, 3 were taken and a fourth refused.
func TestUndershootIsSeenWithoutAModel(t *testing.T) {
	l := limiter.Limit{Events: 10, Window: time.Second}
	var ops []history.Op
	for i := range 40 {
		op := history.Op{Client: i, Outcome: history.Decided, Call: int64(i * 10), Return: int64(i*10 + 15)}
		op.Request = model.Request{Limit: l, Cost: 1}
		op.Decision.Allowed = i < 3
		ops = append(ops, op)
	}
	c := clock{history.Reading{Server: epoch}, history.Reading{Server: epoch, Before: 1000, After: 1000}}
	j := byBound(ops, model.TokenBucket(), c)
	if j.Verdict != Broken || j.Undershoot == 0 {
		t.Errorf("%s, undershoot %d", j.Verdict, j.Undershoot)
	}
	for i := range ops {
		ops[i].Decision.Allowed = i < 10
	}
	if j := byBound(ops, model.TokenBucket(), c); j.Verdict != Held || j.Undershoot != 0 {
		t.Errorf("ten of ten: %s, undershoot %d", j.Verdict, j.Undershoot)
	}
}

// TestManyDecisions holds a fifth of a million to a fifth of the promise of 2 s and 1 GiB, with 25 times the time as a
// watchdog.
func TestManyDecisions(t *testing.T) {
	if testing.Short() {
		t.Skip("a promise of seconds is not measured under the race detector, nor in haste")
	}
	for name, rule := range rules {
		ops := truthful(rule(), limiter.Limit{Events: 100, Window: 10 * time.Millisecond}, 200_000, 1)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		j := exact(ops, rule())
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		most := (before.HeapAlloc + after.TotalAlloc - before.TotalAlloc) >> 20 // as if nothing were ever freed
		t.Logf("%s: %v, at most %d MiB", name, took, most)
		if j.Verdict != Held || took > 10*time.Second || most > 1<<10/5 {
			t.Errorf("%s: %s: %s, %v, %d MiB", name, j.Verdict, j.Reason, took, most)
		}
	}
}

// BenchmarkAMillionDecisions is to take less than 2 s each.
func BenchmarkAMillionDecisions(b *testing.B) {
	for name, rule := range rules {
		b.Run(name, func(b *testing.B) {
			ops := truthful(rule(), limiter.Limit{Events: 100, Window: 10 * time.Millisecond}, 1_000_000, 1)
			for b.Loop() {
				if j := exact(ops, rule()); j.Verdict != Held {
					b.Fatal(j.Reason)
				}
			}
		})
	}
}

// TestCostsBeyondAnInt64: the largest costs add up to more than a sum of them holds.
func TestCostsBeyondAnInt64(t *testing.T) {
	l := limiter.Limit{Events: 10, Window: time.Hour}
	rule := model.FixedWindow()
	lost := history.Op{Outcome: history.Unknown, Class: limiter.ClassNoAnswer, Request: model.Request{Limit: l, Cost: limiter.MaxCost}}
	denied := history.Op{Outcome: history.Decided, Call: 1, Return: 2, Request: model.Request{Limit: l, Cost: 1}}
	denied.Decision.RetryAfter = time.Second
	ops := append(slices.Repeat([]history.Op{lost}, 1025), denied)
	if j := byBound(ops, rule, clock{history.Reading{Server: epoch}, history.Reading{Server: epoch}}); j.Verdict != Inconclusive || j.Undershoot != 0 {
		t.Errorf("%s, undershoot %d: %s", j.Verdict, j.Undershoot, j.Reason)
	} else if want := "1025 of 1026 calls were not decided (no-answer)"; j.Reason != want {
		t.Errorf("%q, want %q", j.Reason, want)
	}
}
