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
}

// missing names a sentinel error in a report.
type missing string

const (
	noServer missing = "server"
	noClock  missing = "clock"
	noFolder missing = "folder"
)

// Keep is the body of a keeper process. It reads Options from stdin as one JSON value, starts a server as its child and
// reports it on stdout. Then it waits for the end of stdin, which comes when the parent closes it or dies in whatever
// way, or for the death of the server; and takes server and folder away.
//
// It ignores the signals by which a terminal ends a process group: whoever handles Ctrl-C in the parent still needs the
// server. If the keeper itself is killed, on Linux the server dies with it and [Kept.Close] removes the folder.
func Keep(stdin io.Reader, stdout io.Writer) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	var opts Options
	if err := json.NewDecoder(stdin).Decode(&opts); err != nil {
		return fmt.Errorf("read the options of the server to keep: %w", err)
	}
	ctx, orphaned := context.WithCancel(context.Background())
	defer orphaned()
	go func() {
		io.Copy(io.Discard, stdin)
		orphaned()
	}()
	return keep(ctx, opts, json.NewEncoder(stdout))
}

func keep(ctx context.Context, opts Options, out *json.Encoder) error {
	s, err := Start(ctx, opts)
	if err != nil {
		return errors.Join(err, out.Encode(failure(err)))
	}
	err = out.Encode(report{Socket: s.Socket(), PID: s.PID(), Name: s.Name(), Version: s.Version(), Dir: s.Dir()})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	select {
	case <-ctx.Done():
	case <-s.Done():
		err = errors.Join(s.Err(), out.Encode(failure(s.Err())))
	}
	return errors.Join(err, s.Close())
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
