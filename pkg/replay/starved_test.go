package replay

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
)

// untimed takes the server's time out of a history of a correct limiter, as if it did not tell it.
func untimed(ops []history.Op) []history.Op {
	for i := range ops {
		ops[i].Decision.At = time.Time{}
	}
	return ops
}

// TestNobodyStarvesUnderACorrectLimiter: with lost replies too.
func TestNobodyStarvesUnderACorrectLimiter(t *testing.T) {
	for name, rule := range rules {
		for seed := range uint64(20) {
			ops, _ := stepping(rule(), 3000, 0, seed)
			lose(ops, 50, 5*time.Millisecond)
			if n := starved(untimed(ops), rule(), ever); n != 0 {
				t.Errorf("%s seed %d: %d events", name, seed, n)
			}
		}
	}
}

// TestStarvingIsSeen: a limiter that denies everybody from some time on, but for what a lost call may have taken.
func TestStarvingIsSeen(t *testing.T) {
	for name, rule := range rules {
		ops, course := stepping(rule(), 1000, 0, 1)
		longest := rule().Longest(limit)
		last, want := ops[500].Return, int64(0)
		for i := 501; i < len(ops); i++ {
			ops[i].Decision = limiter.Decision{RetryAfter: time.Millisecond}
			if ops[i].Call > last+(longest+2*keysEnd).Nanoseconds() {
				want += ops[i].Request.Cost
			}
		}
		untimed(ops)
		course.Steps = nil
		j := JudgeCourse(ops, rule(), course)
		if j.Verdict != Broken || j.Undershoot < want || want == 0 {
			t.Errorf("%s: %s: %s, %d under, want at least %d", name, j.Verdict, j.Reason, j.Undershoot, want)
		}
		charging := rule()
		charging.Charges = true
		if j := JudgeCourse(ops, charging, course); j.Undershoot != 0 {
			t.Errorf("%s: %d under by a rule that charges refusals", name, j.Undershoot)
		}
		for i := 501; i < len(ops); i += 10 { // so many were lost, for good or till the end, that they may have taken all
			ops[i].Outcome, ops[i].Request.Cost, ops[i].Until = history.Unknown, limit.Events, rand.Int64N(2)*ops[len(ops)-1].Return
		}
		if n := starved(ops[501:], rule(), ever); n != 0 {
			t.Errorf("%s: %d events though lost calls may have taken them", name, n)
		}
	}
}
