package load

import (
	"context"
	"time"
)

// alarm wakes one client at the times when its requests are due.
type alarm struct{ timer *time.Timer }

func newAlarm() alarm {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return alarm{t}
}

// until waits for a time and tells whether it came before ctx ended.
func (a alarm) until(ctx context.Context, at time.Time) bool {
	a.timer.Reset(time.Until(at))
	select {
	case <-a.timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (a alarm) close() { a.timer.Stop() }
