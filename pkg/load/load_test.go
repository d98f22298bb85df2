package load

import (
	"context"
	"encoding/json"
	"errors"
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
