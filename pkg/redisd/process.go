package redisd

import (
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one run of the server.
type process struct {
	cmd  *exec.Cmd
	log  *tail
	done chan struct{} // closed when it has ended

	mu     sync.Mutex
	killed bool // by us
	died   bool // by itself; valid once done is closed
}

// startProcess starts cmd so that it ends with us (Linux), and so that a terminal's Ctrl-C does not reach it.
//
// The parent-death signal comes when the *thread* that started the child ends. So one goroutine, tied to its thread,
// both starts the child and waits for it.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, log: &tail{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	cmd.WaitDelay = time.Second // in case a child of the server holds its stdout
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		cmd.Wait()
		p.mu.Lock()
		p.died = !p.killed
		p.mu.Unlock()
		close(p.done)
	}()
	return p, <-started
}

// kill ends the process at once and returns when it is gone.
func (p *process) kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	p.cmd.Process.Kill() // fails only when it has ended already
	<-p.done
}

// keptLines is how many lines a tail keeps, and maxLine how many bytes of each.
const (
	keptLines = 50
	maxLine   = 500
)

// tail is a writer that keeps the last lines written to it.
type tail struct {
	mu    sync.Mutex
	lines []string
	open  []byte // the line that has not ended
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range b {
		switch {
		case c == '\n':
			t.end()
		case len(t.open) < maxLine:
			t.open = append(t.open, c)
		}
	}
	return len(b), nil
}

func (t *tail) end() {
	if line := strings.TrimSpace(string(t.open)); line != "" {
		t.lines = append(t.lines, line)
	}
	if len(t.lines) > keptLines {
		t.lines = t.lines[1:]
	}
	t.open = t.open[:0]
}

// last returns the last n lines, empty ones left out.
func (t *tail) last(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append([]string(nil), t.lines...)
	if line := strings.TrimSpace(string(t.open)); line != "" {
		all = append(all, line)
	}
	return all[max(0, len(all)-n):]
}
