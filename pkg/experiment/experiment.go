// Package experiment runs what rlctl shows: each experiment is a plan that is checked, run, and turned into a result.
// What only asks a server something or looks after it, check and script, goes the same way.
package experiment

import (
	"fmt"
	"os/exec"

	"github.com/rlctl/rlctl/pkg/target"
)

// Env is what an experiment finds around it.
type Env struct {
	Catalogue []target.Entry
	Self      func(args ...string) *exec.Cmd // this binary, started again
	Note      func(text string)              // one line for the person who watches
	Progress  func(done, total int64, what string)
}

// UsageError is a plan that cannot be run.
type UsageError struct {
	Flag string // the flag at fault, as typed: "--procs"; empty for an argument
	Text string
}

func (e *UsageError) Error() string {
	if e.Flag == "" {
		return e.Text
	}
	return e.Flag + ": " + e.Text
}

func usage(flag, format string, args ...any) error {
	return &UsageError{Flag: flag, Text: fmt.Sprintf(format, args...)}
}
