package experiment

import (
	"fmt"
	"math"

	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
)

// MemSchema names the form of a MemResult.
const MemSchema = "rlctl.mem/v1"

// MemResult is what limiters keep in Redis.
type MemResult struct {
	Schema   string       `json:"schema"` // rlctl.mem/v1
	Env      Provenance   `json:"env"`
	Config   MemConfig    `json:"config"`
	Results  []MemRow     `json:"results"`
	Limiters []MemLimiter `json:"limiters"` // one a limiter
	Million  []MemMillion `json:"million"`  // what --million filled
	// Unmeasured says of limiters why some of their rows are missing.
	Unmeasured []string       `json:"unmeasured"`
	Verdict    replay.Verdict `json:"verdict"` // broken: a key without TTL; inconclusive: two measures disagree
	Reason     string         `json:"reason"`
	Partial    bool           `json:"partial"` // interrupted, or ended by an error
	ElapsedUS  int64          `json:"elapsed_us"`
}

// MemConfig is what all rows have in common.
type MemConfig struct {
	Keys     int64   `json:"keys"` // clients a row, before what RowBytes allows
	Limits   []int64 `json:"limits"`
	Rows     int     `json:"rows"` // planned, with those of --million; fewer are those of a partial run, or Unmeasured
	WindowUS int64   `json:"window_us"`
	RowBytes int64   `json:"row_bytes"`         // that a row may take
	Quantum  int64   `json:"allocator_quantum"` // bytes, of which the server's allocator gives whole multiples
	Seed     string  `json:"seed"`
}

// MemRow is one limiter at one limit, each of its clients having taken the whole limit. A key is a client's: the few
// limiters that keep two names for it count both.
type MemRow struct {
	Limiter        string  `json:"limiter"`
	Limit          int64   `json:"limit"`
	EventsPerKey   int64   `json:"events_per_key"`
	RequestsPerKey int64   `json:"requests_per_key"` // in which they were taken
	Keys           int64   `json:"keys"`
	NamesPerKey    int64   `json:"names_per_key"`
	NameBytes      float64 `json:"name_bytes"`    // length of a key's names
	BytesPerKey    float64 `json:"bytes_per_key"` // MEMORY USAGE, SAMPLES 0
	// TableBytesPerKey is what MEMORY USAGE leaves out: tables, and what the allocator rounds.
	TableBytesPerKey float64  `json:"table_bytes_per_key"`
	BytesPerKeyDelta *float64 `json:"bytes_per_key_delta"` // by which used_memory grew; null on a named server
	Apart            *float64 `json:"apart"`               // how far the two lie apart, as a share of the second
	BytesPerEntry    *float64 `json:"bytes_per_entry"`     // of a log, since the limit before; null at its first
	Encoding         string   `json:"encoding"`
	NoTTL            int64    `json:"no_ttl"`       // names without a lifetime
	Million          int64    `json:"bytes_at_1e6"` // projected, for that many clients
	Billion          int64    `json:"bytes_at_1e9"`

	inner float64 // of TableBytesPerKey, what lies in the value
}

// MemLimiter is how a limiter's key grows, from one key that was filled event by event.
type MemLimiter struct {
	Limiter   string        `json:"limiter"`
	Atomic    bool          `json:"atomic"`
	State     string        `json:"state"`
	Bucket    bool          `json:"bucket"`     // its capacity is apart from its rate
	Log       bool          `json:"log"`        // every event takes room
	Encodings []MemEncoding `json:"encodings"`  // of up to 1,024 events
	MostBytes int64         `json:"most_bytes"` // MEMORY USAGE of a key at most, on the way
	Passes    []MemPass     `json:"passes"`     // of a log, the buckets that take less

	grown []int64
}

// MemEncoding is how Redis keeps a value, first at a number of events. What is no log may go back to another.
type MemEncoding struct {
	Encoding string `json:"encoding"`
	From     int64  `json:"from_events"`
}

// MemPass is the number of events from which on a log takes more than a bucket.
type MemPass struct {
	Limiter string `json:"limiter"`
	From    int64  `json:"from_events"`
}

// MemMillion compares what a million clients take with what fewer of them led to expect.
type MemMillion struct {
	Limiter   string  `json:"limiter"`
	Limit     int64   `json:"limit"`
	Keys      int64   `json:"keys"`
	Bytes     int64   `json:"bytes"` // by which used_memory grew
	Projected int64   `json:"projected_bytes"`
	Apart     float64 `json:"apart"` // as a share of Bytes
	NoTTL     int64   `json:"no_ttl"`
}

