package fleet

import (
	"context"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
)

// holding is one client of a semaphore, which keeps all slots taken and has them change hands. It takes what it can get.
// Each time that it is refused it does the next of four things: it gives back what it did not get, and renews that, both
// of which must change nothing; it renews the slot that it has held longest, and gives it back.
type holding struct {
	*history.Recorder
	renewer bool // a lease can be renewed
	held    []slot
	refused int
}

// slot is what a client took.
type slot struct{ key, id string }

// Check takes a slot, or gives one back as well.
func (h *holding) Check(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	d, err := h.Recorder.Check(ctx, key, cost)
	if err != nil || cost == 0 { // what a lost call took comes back when its lease ends
		return d, err
	}
	mine := slot{key, h.LastID()}
	if d.Allowed {
		h.held = append(h.held, mine)
		return d, nil
	}
	h.about(ctx, mine)
	return d, nil
}

// about is the call about a slot that follows a refusal. It is recorded, whatever comes of it.
func (h *holding) about(ctx context.Context, refused slot) {
	s, turn := refused, h.refused%4
	h.refused++
	if turn >= 2 && len(h.held) > 0 {
		s = h.held[0]
		if turn == 3 {
			h.held = h.held[1:]
		}
	}
	if h.renewer && (turn == 1 || turn == 2) {
		_, _ = h.Renew(ctx, s.key, s.id)
		return
	}
	_, _ = h.Release(ctx, s.key, s.id)
}

// recorded is client i of a job, whose calls are recorded.
func (w *worker) recorded(j Job, i int, l limiter.Limiter) limiter.Limiter {
	recorded := history.Record(l, j.origin(i), func(op history.Op) { w.record(op) })
	if _, ok := l.(limiter.Releaser); ok {
		_, renewer := l.(limiter.Renewer)
		return &holding{Recorder: recorded, renewer: renewer}
	}
	return recorded
}
