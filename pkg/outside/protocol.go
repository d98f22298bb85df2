package outside

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// Protocol is what a worker has to say it speaks.
const Protocol = "rlctl.worker/v1"

// maxLine bounds what a worker may write as one line, in bytes.
const maxLine = 64 << 10

// hello is what a worker is told before its first request, and again whenever it is to begin anew.
type hello struct {
	Protocol  string `json:"protocol"`
	Redis     string `json:"redis"`      // a URL, with its password
	TimeoutMS int64  `json:"timeout_ms"` // of a connection and of each command; 0: wait for as long as it takes
	Limiter   string `json:"limiter"`    // whose rule it claims to keep
	Limit     int64  `json:"limit"`      // events a window
	WindowUS  int64  `json:"window_us"`  // 1000 or more
	Burst     int64  `json:"burst"`      // capacity of a bucket
	Prefix    string `json:"prefix"`     // first word of every key
}

// question is one request.
type question struct {
	ID      int64  `json:"id"`
	Key     string `json:"key"`
	Cost    int64  `json:"cost"`
	Request string `json:"request"`
	NowUS   int64  `json:"now_us,omitempty"`
}

// answer is what a worker wrote in one line: that it is ready, or how a request came out.
type answer struct {
	Ready    bool   `json:"ready"`
	Protocol string `json:"protocol"`

	ID           int64  `json:"id"`
	Allowed      *bool  `json:"allowed"`
	Remaining    *int64 `json:"remaining"`
	RetryAfterUS *int64 `json:"retry_after_us"`
	ResetAfterUS *int64 `json:"reset_after_us"`
	NowUS        *int64 `json:"now_us"`
	Error        string `json:"error"`
	Counted      *bool  `json:"counted"` // with an error: false if it was certainly not counted
}

// parseAnswer reads a line of a worker.
func parseAnswer(line []byte) (a answer, err error) {
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("%s: %.80q", strings.TrimPrefix(err.Error(), "json: "), line)
	}
	switch {
	case a.Ready && a.Protocol != Protocol:
		return a, fmt.Errorf("it is ready for the protocol %q, not for %q", a.Protocol, Protocol)
	case a.Ready:
		return a, nil
	case a.ID < 1:
		return a, errors.New("an answer without the id of a request")
	case a.Error == "" && a.Allowed == nil:
		return a, errors.New("an answer without allowed or error")
	case negative(a.Remaining) || negative(a.ResetAfterUS) || negative(a.NowUS) || a.RetryAfterUS != nil && *a.RetryAfterUS < -1:
		return a, errors.New("an answer with a negative number")
	case a.Error == "" && a.RetryAfterUS != nil && *a.Allowed != (*a.RetryAfterUS == 0):
		return a, errors.New("an answer whose retry_after_us and allowed disagree")
	}
	return a, nil
}

func negative(n *int64) bool { return n != nil && *n < 0 }

// whole tells whether an answer holds all of a Decision.
func (a answer) whole() bool {
	return a.Remaining != nil && a.RetryAfterUS != nil && a.ResetAfterUS != nil && a.NowUS != nil && *a.NowUS > 0
}

// decision is what an answer says. One that is not whole bears no time, so that nobody compares what it does not tell.
func (a answer) decision() limiter.Decision {
	d := limiter.Decision{Allowed: *a.Allowed}
	if a.Remaining != nil {
		d.Remaining = *a.Remaining
	}
	if a.RetryAfterUS != nil {
		d.RetryAfter = time.Duration(*a.RetryAfterUS) * time.Microsecond
		if *a.RetryAfterUS == -1 {
			d.RetryAfter = limiter.Never
		}
	}
	if a.ResetAfterUS != nil {
		d.ResetAfter = time.Duration(*a.ResetAfterUS) * time.Microsecond
	}
	if a.whole() {
		d.At = time.UnixMicro(*a.NowUS)
	}
	return d
}

// line is a value as one line of JSON.
func line(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode a line for the worker: %w", err)
	}
	return b.Bytes(), nil
}
