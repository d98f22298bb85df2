package replay

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// served is a history of clients that overlap, as a service answers that keeps a rule and tells what its model does, in
// whole seconds rounded up. Spoil changes what it tells.
func served(rule model.Rule, l limiter.Limit, seed uint64, spoil func(*limiter.Decision)) (ops []history.Op, course Course) {
	const calls = 400
	r := rand.New(rand.NewPCG(seed, 0))
	clock := func(ns int64) time.Time { return time.UnixMicro(1_700_000_000_000_000 + ns/1000) }
	state, now := rule.Fresh, int64(1_000_000)
	for i := range calls {
		op := history.Op{Proc: i, Key: "k", Outcome: history.Decided, Request: model.Request{Limit: l, Cost: 1, ID: fmt.Sprint(i)}}
		now += r.Int64N(2 * l.Window.Nanoseconds() / 100)
		op.Call, op.Return = now-r.Int64N(5_000_000), now+r.Int64N(5_000_000)
		state, op.Decision = state.Check(clock(now), op.Request)
		op.Decision.At = time.Time{}
		up := func(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }
		op.Decision.RetryAfter, op.Decision.ResetAfter = up(op.Decision.RetryAfter), up(op.Decision.ResetAfter)
		spoil(&op.Decision)
		ops = append(ops, op)
	}
	read := func(ns int64) history.Reading {
		return history.Reading{Server: clock(ns), Before: ns - 1000, After: ns + 1000}
	}
	return ops, Course{Readings: []history.Reading{read(0), read(now + 10_000_000)}}
}

var rulesServed = []struct {
	name  string
	rule  model.Rule
	limit limiter.Limit
}{
	{"sliding-log", model.SlidingLog(), limiter.Limit{Events: 20, Window: time.Minute}},
	{"compact-log", model.CompactLog(), limiter.Limit{Events: 20, Window: 10 * time.Second}},
	{"fixed-window", model.FixedWindow(), limiter.Limit{Events: 20, Window: time.Minute}},
	{"sliding-counter", model.SlidingCounter(), limiter.Limit{Events: 20, Window: time.Minute}},
	{"token-bucket", model.TokenBucket(), limiter.Limit{Events: 20, Window: time.Minute, Burst: 40}},
	{"gcra", model.GCRA(), limiter.Limit{Events: 20, Window: time.Minute, Burst: 5}},
}

func TestHonestHeadersAreBelieved(t *testing.T) {
	t.Parallel()
	for _, c := range rulesServed {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(20) {
				ops, course := served(c.rule, c.limit, seed, func(*limiter.Decision) {})
				h := JudgeHeaders(ops, c.rule, course)
				if !h.Honest() || h.Silent > 0 || h.Denials < 50 || h.Told != int64(len(ops)) {
					t.Fatalf("seed %d: %+v", seed, h)
				}
			}
		})
	}
}

