package redisd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"
)

// KeeperCommand is the first argument with which a program runs itself as a keeper. The program then calls [Keep].
const KeeperCommand = "keeper"

// report is one line of a keeper's stdout: the first tells where the server is or why there is none, a second why it
// died.
type report struct {
	Socket  string  `json:"socket,omitempty"`
	PID     int     `json:"pid,omitempty"`
	Name    string  `json:"name,omitempty"`
	Version string  `json:"version,omitempty"`
	Dir     string  `json:"dir,omitempty"`
	Error   string  `json:"error,omitempty"`
	Missing missing `json:"missing,omitempty"`
	Obeyed  bool    `json:"obeyed,omitempty"` // the last order, unless Error says why not
}

// order is what the parent may ask of a keeper after it has the first report, one a line. Each is answered by a report.
type order string

const (
	orderStop     order = "stop"     // SIGSTOP
	orderContinue order = "continue" // SIGCONT
	orderKill     order = "kill"     // kill -9
	orderRestart  order = "restart"  // kill -9 if need be, and start again in the same folder
)

// missing names a sentinel error in a report.
type missing string

const (
	noServer missing = "server"
	noClock  missing = "clock"
	noFolder missing = "folder"
)

// Keep is the body of a keeper process. It reads Options from stdin as one JSON value, starts a server as its child and
// reports it on stdout. Then it does to the server what stdin tells it, and waits for the end of stdin, which comes when
// the parent closes it or dies in whatever way, or for the death of the server; and takes server and folder away.
//
// It ignores the signals by which a terminal ends a process group: whoever handles Ctrl-C in the parent still needs the
// server. If the keeper itself is killed, on Linux the server dies with it and [Kept.Close] removes the folder.
func Keep(stdin io.Reader, stdout io.Writer) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	var opts Options
	in := json.NewDecoder(stdin)
	if err := in.Decode(&opts); err != nil {
		return fmt.Errorf("read the options of the server to keep: %w", err)
	}
	ctx, orphaned := context.WithCancel(context.Background())
	defer orphaned()
	orders := make(chan order)
	go func() {
		defer orphaned()
		for {
			var o order
			if in.Decode(&o) != nil {
				return
			}
			select {
			case orders <- o:
			case <-ctx.Done():
				return
			}
		}
	}()
	return keep(ctx, opts, orders, json.NewEncoder(stdout))
}

func keep(ctx context.Context, opts Options, orders <-chan order, out *json.Encoder) error {
	s, err := Start(ctx, opts)
	if err != nil {
		return errors.Join(err, out.Encode(failure(err)))
	}
	err = out.Encode(report{Socket: s.Socket(), PID: s.PID(), Name: s.Name(), Version: s.Version(), Dir: s.Dir()})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	for died := s.Done(); err == nil; {
		select {
		case <-ctx.Done():
			return s.Close()
		case <-died:
			err = errors.Join(s.Err(), out.Encode(failure(s.Err())))
			return errors.Join(err, s.Close())
		case o := <-orders:
			err = out.Encode(s.obey(ctx, o))
			if died = s.Done(); o == orderKill {
				died = nil
			}
		}
	}
	return errors.Join(err, s.Close())
}

// obey does what the parent asked.
func (s *Server) obey(ctx context.Context, o order) report {
	var err error
	switch o {
	case orderStop:
		err = s.Stop()
	case orderContinue:
		err = s.Continue()
	case orderKill:
		err = s.Kill()
	case orderRestart:
		err = s.Restart(ctx)
	default:
		err = fmt.Errorf("a keeper knows no order %q", o)
	}
	r := report{Obeyed: true, PID: s.PID()}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

func failure(err error) report {
	r := report{Error: err.Error()}
	switch {
	case errors.Is(err, ErrNotFound):
		r.Missing = noServer
	case errors.Is(err, ErrNoClock):
		r.Missing = noClock
	case errors.Is(err, ErrNoFolder):
		r.Missing = noFolder
	}
	return r
}

// err returns the error that a report tells, under the same sentinel as in the keeper, or nil.
func (r report) err() error {
	switch {
	case r.Error == "":
		return nil
	case r.Missing == noServer:
		return told{r.Error, ErrNotFound}
	case r.Missing == noClock:
		return told{r.Error, ErrNoClock}
	case r.Missing == noFolder:
		return told{r.Error, ErrNoFolder}
	}
	return errors.New(r.Error)
}

// told is an error by its text, as another process told it, and what it is.
type told struct {
	text string
	is   error
}

func (t told) Error() string { return t.text }
func (t told) Unwrap() error { return t.is }
