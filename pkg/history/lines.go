package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// A history file is JSON lines: a head, then the calls in any order; then another head with its calls, if there are
// several. A file without a head is one history of which nothing but the calls is known.

// Schema names the form of a head. Calls have no schema of their own: they belong to their head.
const Schema = "rlctl.history/v1"

// Head says what a history is of, and what is known of the server's clock in it.
type Head struct {
	Schema   string    `json:"schema"`            // rlctl.history/v1
	Limiter  string    `json:"limiter"`           // name in the catalogue, by whose rule it is to be judged
	Seed     string    `json:"seed,omitempty"`    // hexadecimal
	Command  string    `json:"command,omitempty"` // that makes such a history again
	Readings []Reading `json:"readings,omitempty"`
	Steps    []Step    `json:"steps,omitempty"`
	Faults   []Fault   `json:"faults,omitempty"`
}

// Reading is the server's clock, read at some time between two instants of CLOCK_MONOTONIC.
type Reading struct {
	Server        time.Time
	Before, After int64 // ns, when the reading was asked for and when it was there
}

type reading struct {
	ServerTimeUS int64 `json:"server_time_us"`
	BeforeNS     int64 `json:"before_ns"`
	AfterNS      int64 `json:"after_ns"`
}

// MarshalJSON writes the reading with its units.
func (r Reading) MarshalJSON() ([]byte, error) {
	return json.Marshal(reading{r.Server.UnixMicro(), r.Before, r.After})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Reading) UnmarshalJSON(data []byte) error {
	var l reading
	if err := json.Unmarshal(data, &l); err != nil {
		return fmt.Errorf("read a reading of the clock: %w", err)
	}
	*r = Reading{time.UnixMicro(l.ServerTimeUS), l.BeforeNS, l.AfterNS}
	return nil
}

// Step is a setting of the server's clock, made at some time between two instants of CLOCK_MONOTONIC, in ns.
type Step struct {
	Before int64 `json:"before_ns"`
	After  int64 `json:"after_ns"`
}

// Fault is something that was done to the callers or to the server.
type Fault struct {
	Name string `json:"fault"`
	From int64  `json:"from_ns"` // of CLOCK_MONOTONIC
	To   int64  `json:"to_ns"`
	// Keys are those whose master died at From.
	Keys []string `json:"keys,omitempty"`
}

// History is a head with its calls.
type History struct {
	Head
	Ops []Op
}

// Write writes one history.
func Write(w io.Writer, h History) error {
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	h.Schema = Schema
	err := lines.Encode(h.Head)
	for i := 0; i < len(h.Ops) && err == nil; i++ {
		err = lines.Encode(h.Ops[i])
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("write a history: %w", err)
	}
	return nil
}

// longestLine bounds a line, in bytes: a head has a reading every 20 ms.
const longestLine = 256 << 20

// Read reads all histories of a file. An error names the line at fault.
func Read(r io.Reader) (all []History, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longestLine)
	n := 0
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		if all, err = add(all, text); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	return all, nil
}

// add takes a line: a head, which begins another history, or a call of the last one.
func add(all []History, text []byte) ([]History, error) {
	if bytes.Contains(text, []byte(`"schema"`)) {
		var h Head
		if err := json.Unmarshal(text, &h); err != nil {
			return nil, err
		}
		if h.Schema != "" {
			if h.Schema != Schema {
				return nil, fmt.Errorf("has the schema %q, want %s", h.Schema, Schema)
			}
			return append(all, History{Head: h}), nil
		}
	}
	var op Op
	if err := json.Unmarshal(text, &op); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		all = append(all, History{})
	}
	last := &all[len(all)-1]
	last.Ops = append(last.Ops, op)
	return all, nil
}
