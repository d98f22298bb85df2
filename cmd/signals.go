package cmd

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Signal is the cause of a context that a signal ended.
type Signal struct{ Signal syscall.Signal }

func (s Signal) Error() string {
	if s.Signal == syscall.SIGTERM {
		return "terminated"
	}
	return "interrupted"
}

// WithSignals returns a context that the first SIGINT or SIGTERM ends, with a Signal as its cause. The second one
// kills the process as if nobody listened. stop gives the signals back.
func WithSignals(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case s := <-got:
			signal.Stop(got)
			cancel(Signal{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		cancel(nil)
	}
}
