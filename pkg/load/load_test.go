package load

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// answers is a limiter that gives its answers in turn.
func answers(in ...any) limiter.Limiter {
	i := 0
	return limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
		a := in[i%len(in)]
		i++
		if err, ok := a.(error); ok {
			return limiter.Decision{}, err
		}
		return limiter.Decision{Allowed: a.(bool)}, nil
	})
}

func one() string { return "k" }

func TestRunCountsEachOutcomeApart(t *testing.T) {
	l := answers(true, false, false, &limiter.Error{Class: limiter.ClassOOM},
		&limiter.Error{Class: limiter.ClassNoAnswer, Unknown: true}, errors.New("from a limiter that classifies nothing"))
	s := Run(context.Background(), l, Plan{Key: one, Attempts: 12})
	if s.Allowed != 2 || s.Denied != 4 || s.Failed != 2 || s.Unknown != 4 {
		t.Errorf("got %+v", s)
	}
	if n := s.Latency.h.TotalCount(); n != 12 {
		t.Errorf("%d latencies recorded of 12 calls", n)
	}
}

func TestRunStopsBetweenCalls(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	l := limiter.Func(func(ctx context.Context, _ string, _ int64) (limiter.Decision, error) {
		if calls++; calls == 3 {
			cancel()
		}
		return limiter.Decision{Allowed: true}, ctx.Err()
	})
	if s := Run(ctx, l, Plan{Key: one, Attempts: 100}); s.Allowed != 3 {
		t.Errorf("%d calls were answered, want the 2 before the interrupt and the one under way", s.Allowed)
	}
}

func TestSummariesMergeLosslesslyThroughJSON(t *testing.T) {
	var whole, sum Summary
	for w := range 3 {
		s := Summary{Allowed: 1, Retries: 2, Latency: newLatency()}
		for i := range 1000 {
			d := time.Duration(w*1000+i) * 7 * time.Microsecond
			s.Latency.record(d, 1)
			if whole.Latency.h == nil {
				whole.Latency = newLatency()
			}
			whole.Latency.record(d, 1)
		}
		line, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back Summary
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatal(err)
		}
		sum.Merge(back)
	}
	if sum.Allowed != 3 || sum.Retries != 6 {
		t.Errorf("counts: %+v", sum)
	}
	for _, q := range []float64{0, 0.5, 0.99, 0.999, 1} {
		if a, b := sum.Latency.Quantile(q), whole.Latency.Quantile(q); a != b {
			t.Errorf("quantile %v: %v merged, %v recorded at once", q, a, b)
		}
	}
	if sum.Latency.h.TotalCount() != 3000 {
		t.Errorf("%d of 3000 values survived", sum.Latency.h.TotalCount())
	}
}

func TestLatencyOutOfRangeIsKept(t *testing.T) {
	l := newLatency()
	l.record(1000*time.Hour, 1)
	if l.h.TotalCount() != 1 || l.Quantile(1) < time.Hour {
		t.Errorf("count %d, max %v", l.h.TotalCount(), l.Quantile(1))
	}
}

func TestUnmarshalRefusesRubbish(t *testing.T) {
	var l Latency
	if err := l.UnmarshalText([]byte("rubbish")); err == nil {
		t.Error("rubbish decoded")
	}
}

// TestAStallShowsInResponseTimes: while one call took long, others were due, and waited.
func TestAStallShowsInResponseTimes(t *testing.T) {
	const stall, every = 300 * time.Millisecond, time.Millisecond
	calls := 0
	l := limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
		if calls++; calls == 5 {
			time.Sleep(stall)
		}
		return limiter.Decision{Allowed: true}, nil
	})
	s := Run(t.Context(), l, Plan{Key: one, Every: every, For: 2 * stall})
	if want := int64(2 * stall / every); s.Calls() != want || s.Latency.Count() != want || s.Service.Count() != want {
		t.Errorf("%d calls and %d, %d latencies, want %d: none that was due may be left out", s.Calls(), s.Latency.Count(),
			s.Service.Count(), want)
	}
	if s.Latency.Quantile(0.75) < stall/8 {
		t.Errorf("a quarter of the calls waited for half of %v on average; response p75 is %v", stall, s.Latency.Quantile(0.75))
	}
	if p99, p50 := s.Latency.Quantile(0.99), s.Service.Quantile(0.5); p99 < stall/2 || p50 > p99/10 {
		t.Errorf("a stall of %v: response p99 %v, service p50 %v", stall, p99, p50)
	}
	if n := s.Lag.Count(); n == 0 || n > s.Calls()-int64(stall/every)/2 {
		t.Errorf("%d of %d calls counted as sent by an idle client", n, s.Calls())
	}
}

func TestAClosedLoopMakesNoServiceTimes(t *testing.T) {
	s := Run(t.Context(), answers(true), Plan{Key: one, For: 10 * time.Millisecond})
	if s.Calls() == 0 || s.Latency.Count() != s.Calls() || s.Service.Count() != 0 || s.Lag.Count() != 0 {
		t.Errorf("%d calls, %d, %d, %d latencies", s.Calls(), s.Latency.Count(), s.Service.Count(), s.Lag.Count())
	}
}

func TestAnInterruptEndsAWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
		cancel()
		return limiter.Decision{Allowed: true}, nil
	})
	if s := Run(ctx, l, Plan{Key: one, Every: time.Hour}); s.Calls() != 1 {
		t.Errorf("%d calls", s.Calls())
	}
}

// pair is a limiter that decides two at once.
type pair struct {
	limiter.Limiter
	keys []string
}

func (p *pair) CheckBatch(_ context.Context, keys []string, _ int64, answers []limiter.Answer) {
	p.keys = append(p.keys, keys...)
	answers[0] = limiter.Answer{Decision: limiter.Decision{Allowed: true}}
	answers[1] = limiter.Answer{Err: &limiter.Error{Class: limiter.ClassOOM}}
}

func TestABatchIsCountedOneByOne(t *testing.T) {
	p := &pair{}
	s := Run(t.Context(), p, Plan{Key: NewKeys("k", 3, 0).Cycle(0, 1), Attempts: 6, Batch: 2})
	if s.Allowed != 3 || s.Failed != 3 || s.Latency.Count() != 6 {
		t.Errorf("%+v", s)
	}
	if want := []string{"k-0-0", "k-1-0", "k-2-0", "k-0-0", "k-1-0", "k-2-0"}; !slices.Equal(p.keys, want) {
		t.Errorf("asked %v, want %v", p.keys, want)
	}
}

// TestTheLoopAllocatesNothingACall compares a short run with a long one.
func TestTheLoopAllocatesNothingACall(t *testing.T) {
	next := NewKeys("k", 5, 0).Cycle(0, 1)
	allocs := func(calls int64) float64 {
		return testing.AllocsPerRun(5, func() { Run(t.Context(), answers(true), Plan{Key: next, Attempts: calls}) })
	}
	if few, many := allocs(10), allocs(10_000); many > few+100 {
		t.Errorf("10 calls allocate %v objects, 10,000 allocate %v", few, many)
	}
}
