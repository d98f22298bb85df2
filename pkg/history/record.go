package history

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// Recorder is one client's limiter, each call of which is written when it begins and when it ends. It serves one
// goroutine.
type Recorder struct {
	next   limiter.Limiter
	origin Op
	write  func(Op)
	seq    int64
	id     string
}

// Record returns next as one client's limiter. The origin gives what all its ops have in common: Proc, Client and
// Request.Limit; with Request.ID set, the calls carry the ids ID-1, ID-2 and so on, where next takes ids.
func Record(next limiter.Limiter, origin Op, write func(Op)) *Recorder {
	return &Recorder{next: next, origin: origin, write: write}
}

// Check is next's.
func (r *Recorder) Check(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	op := r.origin
	op.Key, op.Request.Cost = key, cost
	if op.Request.ID != "" {
		op.Request.ID = fmt.Sprintf("%s-%d", r.origin.Request.ID, r.seq+1)
	}
	r.id = op.Request.ID
	identified, takesIDs := r.next.(limiter.Identified)
	return r.record(op, func() (limiter.Decision, error) {
		if takesIDs && op.Request.ID != "" {
			return identified.CheckID(ctx, key, cost, op.Request.ID)
		}
		return r.next.Check(ctx, key, cost)
	})
}

// LastID is the id of the last Check.
func (r *Recorder) LastID() string { return r.id }

// Release is next's, which must be a limiter.Releaser.
func (r *Recorder) Release(ctx context.Context, key, id string) (limiter.Decision, error) {
	return r.record(r.about(key, id, model.Release), func() (limiter.Decision, error) {
		return r.next.(limiter.Releaser).Release(ctx, key, id)
	})
}

// Renew is next's, which must be a limiter.Renewer.
func (r *Recorder) Renew(ctx context.Context, key, id string) (limiter.Decision, error) {
	return r.record(r.about(key, id, model.Renew), func() (limiter.Decision, error) {
		return r.next.(limiter.Renewer).Renew(ctx, key, id)
	})
}

// about is a call about what the request with that id took.
func (r *Recorder) about(key, id string, act model.Act) Op {
	op := r.origin
	op.Key, op.Request.ID, op.Request.Act = key, id, act
	return op
}

// record writes a call when it begins and when it ends.
func (r *Recorder) record(op Op, call func() (limiter.Decision, error)) (limiter.Decision, error) {
	r.seq++
	op.Seq, op.Call = r.seq, Now()
	r.write(op)
	op.Call = Now() // writing took time, and the call begins only here
	var err error
	op.Decision, err = call()
	op.Return = Now()
	op.Outcome, op.Class = outcomeOf(err)
	r.write(op)
	return op.Decision, err
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
