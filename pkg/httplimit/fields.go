package httplimit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// The fields, as draft-ietf-httpapi-ratelimit-headers (-10, -11) has them (structured fields, RFC 9651):
//
//	RateLimit-Policy: "NAME";q=100;w=60     100 events in 60 s
//	RateLimit: "NAME";r=99;t=60             99 pass in the next 60 s; then there is more
//	Retry-After: 42                         of a refusal, if waiting helps
//
// All are whole numbers. w is left out where the window is not whole seconds: a number that is wrong would be worse. A
// bucket that holds more or less than its limit says so in rlctl-burst. Who takes no more than r within t is not denied:
// t is when the quota is whole again, although some of it may be back earlier. A denied request is told its own wait in
// it, so that t and Retry-After agree, as the draft wants. Where nobody decided nothing is known, and there is no
// RateLimit.
type fields struct {
	policy []string // the value of RateLimit-Policy, which all answers share; who appends to it gets a copy
	prefix string   // of RateLimit
}

// How net/http spells them, so that Get finds them. Case does not matter to clients.
const (
	rateLimit       = "Ratelimit"
	rateLimitPolicy = "Ratelimit-Policy"
)

func newFields(name string, l limiter.Limit) *fields {
	quoted := `"` + name + `"`
	policy := quoted + ";q=" + strconv.FormatInt(l.Events, 10)
	if l.Window%time.Second == 0 {
		policy += ";w=" + strconv.FormatInt(int64(l.Window/time.Second), 10)
	}
	if l.Capacity() != l.Events {
		policy += ";rlctl-burst=" + strconv.FormatInt(l.Capacity(), 10)
	}
	return &fields{[]string{policy}, quoted + ";r="}
}

// set adds the fields to those that a limiter further out has set: they are lists.
func (f *fields) set(h http.Header, a Answer) {
	if before := h[rateLimitPolicy]; before != nil {
		h[rateLimitPolicy] = append(before, f.policy...)
	} else {
		h[rateLimitPolicy] = f.policy
	}
	d := a.Decision
	if a.Err != nil {
		return
	}
	if !d.Allowed && d.RetryAfter > 0 {
		h["Retry-After"] = []string{strconv.FormatInt(seconds(d.RetryAfter), 10)}
	}
	if d.Degraded || d.Remaining < 0 {
		return
	}
	more := d.ResetAfter
	if d.RetryAfter > 0 {
		more = d.RetryAfter
	}
	var room [128]byte
	b := append(room[:0], f.prefix...)
	b = strconv.AppendInt(b, d.Remaining, 10)
	b = append(b, ";t="...)
	b = strconv.AppendInt(b, seconds(more), 10)
	h[rateLimit] = append(h[rateLimit], string(b))
}
