package rivals

import (
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

var perSecond = limiter.Limit{Events: 3, Window: time.Second}

// TestMostIsReached lets a greedy client take all it can, from every place in a millisecond on.
func TestMostIsReached(t *testing.T) {
	rule := firstHitWindow()
	reached := false
	for phase := range 1000 {
		from := time.UnixMicro(1_700_000_000_000_000 + int64(phase))
		state, at, taken := rule.Fresh, from, int64(0)
		for at.Sub(from) < 10*time.Second {
			next, d := state.Check(at, model.Request{Limit: perSecond, Cost: 1})
			state = next
			if !d.Allowed {
				at = at.Add(d.RetryAfter)
				continue
			}
			taken++
			most := rule.Most(perSecond, from, at)
			if taken > most {
				t.Fatalf("from %v to %v %d were admitted, and most are %d", from, at, taken, most)
			}
			reached = reached || taken == most && taken == 10*perSecond.Events
		}
	}
	if !reached {
		t.Error("the most is never reached")
	}
}

// TestRefusalsCount: what was refused leaves nothing to a smaller request.
func TestRefusalsCount(t *testing.T) {
	at := time.UnixMicro(1_700_000_000_000_500)
	state := firstHitWindow().Fresh
	for i, c := range []struct {
		after   time.Duration
		cost    int64
		allowed bool
		left    int64
		wait    time.Duration
	}{
		{0, 1, true, 2, 0},
		{0, 0, true, 2, 0},
		{0, 3, false, 0, 1000500 * time.Microsecond},
		{time.Millisecond, 1, false, 0, 999500 * time.Microsecond},
		{999499 * time.Microsecond, 1, false, 0, time.Microsecond},
		{time.Microsecond, 4, false, 0, limiter.Never},
		{time.Microsecond, 1, false, 0, 1000999 * time.Microsecond},
	} {
		at = at.Add(c.after)
		next, d := state.Check(at, model.Request{Limit: perSecond, Cost: c.cost})
		if state = next; d.Allowed != c.allowed || d.Remaining != c.left || d.RetryAfter != c.wait {
			t.Errorf("request %d: %+v, want %+v", i, d, c)
		}
	}
}
