// Package experiment runs what rlctl shows: each experiment is a plan that is checked, run, and turned into a result.
// What only asks a server something or looks after it, check and script, goes the same way.
package experiment

import (
	"os/exec"

	"github.com/rlctl/rlctl/pkg/target"
)

// Env is what an experiment finds around it.
type Env struct {
	Catalogue  []target.Entry
	Provenance Provenance                     // what the program says of itself; each experiment adds the machine and the server
	Self       func(args ...string) *exec.Cmd // this binary, started again
	Note       func(text string)              // one line for the person who watches
	Progress   func(done, total int64, what string)
}
