// Package answer tells a decision as a document, the same on the command line and over HTTP: rlctl.check/v1.
package answer

import "github.com/rlctl/rlctl/pkg/limiter"

// Schema is the document's name.
const Schema = "rlctl.check/v1"

// Request is what was asked, and of whom.
type Request struct {
	Key      string
	Limiter  string
	Limit    limiter.Limit
	Capacity int64 // the most that a fresh key allows at once
	Cost     int64
}

// Record is a decision without the name of its schema, as a line of CSV has it.
type Record struct {
	Key          string `json:"key"`
	Limiter      string `json:"limiter"`
	Allowed      bool   `json:"allowed"`
	Limit        int64  `json:"limit"`
	WindowUS     int64  `json:"window_us"`
	Burst        int64  `json:"burst"`
	Cost         int64  `json:"cost"`
	Remaining    *int64 `json:"remaining"`      // null where the policy answered
	RetryAfterUS *int64 `json:"retry_after_us"` // -1 for never, null where it is not known
	ResetAfterUS *int64 `json:"reset_after_us"` // null where the policy answered
	ServerTimeUS *int64 `json:"server_time_us"` // null where the limiter does not say
	Degraded     bool   `json:"degraded"`
}

// Document is a whole one.
type Document struct {
	Schema string `json:"schema"`
	Record
}

// Of tells a decision.
func Of(r Request, d limiter.Decision) Record {
	out := Record{
		Key: r.Key, Limiter: r.Limiter, Allowed: d.Allowed, Limit: r.Limit.Events, WindowUS: r.Limit.Window.Microseconds(),
		Burst: r.Capacity, Cost: r.Cost, Degraded: d.Degraded,
	}
	if !d.Degraded {
		out.Remaining, out.ResetAfterUS = &d.Remaining, new(d.ResetAfter.Microseconds())
	}
	switch {
	case d.RetryAfter == limiter.Never:
		out.RetryAfterUS = new(int64(-1))
	case d.Allowed || d.RetryAfter > 0:
		out.RetryAfterUS = new(d.RetryAfter.Microseconds())
	}
	if !d.At.IsZero() {
		out.ServerTimeUS = new(d.At.UnixMicro())
	}
	return out
}

// Document is the record with its schema.
func (r Record) Document() Document { return Document{Schema, r} }
