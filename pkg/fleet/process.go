package fleet

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
)

// process is one worker as its parent sees it.
type process struct {
	heard atomic.Int64 // messages
	due   atomic.Bool  // it has something to tell: its silence means that it hangs

	seen   int64 // of heard, at the last look
	silent int   // looks since then

	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
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

// prepare hands the worker its job and waits until it stands at the gate.
func (p *process) prepare(j Job, proc int) error {
	p.due.Store(true)
	defer p.due.Store(false)
	line, err := json.Marshal(j.of(proc))
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
	p.heard.Add(1)
	var m message
	return m, json.Unmarshal(line, &m)
}

// lookAt kills a worker that had told nothing when it was last looked at, and nothing since.
func (p *process) lookAt() {
	heard := p.heard.Load()
	if heard != p.seen || !p.due.Load() {
		p.seen, p.silent = heard, 0
		return
	}
	if p.silent++; p.silent == 2 {
		p.cmd.Process.Kill()
	}
}

// tale is what one worker told of a round.
type tale struct {
	ops  []history.Op
	done *done // nil if the worker did not live to tell,
	err  error // and then how its tale ended: io.EOF, unless it spoke rubbish
}

// requests is how many of the calls wanted something; the others kept it or gave it back.
func (t tale) requests() (n int64) {
	for i := range t.ops {
		if t.ops[i].Asked() {
			n++
		}
	}
	return n
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
		if answered != nil && m.Op.Asked() {
			answered()
		}
	}
	for _, op := range open {
		op.Outcome, op.Class = history.Unknown, history.ClassDied
		t.ops = append(t.ops, op)
	}
	return t
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
