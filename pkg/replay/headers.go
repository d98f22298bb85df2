package replay

import (
	"sort"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// Headers is how often what a service said beside its decisions, in headers, is true of the rule that it claims to
// keep. Counts are of answers.
//
// A service does not tell when it decided, and others were asking at the same time. So a header is called untrue only
// if no order of the calls can make it true: a wait is too short if an admission at its very end would be one more than
// the rule can have admitted by then, counting only what was certainly admitted before the request was made; and what
// remains is too much if that much could not have been admitted by the time the answer was there. A wait is too long if
// an unused key would be as good as unused before it is over. What is not called untrue may still be wrong.
type Headers struct {
	Denials  int64 `json:"denials"`        // that waiting helps
	Silent   int64 `json:"retry_missing"`  // of those, without a Retry-After above 0
	TooShort int64 `json:"retry_short"`    // of those, with one after which the rule cannot admit the request
	TooLong  int64 `json:"retry_long"`     // of those, with one longer than the rule has anybody wait
	Told     int64 `json:"remaining_told"` // decisions that tell what remains
	TooMuch  int64 `json:"remaining_high"` // of those, more than the rule can have left
	Garbled  int64 `json:"remaining_garbled"`
	LateFull int64 `json:"reset_long"` // decisions after which the key is said to be used for longer than the rule has it
}

// Honest tells whether nothing that was said is untrue. Silence is.
func (h Headers) Honest() bool {
	return h.TooShort == 0 && h.TooLong == 0 && h.TooMuch == 0 && h.Garbled == 0 && h.LateFull == 0
}

// Add adds what was found of another key or round.
func (h *Headers) Add(o Headers) {
	h.Denials += o.Denials
	h.Silent += o.Silent
	h.TooShort += o.TooShort
	h.TooLong += o.TooLong
	h.Told += o.Told
	h.TooMuch += o.TooMuch
	h.Garbled += o.Garbled
	h.LateFull += o.LateFull
}

// rounding is by how much a wait may be longer than it need be: it is told in whole seconds, and one that is a time of
// day is counted from another one.
const rounding = 2 * time.Second

// JudgeHeaders compares what the decisions on one key, fresh at first, say with its rule. It says nothing of a history
// in which the server's clock was set.
func JudgeHeaders(ops []history.Op, rule model.Rule, course Course) (h Headers) {
	eras := course.eras()
	if len(ops) == 0 || len(eras) != 1 {
		return h
	}
	e := eras[0]
	said := teller{rule: rule, limit: ops[0].Request.Limit, in: admissions(ops, e)}
	said.spans = newSpans(said.in)
	said.longest = longestReset(rule, said.limit) + rounding
	said.stride = max(1, len(ops)*len(said.in)/maxTried)
	for i := range ops {
		op := &ops[i]
		if op.Outcome != history.Decided || op.Request.Cost == 0 {
			continue
		}
		from, _ := e.bounds(op.Call)
		_, to := e.bounds(op.Return)
		h.Add(said.judge(op, from, to))
	}
	return h
}

// maxTried bounds the intervals that are looked at of one history. In a longer one some are left out, which accuses
// nobody.
const maxTried = 1 << 25

// teller knows what a service may say.
type teller struct {
	rule    model.Rule
	limit   limiter.Limit
	in      []placed
	spans   spans
	longest time.Duration
	stride  int
}

// judge judges one decision, made from one time to another.
func (t teller) judge(op *history.Op, from, to time.Time) (h Headers) {
	d, own := op.Decision, int64(0)
	if d.Allowed {
		own = op.Request.Cost
	} else if op.Request.Cost <= t.rule.Capacity(t.limit) {
		h.Denials = 1
		switch {
		case d.RetryAfter <= 0:
			h.Silent = 1
		case d.RetryAfter > t.longest:
			h.TooLong = 1
		case !t.possible(from, to.Add(d.RetryAfter), op.Request.Cost):
			h.TooShort = 1
		}
	}
	switch {
	case d.Remaining == limiter.Untold:
	case d.Remaining < 0:
		h.Told, h.Garbled = 1, 1
	default:
		h.Told = 1
		if !t.possible(from, to, plus(own, d.Remaining)) {
			h.TooMuch = 1
		}
	}
	if d.ResetAfter > t.longest {
		h.LateFull = 1
	}
	return h
}

// possible tells whether the rule can have admitted so many events more from one time to another, beside all that was
// certainly admitted before.
func (t teller) possible(from, to time.Time, events int64) bool {
	if events > t.rule.Most(t.limit, from, to) {
		return false
	}
	before := from.UnixMicro() - 1
	for i := 0; i < len(t.in) && t.in[i].least <= before; i += t.stride {
		first := t.in[i].least
		if plus(t.spans.within(first, before), events) > t.rule.Most(t.limit, time.UnixMicro(first), to) {
			return false
		}
	}
	return true
}

// longestReset is how long the rule can take to forget a key that is used up: what its model says of the first events,
// and no less than the time after which it admits all of its capacity once more.
func longestReset(rule model.Rule, l limiter.Limit) time.Duration {
	capacity := rule.Capacity(l)
	if capacity == 0 {
		return 0
	}
	start := time.UnixMicro(0) // the beginning of a window
	_, d := rule.Fresh.Check(start, model.Request{Limit: l, Cost: min(capacity, limiter.MaxLogCost), ID: "first"})
	again := sort.Search(maxReset, func(us int) bool { return rule.Most(l, start, time.UnixMicro(int64(us))) >= plus(capacity, capacity) })
	return max(d.ResetAfter, time.Duration(again)*time.Microsecond)
}

// maxReset is the longest that a bucket within the bounds takes to fill, in µs.
const maxReset = 1 << 52