func (p Mem) result(env Env, s *server) *MemResult {
	return &MemResult{
		Schema: MemSchema, Env: env.Provenance.madeOn(s.Server), Results: []MemRow{}, Limiters: []MemLimiter{}, Million: []MemMillion{},
		Unmeasured: []string{},
		Config: MemConfig{
			Keys: p.Keys, Limits: p.Limits, WindowUS: p.Window.Microseconds(), RowBytes: rowBytes, Seed: fmt.Sprintf("%x", p.Seed),
		},
	}
}

// grewBy notes what the server's memory grew by, and how well that agrees.
func (row *MemRow) grewBy(bytes int64) {
	delta := float64(bytes) / float64(row.Keys)
	row.BytesPerKeyDelta = &delta
	row.Apart = new(apart(row.BytesPerKey+row.TableBytesPerKey, delta))
}

// apart is how far a figure lies from what was measured, as a share of that.
func apart(figure, measured float64) float64 {
	if measured == 0 {
		return 1
	}
	return math.Abs(figure-measured) / math.Abs(measured)
}

// bytes is what a client takes, by the best measure there is.
func (row MemRow) bytes() float64 {
	if row.BytesPerKeyDelta != nil {
		return *row.BytesPerKeyDelta
	}
	return row.BytesPerKey + row.TableBytesPerKey
}

// add appends a row, with its slope since the limit before.
func (r *MemResult) add(row MemRow) {
	if n := len(r.Results); n > 0 && r.Results[n-1].Limiter == row.Limiter && r.log(row.Limiter) {
		last := r.Results[n-1]
		row.BytesPerEntry = new((row.bytes() - last.bytes()) / float64(row.EventsPerKey-last.EventsPerKey))
	}
	r.Results = append(r.Results, row)
}

// last is the limiter's row at the largest limit that was measured, nil if none was.
func (r *MemResult) last(limiter string) *MemRow {
	for i := len(r.Results) - 1; i >= 0; i-- {
		if r.Results[i].Limiter == limiter {
			return &r.Results[i]
		}
	}
	return nil
}

// log tells whether every event of a limiter takes room.
func (r *MemResult) log(limiter string) bool {
	for _, l := range r.Limiters {
		if l.Limiter == limiter {
			return l.Log
		}
	}
	return false
}

// conclude judges the run when it is over: compares the logs with the buckets, and looks for what must not be.
func (r *MemResult) conclude(partial bool) {
	r.Partial = partial
	r.compare()
	r.Verdict, r.Reason = r.judge()
}

// compare finds for each log from how many events on it takes more than each atomic bucket.
func (r *MemResult) compare() {
	for i := range r.Limiters {
		log := &r.Limiters[i]
		log.Passes = []MemPass{}
		for _, b := range r.Limiters {
			if !log.Log || !b.Bucket || !b.Atomic || b.Log {
				continue
			}
			if n := passes(log.grown, b.MostBytes); n > 0 {
				log.Passes = append(log.Passes, MemPass{b.Limiter, n})
			}
		}
	}
}

// judge says what came out: broken by a key that would stay for ever, inconclusive if figures disagree or are missing.
func (r *MemResult) judge() (replay.Verdict, string) {
	apart := r.apart()
	switch {
	case r.noTTL() > 0:
		return replay.Broken, report.Count(r.noTTL(), "key has no TTL", "keys have no TTL")
	case apart != "":
		return replay.Inconclusive, apart
	case len(r.Unmeasured) > 0:
		return replay.Inconclusive, r.Unmeasured[0]
	case r.Partial || len(r.Results) == 0:
		return replay.Inconclusive, "not all was measured"
	}
	return replay.Held, "every key has a TTL"
}

func (r *MemResult) noTTL() (n int64) {
	for _, row := range r.Results {
		n += row.NoTTL
	}
	for _, m := range r.Million {
		n += m.NoTTL
	}
	return n
}

// apart says which figures lie further apart than they may, "" if none do.
func (r *MemResult) apart() string {
	for _, row := range r.Results {
		if row.Apart != nil && *row.Apart > agreement && !row.tiny() {
			return fmt.Sprintf("%s at %s: the two measures lie %.1f %% apart", row.Limiter, report.Int(row.Limit), 100**row.Apart)
		}
	}
	for _, m := range r.Million {
		if m.Apart > agreement {
			return fmt.Sprintf("%s: %s clients lie %.1f %% from what was projected", m.Limiter, report.Int(m.Keys), 100*m.Apart)
		}
	}
	return ""
}

// tiny tells whether the two measures differ by no more than the buffers of a connection.
func (row MemRow) tiny() bool {
	const buffers = 16 << 10
	if row.BytesPerKeyDelta == nil {
		return false
	}
	return math.Abs(row.BytesPerKey+row.TableBytesPerKey-*row.BytesPerKeyDelta)*float64(row.Keys) < buffers
}

func (m MemMillion) compared() MemMillion {
	m.Apart = apart(float64(m.Projected), float64(m.Bytes))
	return m
}
