// Package load is the one loop that sends requests, and what it counted.
//
// Closed, the loop has each client ask again when it has its answer. That shows what a limiter does under as much
// pressure as its clients can make, and hides from a latency the requests that a slow answer kept from being sent. Open,
// requests are due at a rate, whatever the answers take; a request that is sent late because the one before it was not
// answered has waited since it was due, and its response time says so.
//
// One reading of the clock a call is all that the loop adds to a closed one: a call ends where the next begins.
package load

import (
	"context"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// Plan is what one client does.
type Plan struct {
	Key      func() string        // names the key of the next request
	Cost     int64                // events a request
	Costs    func() int64         // of the next request, in the place of Cost; nil without
	Pause    func() time.Duration // of a closed loop before the next request; nil without
	Attempts int64                // requests; 0 is no bound
	For      time.Duration        // after which no request begins; 0 is no bound
	Every    time.Duration        // between the times at which two requests are due; 0: when the last was answered
	Phase    time.Duration        // of the first request that is due
	Batch    int                  // requests a round trip, of a limiter.Batcher; 0 and 1 send each alone
}

// Summary counts what clients did. Requests, not events.
type Summary struct {
	Allowed int64   `json:"allowed"`
	Denied  int64   `json:"denied"`
	Failed  int64   `json:"failed"`  // errors that were certainly not counted
	Unknown int64   `json:"unknown"` // errors that may have been counted
	Retries int64   `json:"retries"` // attempts beyond the first that a limiter made within its calls
	Latency Latency `json:"latency"` // from when a call was due, of every call, errors too
	Service Latency `json:"service"` // from when it was sent; empty in a closed loop, where that is the same
	Lag     Latency `json:"lag"`     // how late an idle client sent; empty in a closed loop
}

// Run makes the plan's requests one after another. When ctx ends it finishes the call under way and returns what there
// is; a call's own deadline is its client's business.
func Run(ctx context.Context, l limiter.Limiter, p Plan) Summary {
	s := Summary{Latency: newLatency()}
	send := p.sender(context.WithoutCancel(ctx), l, &s)
	if p.Every > 0 {
		p.open(ctx, send, &s)
	} else {
		p.closed(ctx, send, &s)
	}
	return s
}

func (p Plan) cost() int64 {
	if p.Costs != nil {
		return p.Costs()
	}
	return p.Cost
}

// size is how many requests one round trip carries.
func (p Plan) size() int64 { return int64(max(1, p.Batch)) }

func (p Plan) closed(ctx context.Context, send func(), s *Summary) {
	start := time.Now()
	for n, sent := int64(0), start; p.goesOn(n, sent.Sub(start)) && ctx.Err() == nil; n += p.size() {
		if p.Pause != nil {
			time.Sleep(p.Pause())
			sent = time.Now()
		}
		send()
		done := time.Now()
		s.Latency.record(done.Sub(sent), p.size())
		sent = done
	}
}

func (p Plan) open(ctx context.Context, send func(), s *Summary) {
	s.Service, s.Lag = newLatency(), newLatency()
	start := time.Now()
	wake := newAlarm(ctx)
	defer wake.close()
	due, free := p.Phase, time.Duration(0) // both since the start, as all below
	for n := int64(0); p.goesOn(n, due); n += p.size() {
		idle := free < due
		if idle && !wake.until(start.Add(due)) || ctx.Err() != nil {
			return
		}
		sent := time.Since(start)
		if idle {
			s.Lag.record(sent-due, 1)
		}
		send()
		free = time.Since(start)
		s.Latency.record(free-due, p.size())
		s.Service.record(free-sent, p.size())
		due += p.Every
	}
}

// goesOn tells whether another request begins, n having been made and so much time having passed.
func (p Plan) goesOn(n int64, passed time.Duration) bool {
	return (p.Attempts == 0 || n < p.Attempts) && (p.For == 0 || passed < p.For)
}

// sender makes what sends the next request, or the next batch, and counts its outcome.
func (p Plan) sender(ctx context.Context, l limiter.Limiter, s *Summary) func() {
	batcher, ok := l.(limiter.Batcher)
	if !ok || p.Batch <= 1 {
		return func() { s.count(l.Check(ctx, p.Key(), p.cost())) }
	}
	keys, answers := make([]string, p.Batch), make([]limiter.Answer, p.Batch)
	return func() {
		for i := range keys {
			keys[i] = p.Key()
		}
		batcher.CheckBatch(ctx, keys, p.Cost, answers)
		for _, a := range answers {
			s.count(a.Decision, a.Err)
		}
	}
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
	s.Service.merge(o.Service)
	s.Lag.merge(o.Lag)
}
