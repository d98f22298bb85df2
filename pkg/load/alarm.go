package load

import (
	"context"
	"time"
)

// alarm wakes one client at the times when its requests are due.
type alarm interface {
	// until waits for a time, or for the end of the alarm's context, and tells whether it was the time.
	until(at time.Time) bool
	close()
}

// goAlarm is one of Go's timers. On an idle machine it is late by up to a millisecond, since Go's scheduler waits in
// whole milliseconds.
type goAlarm struct {
	timer *time.Timer
	ended <-chan struct{}
}

func newGoAlarm(ctx context.Context) alarm {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &goAlarm{t, ctx.Done()}
}

func (a *goAlarm) until(at time.Time) bool {
	a.timer.Reset(time.Until(at))
	select {
	case <-a.timer.C:
		return true
	case <-a.ended:
		return false
	}
}

func (a *goAlarm) close() { a.timer.Stop() }
