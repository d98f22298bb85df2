package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/load"
)

// grace is how long workers have to finish the call under way before they are killed.
const grace = 3 * time.Second

// Fleet is a set of worker processes. It serves one round at a time.
type Fleet struct {
	// Answered, if set, is called for every call that ended, from several goroutines.
	Answered func()

	workers []*process
	gate    *os.File // the end that is written
	closed  sync.Once
}

// process is one worker as its parent sees it.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
}

// Round is what a job came to.
type Round struct {
	Ops     []history.Op // each call once; those that never ended are Unknown
	Summary load.Summary // of the workers that lived to tell
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

func start(cmd *exec.Cmd, gate *os.File) (*process, error) {
	cmd.ExtraFiles = []*os.File{gate}                     // descriptor gateFD
	cmd.Stderr = os.Stderr                                // a worker's panic is the user's to see
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is the parent's to handle
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd: cmd, stdin: stdin, out: bufio.NewReaderSize(stdout, 1<<16)}, nil
}

// Run has every worker do the job and returns when all have finished or died. When ctx ends, the workers finish the
// call they are in; the round then holds what was done, and the fleet is spent.
func (f *Fleet) Run(ctx context.Context, j Job) (Round, error) {
	defer context.AfterFunc(ctx, f.dismiss)()
	err := f.each(func(i int, p *process) error { return p.prepare(j, i) })
	if err != nil {
		return Round{}, errors.Join(context.Cause(ctx), err)
	}
	if _, err := f.gate.Write(make([]byte, len(f.workers))); err != nil && ctx.Err() == nil {
		return Round{}, fmt.Errorf("open the gate: %w", err)
	}
	told := make([]tale, len(f.workers))
	f.each(func(i int, p *process) error { told[i] = p.listen(f.Answered); return nil })
	return f.gather(ctx, told)
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

// prepare hands the worker its job and waits until it stands at the gate.
func (p *process) prepare(j Job, proc int) error {
	j.Proc = proc
	line, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("encode a job: %w", err)
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("worker %d is gone: %w", proc, err)
	}
	m, err := p.next()
	switch {
	case err != nil:
		return fmt.Errorf("worker %d did not get ready: %w", proc, err)
	case m.Fault != nil:
		return m.Fault.err()
	case !m.Ready:
		return fmt.Errorf("worker %d spoke before it was ready", proc)
	}
	return nil
}

func (p *process) next() (message, error) {
	line, err := p.out.ReadSlice('\n')
	if err != nil {
		return message{}, err
	}
	var m message
	return m, json.Unmarshal(line, &m)
}

// tale is what one worker told of a round.
type tale struct {
	ops  []history.Op
	done *load.Summary // nil if the worker did not live to tell,
	err  error         // and then how its tale ended: io.EOF, unless it spoke rubbish
}

// listen reads a worker's calls until it says it is done, or is gone; its open calls then have no end.
func (p *process) listen(answered func()) tale {
	var t tale
	open := map[int]history.Op{} // by client
	for {
		m, err := p.next()
		if err != nil || m.Done != nil {
			t.done, t.err = m.Done, err
			break
		}
		if m.Op == nil {
			continue
		}
		if m.Op.Outcome == history.Open {
			open[m.Op.Client] = *m.Op
			continue
		}
		delete(open, m.Op.Client)
		t.ops = append(t.ops, *m.Op)
		if answered != nil {
			answered()
		}
	}
	for _, op := range open {
		op.Outcome, op.Class = history.Unknown, history.ClassDied
		t.ops = append(t.ops, op)
	}
	return t
}

// gather puts the tales together. What a worker counted must be what it told, call by call.
func (f *Fleet) gather(ctx context.Context, told []tale) (Round, error) {
	var r Round
	for i, t := range told {
		r.Ops = append(r.Ops, t.ops...)
		switch {
		case t.done != nil && t.done.Calls() != int64(len(t.ops)):
			return Round{}, fmt.Errorf("worker %d counted %d calls and told of %d", i, t.done.Calls(), len(t.ops))
		case t.done != nil:
			r.Summary.Merge(*t.done)
		case ctx.Err() == nil:
			r.Deaths = append(r.Deaths, f.workers[i].death(i, t.err))
		}
	}
	return r, nil
}

// death says what became of a worker whose tale ended with err.
func (p *process) death(proc int, err error) Death {
	if !errors.Is(err, io.EOF) {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		return Death{Proc: proc, PID: p.cmd.Process.Pid, Cause: fmt.Sprintf("killed, since it spoke rubbish: %v", err)}
	}
	kill := time.AfterFunc(grace, func() { p.cmd.Process.Kill() }) // it closed its output, but may not end
	defer kill.Stop()
	p.cmd.Wait()
	return Death{Proc: proc, PID: p.cmd.Process.Pid, Cause: p.cmd.ProcessState.String()}
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
