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
	switch s.Signal {
	case syscall.SIGTERM:
		return "terminated"
	case syscall.SIGHUP:
		return "hung up"
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

// untilTwo returns a context that the first SIGINT, SIGTERM or SIGHUP ends, with a Signal as its cause, or the end of ctx,
// and one that the second does, for a service: it is to end well also when its terminal is gone, unless nohup had that
// ignored, and when nobody reads its log any more. stop gives the signals back.
func untilTwo(ctx context.Context) (first, second context.Context, stop func()) {
	first, endFirst := context.WithCancelCause(ctx)
	second, endSecond := context.WithCancelCause(context.Background())
	got, broken := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE) // so that a write fails, and does not kill
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(got, s)
		}
	}
	go func() {
		for _, end := range []context.CancelCauseFunc{endFirst, endSecond} {
			select {
			case s := <-got:
				end(Signal{s.(syscall.Signal)})
			case <-second.Done():
			}
		}
	}()
	return first, second, func() {
		signal.Stop(got)
		signal.Stop(broken)
		endFirst(nil)
		endSecond(nil)
	}
}
