package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// Wants is for whose sake a server is looked at.
type Wants struct {
	Limiter  string
	Limit    limiter.Limit
	Capacity int64 // events that a fresh key allows at once
	Prefix   string
	Timeout  time.Duration // of each call
	Cluster  bool          // all masters are looked at
	DB       int           // the database of the limits, 0 or more
}

// Said is something that a server was asked for.
type Said[T any] struct {
	Value T
	Why   string // it was not told, in a few words; empty if it was
}

// Facts are all that one node said. No value of a key, no name of one and no password is among them.
type Facts struct {
	Node   string // where it is, without secrets
	Wants  Wants
	Gone   error                   // why nothing more is known; nil if it answers
	Trips  Said[[]Trip]            // of TIME
	Info   Said[map[string]string] // INFO, by field
	Config map[string]Said[string] // CONFIG GET, by name; a name that the server does not know is not there
	Cached Said[map[string]bool]   // by script: whether the server has it
	Slow   Said[[]SlowCall]        // the slow log, the newest first
	Now    time.Time               // the server's clock, zero if it does not tell
	Rights Said[Rights]            // what the user may do
	State  Said[map[string]string] // CLUSTER INFO, by field, of a node of a cluster
}

// Trip is one question for the server's time.
type Trip struct {
	Took   time.Duration // there and back
	Offset time.Duration // the server's clock ahead of this machine's, if both ways took the same
}

// SlowCall is an entry of the slow log.
type SlowCall struct {
	At      time.Time
	Took    time.Duration
	Command string // in lower case, without any argument
	Script  string // which of our scripts it ran; empty if none
}

// Rights tell what the user may do of what limiters need.
type Rights struct {
	How     string              // they were found out; empty if they were not
	All     bool                // those of every limiter were tried, else only of the one that is wanted
	Missing map[string][]string // by limiter: words of the ACL that its user lacks, such as +zadd, or ~ and a pattern of keys
	Gone    []string            // words for commands that the server does not have, or not under that name
	Untried map[string][]string // by limiter: words that could not be tried without writing
	Unclear map[string][]string // by limiter: words of which the server's answer did not tell
}

// setting is a setting as CONFIG tells it, else as INFO does under another name, if it has it.
func (f Facts) setting(name, field string) (string, bool) {
	if said, ok := f.Config[name]; ok && said.Why == "" {
		return said.Value, true
	}
	value, ok := f.Info.Value[field]
	return value, ok && field != ""
}

// number is a setting that is one.
func (f Facts) number(name, field string) (int64, bool) {
	text, ok := f.setting(name, field)
	n, err := strconv.ParseInt(text, 10, 64)
	return n, ok && err == nil
}

// count is a number in INFO.
func (f Facts) count(field string) (int64, bool) { return f.number("", field) }

// blind is the finding of a check that misses what it looks at.
func (f Facts) blind(setting string) Finding {
	why := f.Info.Why
	if said, ok := f.Config[setting]; ok && said.Why != "" {
		why = said.Why
	}
	if why == "" {
		why = fmt.Sprintf("this server does not tell %s", setting)
	}
	return couldNot(why)
}

func couldNot(why string) Finding { return Finding{Level: Unknown, Seen: "could not look: " + why} }

func fine(format string, a ...any) Finding {
	return Finding{Level: Fine, Seen: fmt.Sprintf(format, a...)}
}

// seen begins a finding that is not fine.
func seen(l Level, format string, a ...any) Finding {
	return Finding{Level: l, Seen: fmt.Sprintf(format, a...)}
}

// but says what may come of a finding, and what to do.
func (g Finding) but(endangers string, do ...string) Finding {
	g.Endangers, g.Do = endangers, do
	return g
}

// fields takes text of "name:value" lines apart.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			all[name] = value
		}
	}
	return all
}
