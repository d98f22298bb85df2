// Package load is the one loop that sends requests, and what it counted.
//
// The loop is closed: a client asks again when it has its answer. It shows what a limiter does under as much pressure
// as its clients can make, and hides from a latency the requests that a slow answer kept from being sent.
package load

import (
	"context"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// Plan is what one client does.
type Plan struct {
	Key      string
	Cost     int64 // events a request
	Attempts int64 // requests
}

// Summary counts what clients did. Requests, not events.
type Summary struct {
	Allowed int64   `json:"allowed"`
	Denied  int64   `json:"denied"`
	Failed  int64   `json:"failed"`  // errors that were certainly not counted
	Unknown int64   `json:"unknown"` // errors that may have been counted
	Retries int64   `json:"retries"` // attempts beyond the first that a limiter made within its calls
	Latency Latency `json:"latency"` // of every call, errors too
}

// Run makes the plan's attempts one after another. When ctx ends it finishes the call under way and returns what there
// is; a call's own deadline is its client's business.
func Run(ctx context.Context, l limiter.Limiter, p Plan) Summary {
	s := Summary{Latency: newLatency()}
	calls := context.WithoutCancel(ctx)
	for range p.Attempts {
		if ctx.Err() != nil {
			break
		}
		start := time.Now()
		d, err := l.Check(calls, p.Key, p.Cost)
		s.Latency.record(time.Since(start))
		s.count(d, err)
	}
	return s
}

func (s *Summary) count(d limiter.Decision, err error) {
	switch {
	case err == nil && d.Allowed:
		s.Allowed++
	case err == nil:
		s.Denied++
	case limiter.Counted(err):
		s.Unknown++
	default:
		s.Failed++
	}
}

// Calls is how many calls ended, in whatever way.
func (s Summary) Calls() int64 { return s.Allowed + s.Denied + s.Failed + s.Unknown }

// Merge adds o to s. Nothing is lost: histograms are added bucket by bucket.
func (s *Summary) Merge(o Summary) {
	s.Allowed += o.Allowed
	s.Denied += o.Denied
	s.Failed += o.Failed
	s.Unknown += o.Unknown
	s.Retries += o.Retries
	s.Latency.merge(o.Latency)
}
