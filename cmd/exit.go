package cmd

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/rlctl/rlctl/pkg/hold"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/target"
)

// The exit codes, the same whatever --format.
const (
	exitBroken       = 1  // broken, denied, something missing
	exitInconclusive = 3  // the run showed neither
	exitUsage        = 64 // the command line is wrong
	exitRedis        = 69 // Redis is unreachable or did not answer
	exitInternal     = 70 // a defect of rlctl
	exitWrite        = 74 // a file or the standard output cannot be written, or an address not be listened on
	exitAuth         = 77 // Redis refused the login or the command
	exitHungUp       = 129
	exitInterrupted  = 130
	exitTerminated   = 143
	// hold has further ones, hold.NoSlot and the like, and that of the command which it runs
)

// outcome is a result that is no failure but has an exit code of its own. It was shown on stdout and has no message.
type outcome int

func (o outcome) Error() string { return fmt.Sprintf("exit code %d", int(o)) }

// What a command may find.
const (
	errBroken       outcome = exitBroken
	errInconclusive outcome = exitInconclusive
)

// usageError is a command line that cannot be meant.
type usageError struct {
	err  error  // names the flag or argument at fault
	hint string // what to type instead; may be empty
}

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// usagef returns a usageError without a hint.
func usagef(format string, args ...any) error { return usageError{err: fmt.Errorf(format, args...)} }

// writeError is output that could not be written.
type writeError struct {
	name string
	err  error
}

func (e writeError) Error() string {
	return fmt.Sprintf("cannot write to %s (%v)", e.name, bare(e.err))
}
func (e writeError) Unwrap() error { return e.err }

// listenError is an address that the system does not give to a service.
type listenError struct {
	address string
	err     error
}

func (e listenError) Error() string {
	return fmt.Sprintf("cannot listen on %s (%s)", e.address, bare(e.err))
}
func (e listenError) Unwrap() error { return e.err }

// redisError is an act on a server that failed. It holds a *limiter.Error somewhere.
type redisError struct {
	at  string // where the server is, without secrets; empty if it is private
	err error
}

func (e redisError) Error() string { return e.err.Error() }
func (e redisError) Unwrap() error { return e.err }

// exitCode is the one table from errors to exit codes; the first row that fits counts.
func exitCode(err error) int {
	var end commandEnd
	var notRun *hold.Error
	switch {
	case errors.As(err, &end):
		return int(end)
	case errors.As(err, &notRun):
		return notRun.Code
	}
	for _, row := range []struct {
		fits bool
		code int
	}{
		{err == nil, 0},
		{isSignal(err, syscall.SIGINT), exitInterrupted},
		{isSignal(err, syscall.SIGTERM), exitTerminated},
		{isSignal(err, syscall.SIGHUP), exitHungUp},
		{is[writeError](err) || is[listenError](err), exitWrite},
		{errors.Is(err, redisd.ErrNoFolder), exitWrite},
		{errors.Is(err, errBroken), exitBroken},
		{errors.Is(err, errInconclusive), exitInconclusive},
		{is[usageError](err) || is[*target.ConnError](err), exitUsage},
		{class(err) == limiter.ClassInvalid, exitUsage},
		{class(err) == limiter.ClassAuth, exitAuth},
		{class(err) != "", exitRedis},
	} {
		if row.fits {
			return row.code
		}
	}
	return exitInternal
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

func isSignal(err error, s syscall.Signal) bool {
	var got Signal
	return errors.As(err, &got) && got.Signal == s
}

// class returns what kind of failure of Redis err is, "" if it is none.
func class(err error) limiter.Class {
	var e *limiter.Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}
