package redisd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// closeLimit bounds the time a keeper gets to take its server away. It needs a few milliseconds.
const closeLimit = 3 * time.Second

// Kept is a private server that a keeper process takes away, whatever becomes of this one.
type Kept struct {
	where
	clock  *Clock
	keeper *exec.Cmd
	stdin  io.WriteCloser
	stderr tail

	ordering sync.Mutex // one order at a time
	pid      atomic.Int64
	obeyed   chan report // answers to orders

	done  chan struct{} // closed when the keeper has ended
	death error         // why, valid once done is closed

	once   sync.Once
	closed error
}

// StartKept runs a private server in the care of a keeper and returns when it answers. self makes the command that runs
// this program with the given arguments, upon which the program must call [Keep]; the keeper works in a session of its
// own, so no terminal reaches it. ctx bounds the start alone; Close ends the server, and so does the end of this
// process.
//
// Errors are those of [Start].
func StartKept(ctx context.Context, self func(args ...string) *exec.Cmd, opts Options) (*Kept, error) {
	k := &Kept{keeper: self(KeeperCommand), done: make(chan struct{}), obeyed: make(chan report, 1)}
	first, err := k.start(opts)
	if err != nil {
		return nil, fmt.Errorf("start the keeper of the private server: %w", err)
	}
	select {
	case r := <-first:
		err = k.settle(r, opts)
	case <-ctx.Done():
		err = fmt.Errorf("start the private server: %w", ctx.Err())
	}
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// start runs the keeper and hands it the options. Its first report comes on the channel.
func (k *Kept) start(opts Options) (<-chan report, error) {
	if k.keeper.SysProcAttr == nil {
		k.keeper.SysProcAttr = &syscall.SysProcAttr{}
	}
	k.keeper.SysProcAttr.Setsid = true
	k.keeper.Stderr = &k.stderr
	stdin, err := k.keeper.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := k.keeper.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := k.keeper.Start(); err != nil {
		return nil, err
	}
	k.stdin = stdin
	first := make(chan report, 1)
	go k.listen(stdout, first)
	json.NewEncoder(stdin).Encode(opts) // fails only when the keeper has ended, which listen tells
	return first, nil
}

// listen passes the keeper's first report on, then waits for its end.
func (k *Kept) listen(stdout io.Reader, first chan<- report) {
	reports := json.NewDecoder(stdout)
	var r, last report
	err := reports.Decode(&r)
	if err == nil {
		first <- r
		for reports.Decode(&last) == nil && last.Obeyed {
			k.obeyed <- last
			last = report{}
		}
	}
	k.keeper.Wait()
	k.death = last.err()
	if k.death == nil && !k.keeper.ProcessState.Success() {
		k.death = k.ended()
	}
	if err != nil {
		first <- report{Error: k.ended().Error()}
	}
	close(k.done)
}

func (k *Kept) ended() error {
	err := fmt.Errorf("the keeper of the private server ended: %s", k.keeper.ProcessState)
	if said := k.stderr.last(5); len(said) > 0 {
		return fmt.Errorf("%w; its last words:\n    %s", err, strings.Join(said, "\n    "))
	}
	return err
}

// settle takes over what the first report says.
func (k *Kept) settle(r report, opts Options) (err error) {
	if err := r.err(); err != nil {
		return err
	}
	k.pid.Store(int64(r.PID))
	k.where = where{dir: r.Dir, prog: program{name: r.Name, version: r.Version}}
	if opts.Clock {
		if k.clock, err = mapWord(filepath.Join(k.dir, wordName)); err != nil {
			return fmt.Errorf("share the clock: %w", err)
		}
	}
	return nil
}

// PID returns the process id of the server, which Restart changes.
func (k *Kept) PID() int { return int(k.pid.Load()) }

// Stop stops the server as SIGSTOP does: it keeps its connections and answers nobody, until Continue.
func (k *Kept) Stop() error { return k.order(orderStop) }

// Continue lets a stopped server go on.
func (k *Kept) Continue() error { return k.order(orderContinue) }

// Kill ends the server as kill -9 does. Its keeper stays, and its folder, for Restart.
func (k *Kept) Kill() error { return k.order(orderKill) }

// Restart kills the server, unless it was killed, starts it again on the same socket, in the same folder and with the same
// clock, and returns when it answers. It comes back empty unless Options made it write to its folder. A server that does
// not come back is gone, and Done tells. The keeper bounds it, as it bounds the start.
func (k *Kept) Restart(context.Context) error { return k.order(orderRestart) }

// order has the keeper do something to the server and waits until it is done.
func (k *Kept) order(o order) error {
	k.ordering.Lock()
	defer k.ordering.Unlock()
	if err := json.NewEncoder(k.stdin).Encode(o); err != nil {
		return fmt.Errorf("%s the private server: %w", o, err)
	}
	select {
	case r := <-k.obeyed:
		k.pid.Store(int64(r.PID))
		if err := r.err(); err != nil {
			return fmt.Errorf("%s the private server: %w", o, err)
		}
		return nil
	case <-k.done:
		return fmt.Errorf("%s the private server: its keeper is gone", o)
	}
}

// Clock returns the server's settable clock, nil unless Options asked for one. It starts as the real time.
func (k *Kept) Clock() *Clock { return k.clock }

// Done returns a channel that is closed when the server is gone or nobody keeps it any more.
func (k *Kept) Done() <-chan struct{} { return k.done }

// Err tells, once Done is closed, what ended the server, with its last log lines: nil when that was Close.
func (k *Kept) Err() error {
	select {
	case <-k.done:
		return k.death
	default:
		return nil
	}
}

// Close takes the server and its folder away and returns when they are gone. Closing again does nothing.
func (k *Kept) Close() error {
	k.once.Do(func() { k.closed = k.close() })
	return k.closed
}

func (k *Kept) close() error {
	k.stdin.Close() // the keeper's sign to clean up
	select {
	case <-k.done:
	case <-time.After(closeLimit):
		k.keeper.Process.Kill()
		<-k.done
	}
	if _, err := os.Stat(k.dir); k.dir == "" || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return k.cleanUp()
}

// cleanUp does the work of a keeper that was killed. Where no parent-death signal took the server along, it is still
// there and told to go.
func (k *Kept) cleanUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	call(ctx, k.Socket(), "SHUTDOWN NOSAVE") // no answer means it is gone
	if err := os.RemoveAll(k.dir); err != nil {
		return fmt.Errorf("remove the private server's folder: %w", err)
	}
	return nil
}
