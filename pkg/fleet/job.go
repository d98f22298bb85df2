// Package fleet runs requests from processes of their own.
//
// A worker is this very binary started again. Jobs go in on its standard input, one JSON line each, so that no password
// shows in ps; what happened comes out on its standard output, line by line, so that a worker that is killed has told
// all but what it was doing just then. All workers wait at one gate, a pipe they share: each takes one byte from it,
// and one write of as many bytes as there are workers lets them all go at once.
//
// A worker stops when its standard input ends. It therefore never outlives its parent, however that one died.
package fleet

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/load"
	"github.com/rlctl/rlctl/pkg/outside"
	"github.com/rlctl/rlctl/pkg/target"
)

// Job is one round of one limiter, as each worker does it.
type Job struct {
	Target string        `json:"target"` // name in the catalogue, or from outside
	Terms  outside.Terms `json:"terms"`  // of one from outside
	// Others are limiters that share the key with the first: the processes take them in turn.
	Others   []Other       `json:"others,omitempty"`
	Unit     bool          `json:"unit"` // of a measured job: it takes one event a request, whatever it is asked for
	Conn     target.Conn   `json:"conn"`
	Prefix   string        `json:"prefix"`
	Limit    limiter.Limit `json:"limit"`
	Key      string        `json:"key"`
	Cost     int64         `json:"cost"`     // events a request
	Attempts int64         `json:"attempts"` // requests a client
	Every    time.Duration `json:"every_ns"` // between two requests of one caller that are due; 0: when it has its answer
	Clients  int           `json:"clients"`  // concurrent callers in the process
	IDs      string        `json:"ids"`      // what request ids begin with
	// Apart opens the limiter once a client instead of once a process, so that clients of one process share no more
	// than those of several do.
	Apart bool `json:"apart"`
	// Measured, if set, has the calls measured and not recorded: the Round has no Ops, and Key and Attempts say nothing.
	Measured *Measured `json:"measured,omitempty"`
	// Wild, if set, has the clients ask at random: Cost and Attempts say nothing, and Key is what names begin with.
	Wild *Wild `json:"wild,omitempty"`
	// AtGate, if set, is called when all workers are ready, just before the gate opens.
	AtGate func() error `json:"-"`
	Proc   int          `json:"proc"` // set by Run
}

// Other is one more limiter of a job, named as in it.
type Other struct {
	Target string        `json:"target"`
	Terms  outside.Terms `json:"terms"`
}

// of is the job of one process.
func (j Job) of(proc int) Job {
	j.Proc = proc
	if i := proc % (1 + len(j.Others)); i > 0 {
		j.Target, j.Terms = j.Others[i-1].Target, j.Others[i-1].Terms
	}
	j.Others = nil
	return j
}

// Path is what a limiter is to answer under a load.
type Path string

// The paths.
const (
	Allowed Path = "allowed" // every request: each key is asked no more often than its limit, then another is asked
	Denied  Path = "denied"  // every request: the limit of each key was taken before
	Mixed   Path = "mixed"   // one of this and one of that in turn
)

// Measured is a load that runs for a time.
type Measured struct {
	Path         Path          `json:"path"`
	For          time.Duration `json:"for_ns"`
	Every        time.Duration `json:"every_ns"` // between two requests of one caller that are due; 0 is a closed loop
	Keys         int           `json:"keys"`
	Zipf         float64       `json:"zipf"` // exponent, above 1; 0 asks all keys alike
	Room         int64         `json:"room"` // events that a fresh key allows
	Batch        int           `json:"batch"`
	AutoPipeline bool          `json:"autopipeline"`
	Procs        int           `json:"procs"` // processes that share the keys
	Tidy         bool          `json:"tidy"`  // delete the keys, by name, when the next job comes or none does
}

// Wild is a load of random costs, keys and pauses that runs for a time. Its seed gives the same costs, keys and pauses
// again, and not the interleaving.
type Wild struct {
	For   time.Duration   `json:"for_ns"`
	Keys  int             `json:"keys"`
	Costs []int64         `json:"costs"`    // one of which each request takes
	Pause time.Duration   `json:"pause_ns"` // the longest before a request
	Seed  uint64          `json:"seed"`
	Skew  []time.Duration `json:"skew,omitempty"` // of each process's clock, for limiters that decide on it; of the others 0
}

// Usage is what the workers themselves used.
type Usage struct {
	CPU     time.Duration `json:"cpu_ns"`     // of all cores
	Mallocs int64         `json:"mallocs"`    // objects
	Elapsed time.Duration `json:"elapsed_ns"` // from the gate to the last answer
}

func (u *Usage) merge(o Usage) {
	u.CPU += o.CPU
	u.Mallocs += o.Mallocs
	u.Elapsed = max(u.Elapsed, o.Elapsed)
}

// done is how a worker's round ended.
type done struct {
	load.Summary
	Usage Usage `json:"usage"`
}

// message is one line from a worker. One field is set.
type message struct {
	Ready bool        `json:"ready,omitempty"` // connected, script loaded, waiting at the gate
	Op    *history.Op `json:"op,omitempty"`
	Done  *done       `json:"done,omitempty"`
	Fault *fault      `json:"fault,omitempty"` // the job could not begin
}

// fault carries an error and its class from one process to another on the same system, with what errors.Is is asked about.
type fault struct {
	Limiter  string        `json:"limiter,omitempty"`
	Class    limiter.Class `json:"class"`
	Text     string        `json:"text"`
	Errno    syscall.Errno `json:"errno,omitempty"`
	Ended    bool          `json:"ended,omitempty"`     // io.EOF
	TimedOut bool          `json:"timed_out,omitempty"` // os.ErrDeadlineExceeded
}

func newFault(err error) *fault {
	f := &fault{
		Class: limiter.ClassOther, Text: err.Error(),
		Ended: errors.Is(err, io.EOF), TimedOut: errors.Is(err, os.ErrDeadlineExceeded),
	}
	errors.As(err, &f.Errno)
	var e *limiter.Error
	if errors.As(err, &e) {
		f.Limiter, f.Class, f.Text = e.Limiter, e.Class, e.Err.Error()
	}
	return f
}

func (f *fault) err() error {
	s := said{text: f.Text}
	switch {
	case f.Errno != 0:
		s.cause = f.Errno
	case f.Ended:
		s.cause = io.EOF
	case f.TimedOut:
		s.cause = os.ErrDeadlineExceeded
	}
	return &limiter.Error{Limiter: f.Limiter, Class: f.Class, Err: s}
}

// said is what an error of another process said, and its cause if that is known here.
type said struct {
	text  string
	cause error
}

func (s said) Error() string { return s.text }
func (s said) Unwrap() error { return s.cause }
