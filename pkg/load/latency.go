package load

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The histogram tells latencies apart to a thousandth from a microsecond up; an hour is longer than any call may take.
const (
	finest  = int64(time.Microsecond)
	longest = int64(time.Hour)
	digits  = 3
)

// Latency is a distribution of durations. The zero value is empty.
type Latency struct {
	h *hdrhistogram.Histogram
}

func newLatency() Latency { return Latency{h: hdrhistogram.New(finest, longest, digits)} }

// record counts n calls that took d each.
func (l *Latency) record(d time.Duration, n int64) {
	// A value out of range is an error of the histogram and would vanish: it counts as the longest.
	_ = l.h.RecordValues(min(int64(d), longest), n)
}

func (l *Latency) merge(o Latency) {
	if o.h == nil {
		return
	}
	if l.h == nil {
		*l = newLatency()
	}
	l.h.Merge(o.h)
}

// Count is how many durations there are.
func (l Latency) Count() int64 {
	if l.h == nil {
		return 0
	}
	return l.h.TotalCount()
}

// Max is the longest duration, to the histogram's thousandth; 0 if there are none.
func (l Latency) Max() time.Duration { return l.Quantile(1) }

// Quantile is the latency that the given share of calls (0 to 1) did not exceed; 0 if there were none.
func (l Latency) Quantile(q float64) time.Duration {
	if l.h == nil {
		return 0
	}
	return time.Duration(l.h.ValueAtQuantile(q * 100))
}

// MarshalText encodes the whole histogram, so that a merge of many loses nothing.
func (l Latency) MarshalText() ([]byte, error) {
	if l.h == nil {
		return nil, nil
	}
	text, err := l.h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encode latencies: %w", err)
	}
	return text, nil
}

// UnmarshalText decodes what MarshalText wrote.
func (l *Latency) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*l = Latency{}
		return nil
	}
	h, err := hdrhistogram.Decode(text)
	if err != nil {
		return fmt.Errorf("decode latencies: %w", err)
	}
	l.h = h
	return nil
}
