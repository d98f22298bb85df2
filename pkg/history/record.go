package history

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// Record returns next as one client's limiter, each call of which is written when it begins and when it ends. The
// origin gives what all its ops have in common: Proc, Client and Request.Limit; with Request.ID set, the calls carry
// the ids ID-1, ID-2 and so on, where next takes ids. It serves one goroutine.
func Record(next limiter.Limiter, origin Op, write func(Op)) limiter.Limiter {
	seq := int64(0)
	identified, takesIDs := next.(limiter.Identified)
	return limiter.Func(func(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
		seq++
		op := origin
		op.Seq, op.Key, op.Request.Cost = seq, key, cost
		if op.Request.ID != "" {
			op.Request.ID = fmt.Sprintf("%s-%d", origin.Request.ID, seq)
		}
		op.Call = Now()
		write(op)
		op.Call = Now() // writing took time, and the call begins only here
		var err error
		if takesIDs && op.Request.ID != "" {
			op.Decision, err = identified.CheckID(ctx, key, cost, op.Request.ID)
		} else {
			op.Decision, err = next.Check(ctx, key, cost)
		}
		op.Return = Now()
		op.Outcome, op.Class = outcomeOf(err)
		write(op)
		return op.Decision, err
	})
}

// Now reads CLOCK_MONOTONIC in nanoseconds. time.Now counts from the start of its process instead, and so cannot
// order the calls of two.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("history: CLOCK_MONOTONIC: " + err.Error()) // the kernel lacks it: nothing here could be true
	}
	return ts.Nano()
}
