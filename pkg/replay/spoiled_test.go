package replay

import (
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
)

// spoilings are replies with one thing wrong that do not contradict themselves.
var spoilings = map[string]func(d *limiter.Decision, cost int64) bool{
	"admitted": func(d *limiter.Decision, _ int64) bool {
		if d.Allowed || d.RetryAfter < 0 {
			return false
		}
		d.Allowed, d.RetryAfter = true, 0
		return true
	},
	"denied": func(d *limiter.Decision, cost int64) bool {
		if !d.Allowed || d.Remaining >= cost {
			return false
		}
		d.Allowed, d.RetryAfter = false, time.Millisecond
		return true
	},
	"one more left": func(d *limiter.Decision, cost int64) bool {
		if d.Remaining++; !d.Allowed && d.Remaining >= cost || d.Remaining > limit.Events {
			return false
		}
		return true
	},
	"one less left": func(d *limiter.Decision, _ int64) bool {
		d.Remaining--
		return d.Remaining >= 0
	},
	"retry too soon": func(d *limiter.Decision, _ int64) bool {
		d.RetryAfter -= time.Millisecond
		return d.RetryAfter > 0
	},
}

// TestOneWrongReplyBesideALostOneIsFound: a lost call excuses nothing that it cannot explain.
func TestOneWrongReplyBesideALostOneIsFound(t *testing.T) {
	for name, rule := range rules {
		for _, in := range []bool{true, false} {
			ops, course := stepping(rule(), 400, 0, 1)
			const at = 80
			lost := ops[at]
			lost.Outcome, lost.Decision, lost.Request.ID = history.Unknown, limiter.Decision{}, "lost"
			lost.Until = lost.Return + limit.Window.Nanoseconds()
			if in {
				ops[at] = lost
			} else {
				ops = append(ops, lost)
			}
			if j := JudgeCourse(ops, rule(), course); j.Verdict != Held || j.Loose > 0 {
				t.Errorf("%s, in %v: %s: %s", name, in, j.Verdict, j.Reason)
			}
			for what, spoil := range spoilings {
				spoiled := 0
				for k := at - 5; k < at+60; k++ {
					was := ops[k]
					if was.Outcome == history.Decided && spoil(&ops[k].Decision, was.Request.Cost) {
						spoiled++
						if j := JudgeCourse(ops, rule(), course); j.Verdict != Broken {
							t.Errorf("%s, in %v, %s %d decisions later: %s: %s", name, in, what, k-at, j.Verdict, j.Reason)
						}
					}
					ops[k] = was
				}
				if spoiled == 0 {
					t.Errorf("%s, in %v, %s: nothing was spoiled", name, in, what)
				}
			}
		}
	}
}
