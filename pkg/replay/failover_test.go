package replay

import (
	"fmt"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// failedOver are the calls on one key by clients in turn, one every ms: so many before its master died, the last lost
// admissions of which the new one had not heard, and so many after it.
func failedOver(rule model.Rule, l limiter.Limit, before, after, lost int) (ops []history.Op, dead int64, first, last history.Reading) {
	start := time.UnixMicro(1_700_000_000_000_000)
	at := func(ns int64) time.Time { return start.Add(time.Duration(ns)) }
	states := []model.State{rule.Fresh}
	ask := func(ns int64, i int) {
		r := model.Request{Limit: l, Cost: 1 + int64(i%2), ID: fmt.Sprint("id-", i)}
		state, d := states[len(states)-1].Check(at(ns), r)
		if d.Allowed {
			states = append(states, state)
		}
		d.At = at(ns)
		ops = append(ops, history.Op{Client: i % 4, Seq: int64(i/4 + 1), Request: r, Call: ns - 1_200_000, Return: ns + 1_200_000,
			Outcome: history.Decided, Decision: d})
	}
	ns := int64(0)
	for i := range before {
		ns += int64(time.Millisecond)
		ask(ns, i)
	}
	dead = ns + 2_000_000
	states = states[:max(1, len(states)-lost)]
	ns += int64(time.Second)
	for i := range after {
		ns += int64(time.Millisecond)
		ask(ns, before+i)
	}
	end := ns + int64(10*time.Millisecond)
	return ops, dead, history.Reading{Server: at(-10_000_000), Before: -10_000_000, After: -9_999_000}, history.Reading{Server: at(end), Before: end, After: end + 1000}
}

func TestWhatAFailoverLostIsTold(t *testing.T) {
	l := limiter.Limit{Events: 200, Window: time.Minute}
	for name, rule := range map[string]model.Rule{
		"sliding-log": model.SlidingLog(), "compact-log": model.CompactLog(), "sliding-counter": model.SlidingCounter(),
		"fixed-window": model.FixedWindow(), "token-bucket": model.TokenBucket(), "gcra": model.GCRA(),
	} {
		for _, lost := range []int{0, 1, 2, 40} {
			ops, dead, first, last := failedOver(rule, l, 100, 200, lost)
			j, loss := JudgeFailover(ops, rule, Course{Readings: []history.Reading{first, last}}, dead)
			if loss.Calls != int64(lost) || (lost == 0) != (j.Verdict == Held) || lost > 0 && loss.Over == 0 || j.Attempts != 300 {
				t.Errorf("%s: %d admissions lost, and told %+v: %s, %s", name, lost, loss, j.Verdict, j.Reason)
			}
		}
	}
}
