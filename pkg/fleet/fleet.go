package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/load"
)

// grace is how long workers have to finish the call under way before they are killed.
const grace = 3 * time.Second

// silence is for how long a worker may tell nothing, beside what its calls may take. It is killed after twice that: of
// one look at it the parent itself may have slept.
const silence = 15 * time.Second

// Fleet is a set of worker processes. It serves one round at a time.
type Fleet struct {
	// Silence, if set, is for how long a worker may tell nothing.
	Silence time.Duration

	// Answered, if set, is called for every call that ended, from several goroutines.
	Answered func()

	workers []*process
	gate    *os.File // the end that is written
	closed  sync.Once
}

// Round is what a job came to.
type Round struct {
	Ops     []history.Op // each call once; those that never ended are Unknown
	Summary load.Summary // of the workers that lived to tell
	Usage   Usage        // of the same
	Deaths  []Death      // after any, the fleet is spent
}

// Death is a worker that died during a round.
type Death struct {
	Proc, PID int
	Cause     string // as the system says it: "signal: killed"
}

// Start starts n workers. self makes the command that runs this program with the given arguments.
func Start(self func(args ...string) *exec.Cmd, n int) (*Fleet, error) {
	inner, outer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the gate: %w", err)
	}
	defer inner.Close() // the workers hold their own
	f := &Fleet{gate: outer}
	for i := range n {
		p, err := start(self(WorkerCommand), inner)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("start worker %d of %d: %w", i+1, n, err)
		}
		f.workers = append(f.workers, p)
	}
	return f, nil
}

// Run has every worker do the job and returns when all have finished or died. When ctx ends, the workers finish the
// call they are in; the round then holds what was done, and the fleet is spent.
func (f *Fleet) Run(ctx context.Context, j Job) (Round, error) {
	defer context.AfterFunc(ctx, f.dismiss)()
	defer f.watch(j)()
	err := f.each(func(i int, p *process) error { return p.prepare(j, i) })
	if err != nil {
		return Round{}, errors.Join(context.Cause(ctx), err)
	}
	if j.AtGate != nil {
		if err := j.AtGate(); err != nil {
			return Round{}, err
		}
	}
	if _, err := f.gate.Write(make([]byte, len(f.workers))); err != nil && ctx.Err() == nil {
		return Round{}, fmt.Errorf("open the gate: %w", err)
	}
	told := make([]tale, len(f.workers))
	f.each(func(i int, p *process) error {
		p.due.Store(true)
		defer p.due.Store(false)
		told[i] = p.listen(f.Answered)
		return nil
	})
	return f.gather(ctx, told, j.Measured != nil)
}

// Signal sends a signal to worker i, as whoever wants to see it stop or die does. A worker that has ended is an error.
func (f *Fleet) Signal(i int, s os.Signal) error {
	if err := f.workers[i].cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal worker %d: %w", i, err)
	}
	return nil
}

// each calls do for all workers at once and returns the first error in their order.
func (f *Fleet) each(do func(i int, p *process) error) error {
	errs := make([]error, len(f.workers))
	var wg sync.WaitGroup
	for i, p := range f.workers {
		wg.Go(func() { errs[i] = do(i, p) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// watch kills workers that hang, so that a round ends.
func (f *Fleet) watch(j Job) (stop func()) {
	patience := f.Silence
	if patience == 0 {
		patience = silence + 5*j.Conn.Timeout
	}
	if j.Measured != nil {
		patience += j.Measured.For // of which nothing is told
	}
	tick, done := time.NewTicker(patience), make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				for _, p := range f.workers {
					p.lookAt()
				}
			}
		}
	})
	return func() { tick.Stop(); close(done); watching.Wait() }
}

// gather puts the tales together. What a worker counted must be what it told, call by call, where it told its calls.
func (f *Fleet) gather(ctx context.Context, told []tale, measured bool) (Round, error) {
	var r Round
	for i, t := range told {
		r.Ops = append(r.Ops, t.ops...)
		switch {
		case t.done != nil && !measured && t.done.Calls() != t.requests():
			return Round{}, fmt.Errorf("worker %d counted %d calls and told of %d", i, t.done.Calls(), t.requests())
		case t.done != nil:
			r.Summary.Merge(t.done.Summary)
			r.Usage.merge(t.done.Usage)
		case ctx.Err() == nil:
			r.Deaths = append(r.Deaths, f.workers[i].death(i, t.err))
		}
	}
	return r, nil
}

// dismiss asks all workers to stop after the call under way, and kills those that have not by the end of the grace.
func (f *Fleet) dismiss() {
	f.closed.Do(func() {
		f.gate.Close()
		for _, p := range f.workers {
			p.stdin.Close()
			time.AfterFunc(grace, func() { p.cmd.Process.Kill() }) // of a process that was waited for, a no-op
		}
	})
}

// Close ends all workers and waits for them.
func (f *Fleet) Close() {
	f.dismiss()
	f.each(func(_ int, p *process) error {
		io.Copy(io.Discard, p.out) // until it closes its output: it must not block on a full pipe
		p.cmd.Wait()
		return nil
	})
}
