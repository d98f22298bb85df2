package hold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// startError says why a command cannot be started, and tells it as a shell does.
func startError(name string, err error) error {
	code := CannotRun
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = NotFound
	}
	var inner *exec.Error
	var path *fs.PathError
	switch {
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &inner):
		err = inner.Err
	}
	return &Error{Code: code, Err: fmt.Errorf("cannot run %s: %w", name, err)}
}

// findable refuses a command that is not there before a slot is taken for it.
func findable(name string) error {
	if _, err := exec.LookPath(name); err != nil {
		return startError(name, err)
	}
	return nil
}

// command is one that runs.
type command struct {
	*exec.Cmd
	ended chan struct{}
}

// start starts the command. It is told to stop if this process is killed: the kernel ties that to the thread that
// starts it, which therefore stays until the command has ended.
func (p Plan) start() (*command, error) {
	c := &command{exec.Command(p.Command[0], p.Command[1:]...), make(chan struct{})}
	c.Stdin, c.Stdout, c.Stderr = p.Stdin, p.Stdout, p.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{}
	stopWithParent(c.SysProcAttr)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			_ = c.Wait() // its state tells
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, startError(p.Command[0], err)
	}
	return c, nil
}

// supervise hands signals on until the command has ended, and tells it to stop when the lease is lost.
func (c *command) supervise(signals <-chan os.Signal, lost <-chan error, note func(string)) (code int) {
	for {
		select {
		case s := <-signals:
			if !fromTerminal(s) {
				_ = c.Process.Signal(s) // it fails if the command has ended
			}
		case why := <-lost:
			lost, code = nil, LeaseLost
			note(fmt.Sprintf("the lease was lost: %v; the command is told to stop", why))
			_ = c.Process.Signal(syscall.SIGTERM)
		case <-c.ended:
			if code == 0 {
				code = c.code()
			}
			return code
		}
	}
}

// code is how the command ended.
func (c *command) code() int {
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return signaled(status.Signal())
	}
	return c.ProcessState.ExitCode()
}

// signaled is the exit code with which shells tell a signal.
func signaled(s syscall.Signal) int { return 128 + int(s) }

// caught takes the signals that are handed on, except those that whoever started this wants ignored, as nohup does. Nobody
// hears that a pipe broke: a note that has no reader must not end the one who keeps the slot.
func caught() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 16)
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	for _, s := range []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals, func() { signal.Stop(signals); signal.Stop(broken) }
}

// onSignals calls one function a signal, in turn, until it is stopped. What came later is left for others.
func onSignals(signals <-chan os.Signal, call ...func(os.Signal)) (stop func()) {
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for _, f := range call {
			select {
			case s := <-signals:
				f(s)
			case <-quit:
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(quit); <-gone })
}

// fromTerminal tells a signal that the command has from the terminal already: what is typed there goes to the whole
// group in the foreground.
func fromTerminal(s os.Signal) bool {
	if s != syscall.SIGINT && s != syscall.SIGQUIT {
		return false
	}
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer terminal.Close()
	foreground, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == syscall.Getpgrp()
}