// Each lie is found on every rule, and taken for no other.
func TestDishonestHeadersAreFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*limiter.Decision)
		found func(Headers) int64
		least func(Headers) int64 // that must be
	}{
		"no wait":      {func(d *limiter.Decision) { d.RetryAfter = 0 }, func(h Headers) int64 { return h.Silent }, func(h Headers) int64 { return h.Denials }},
		"an hour more": {func(d *limiter.Decision) { d.RetryAfter += 100 * time.Hour }, func(h Headers) int64 { return h.TooLong }, func(h Headers) int64 { return h.Denials }},
		"too short":    {func(d *limiter.Decision) { d.RetryAfter = min(d.RetryAfter, time.Millisecond) }, func(h Headers) int64 { return h.TooShort }, some},
		"one too many": {func(d *limiter.Decision) { d.Remaining++ }, func(h Headers) int64 { return h.TooMuch }, some},
		"the limit":    {func(d *limiter.Decision) { d.Remaining = 40 }, func(h Headers) int64 { return h.TooMuch }, func(h Headers) int64 { return h.Denials }},
		"nonsense":     {func(d *limiter.Decision) { d.Remaining = limiter.Garbled }, func(h Headers) int64 { return h.Garbled }, func(h Headers) int64 { return h.Told }},
		"late":         {func(d *limiter.Decision) { d.ResetAfter = 100 * time.Hour }, func(h Headers) int64 { return h.LateFull }, func(h Headers) int64 { return h.Told }},
	} {
		for _, s := range rulesServed {
			t.Run(name+" "+s.name, func(t *testing.T) {
				t.Parallel()
				ops, course := served(s.rule, s.limit, 1, c.spoil)
				h := JudgeHeaders(ops, s.rule, course)
				if n := c.found(h); n < c.least(h) {
					t.Errorf("%d found, want %d or more: %+v", n, c.least(h), h)
				}
				if others := h.Silent + h.TooShort + h.TooLong + h.TooMuch + h.Garbled + h.LateFull; others != c.found(h) {
					t.Errorf("something else was found, too: %+v", h)
				}
			})
		}
	}
}

func some(Headers) int64 { return 30 }

// A service that tells nothing is no liar.
func TestSilentHeadersAreHonest(t *testing.T) {
	t.Parallel()
	c := rulesServed[0]
	ops, course := served(c.rule, c.limit, 1, func(d *limiter.Decision) {
		d.RetryAfter, d.ResetAfter, d.Remaining = 0, 0, limiter.Untold
	})
	if h := JudgeHeaders(ops, c.rule, course); !h.Honest() || h.Told != 0 || h.Silent != h.Denials || h.Denials == 0 {
		t.Errorf("got %+v", h)
	}
}

func TestLongestReset(t *testing.T) {
	t.Parallel()
	big := limiter.Limit{Events: 1_000_000, Window: time.Hour, Burst: 3_000_000}
	for name, c := range map[string]struct {
		rule model.Rule
		l    limiter.Limit
		want time.Duration
	}{
		"log":             {model.SlidingLog(), big, time.Hour},
		"fixed window":    {model.FixedWindow(), big, time.Hour},
		"sliding counter": {model.SlidingCounter(), big, 2 * time.Hour},
		"bucket":          {model.TokenBucket(), big, 3 * time.Hour},
		"small bucket":    {model.GCRA(), limiter.Limit{Events: 3, Window: time.Minute, Burst: 1}, 20 * time.Second},
		"nothing":         {model.GCRA(), limiter.Limit{Window: time.Minute}, 0},
	} {
		if got := longestReset(c.rule, c.l); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// Of what may have been admitted nothing is known: it makes nobody a liar.
func TestUnknownCallsAreNotHeldAgainstHeaders(t *testing.T) {
	t.Parallel()
	l := limiter.Limit{Events: 1, Window: time.Minute}
	at := func(i int64, o history.Outcome, d limiter.Decision) history.Op {
		return history.Op{Call: i * 1e6, Return: i*1e6 + 1000, Outcome: o, Request: model.Request{Limit: l, Cost: 1}, Decision: d}
	}
	read := func(ns int64) history.Reading {
		return history.Reading{Server: time.UnixMicro(1e15 + ns/1000), Before: ns, After: ns}
	}
	for outcome, lies := range map[history.Outcome]int64{history.Decided: 1, history.Unknown: 0, history.Failed: 0} {
		ops := []history.Op{
			at(1, outcome, limiter.Decision{Allowed: true, Remaining: limiter.Untold}),
			at(2, history.Decided, limiter.Decision{Remaining: 1, RetryAfter: time.Second}),
		}
		h := JudgeHeaders(ops, model.SlidingLog(), Course{Readings: []history.Reading{read(0), read(5e6)}})
		if h.TooMuch != lies || h.TooShort != lies {
			t.Errorf("beside one that is %v: %+v, want %d of each", outcome, h, lies)
		}
	}
}
