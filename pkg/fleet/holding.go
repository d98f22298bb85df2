package fleet

import (
	"context"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
)

// holding is one client of a semaphore, which keeps all slots taken and has them change hands. It takes what it can get.
// When it is refused it gives back, in turn, what it did not get, which must change nothing, and the slot that it has held
// longest.
type holding struct {
	*history.Recorder
	held  []slot
	wrong bool // the last release was of what it did not get
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
	if h.wrong = !h.wrong || len(h.held) == 0; !h.wrong {
		mine, h.held = h.held[0], h.held[1:]
	}
	_, _ = h.Release(ctx, mine.key, mine.id) // recorded, whatever comes of it
	return d, nil
}

// recorded is client i of a job, whose calls are recorded.
func (w *worker) recorded(j Job, i int, l limiter.Limiter) limiter.Limiter {
	recorded := history.Record(l, j.origin(i), func(op history.Op) { w.record(op) })
	if _, ok := l.(limiter.Releaser); ok {
		return &holding{Recorder: recorded}
	}
	return recorded
}
