// Package accesslog reads access logs, a million lines a second and more: JSON lines, CSV and the combined log format.
//
// A log is cut into blocks at the ends of lines. A parser on each core turns blocks into batches of records, which come
// out in the order of the log. A parser is a small scanner that looks for three fields and keeps nothing else; yet a line
// is broken unless all of it is what its format wants, so that half a line is never taken for a whole one.
//
// Nothing is guessed line by line. What the first lines tell (the format, what a number of a time counts) is decided once,
// said, and held to: a line that does not fit is broken, and told with its number and the reason. What a line holds is
// never told, since it may be anybody's secret.
//
// What this gives up: a record is a line, so that a quoted field of CSV with a line break in it is broken, as is a line
// longer than 1 MiB; a time without a zone is broken, since nobody knows when that was; times are cut to whole microseconds.
package accesslog

import (
	"fmt"
	"hash/maphash"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// Format is how a log is written.
type Format string

// The formats.
const (
	JSON     Format = "json"           // an object a line
	CSV      Format = "csv"            // fields with a separator between them, quoted as in RFC 4180
	Combined Format = "combined"       // of Apache and nginx; the common log format is the beginning of it
	VHost    Format = "vhost_combined" // the same behind the name of the virtual host
)

// Formats lists the formats.
func Formats() []string { return []string{string(JSON), string(CSV), string(Combined), string(VHost)} }

// IsCombined tells whether it is one of the combined log formats, which name their fields themselves.
func (f Format) IsCombined() bool { return f == Combined || f == VHost }

// Record is one request.
type Record struct {
	At   int64  // µs since the epoch, 0 to 2^52
	Cost int64  // events
	Line int64  // its line in the log, counted from 1
	Hash uint64 // of Key, the same for the same key in this process
	Key  []byte // who asks, 1 to 65,536 bytes
}

// Fault is a line that is none of the log's format.
type Fault struct {
	Line   int64
	Reason string // without anything that the line holds
}

// Batch is what a stretch of the log holds, each in the order of the log. It belongs to whoever got it.
type Batch struct {
	Records []Record
	Faults  []Fault
	Lines   int64 // all, also blank ones and the header of a CSV
	Blank   int64 // lines, with the header
	Bytes   int64
}

// Spec says how a log is to be read. Its zero value leaves to the log what the log can tell.
type Spec struct {
	Format    Format // empty: as the first lines tell
	Time      string // field of the time: a dotted path in JSON, a name of the header or a number from 1 on in CSV
	Unit      Unit   // of times that are numbers; empty: as the size of the first one tells
	Key       string // field of the key, likewise; in the combined formats one of CombinedFields
	Cost      string // field of the cost, likewise; empty: Fixed
	Fixed     int64  // cost of every request where no field has it
	Separator byte   // of a CSV; 0 is a comma
	Header    bool   // a CSV has a header although its fields are named by numbers
}

// SpecError is a part of a Spec that the log does not bear.
type SpecError struct {
	Field  string // "input", "time", "time-unit", "key", "cost-field", "separator" or "header"
	Reason string
}

// Error names the field first.
func (e *SpecError) Error() string { return e.Field + ": " + e.Reason }

func refuse(field, format string, args ...any) error {
	return &SpecError{field, fmt.Sprintf(format, args...)}
}

// found are the fields of a line as they stand there. A cost of nil is Fixed.
type found struct{ time, key, cost []byte }

// finder finds the fields of a line, or says what is wrong with it.
type finder interface {
	find(line []byte) (f found, wrong string)
}

// parser turns lines into records.
type parser struct {
	finder
	spec Spec
	skip int64 // lines before the first that is a record: blank ones and the header
}

var seed = maphash.MakeSeed()

// What can be wrong with a field.
const (
	wrongKey     = "key: empty"
	wrongKeySize = "key: longer than 65,536 bytes"
	wrongCost    = "cost: not a whole number from 0 to 9007199254740991"
)

const maxKey = 65_536

// parse reads a line into r, or says what is wrong with it.
func (p *parser) parse(line []byte, r *Record) (wrong string) {
	f, wrong := p.find(line)
	if wrong != "" {
		return wrong
	}
	switch {
	case len(f.key) == 0:
		return wrongKey
	case len(f.key) > maxKey:
		return wrongKeySize
	}
	if r.At, wrong = parseTime(f.time, p.spec.Unit); wrong != "" {
		return wrong
	}
	r.Cost = p.spec.Fixed
	if p.spec.Cost != "" {
		var ok bool
		if r.Cost, ok = parseCost(f.cost); !ok {
			return wrongCost
		}
	}
	r.Key, r.Hash = f.key, maphash.Bytes(seed, f.key)
	return ""
}

func parseCost(text []byte) (cost int64, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		if cost = cost*10 + int64(c-'0'); cost > limiter.MaxCost {
			return 0, false
		}
	}
	return cost, len(text) > 0
}
