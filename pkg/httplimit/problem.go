package httplimit

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// problems is where the types that nobody has registered are explained.
const problems = "https://github.com/rlctl/rlctl/blob/main/docs/http.md#"

// The types of problem. They stay as they are: programs compare them.
const (
	QuotaExceeded      = "https://iana.org/assignments/http-problem-types#quota-exceeded" // 429, the draft's own
	LimiterUnavailable = problems + "limiter-unavailable"                                 // 503, a policy denied
	NotDecided         = problems + "not-decided"                                         // 503, an error
	NotCountable       = problems + "not-countable"                                       // 400
)

// titles go with the types.
var titles = map[string]string{
	QuotaExceeded:      "Request cannot be satisfied as assigned quota has been exceeded",
	LimiterUnavailable: "The rate limiter cannot be asked, and nobody passes unasked",
	NotDecided:         "The rate limiter did not decide",
	NotCountable:       "The request cannot be counted",
}

// Values that all refusals share; who appends to one gets a copy.
var (
	problemJSON = []string{"application/problem+json"}
	noStore     = []string{"no-store"} // RFC 6585: a 429 must not be kept by a cache
)

// refuse answers a request in place of the handler.
func (h *handler) refuse(w http.ResponseWriter, a Answer) {
	header := w.Header()
	header["Content-Type"], header["Cache-Control"] = problemJSON, noStore
	w.WriteHeader(a.Status)
	_, _ = w.Write(append(h.problem(a), '\n')) // a client that is gone is nobody's concern
}

// problem is the document of a refusal. Beside what RFC 9457 names it has the fields of a decision, under the names that
// rlctl check gives them.
func (h *handler) problem(a Answer) []byte {
	b := make([]byte, 0, 640)
	switch {
	case a.Status == http.StatusBadRequest:
		b = head(b, NotCountable, a.Status)
		text, _ := json.Marshal(a.Err.Error()) // a string is never refused
		return append(append(b, text...), '}')
	case a.Err != nil:
		b = head(b, NotDecided, a.Status)
		if limiter.Counted(a.Err) {
			return append(b, `"it may have been counted all the same","counted":"perhaps"}`...)
		}
		return append(b, `"it was not counted","counted":"no"}`...)
	case a.Decision.Degraded:
		b = head(b, LimiterUnavailable, a.Status)
		b = append(b, `"the failure policy refuses what cannot be decided"`...)
	default:
		b = head(b, QuotaExceeded, a.Status)
		b = h.detail(b, a)
		b = append(append(append(b, `,"violated-policies":["`...), h.Name...), `"]`...)
	}
	return h.decision(b, a)
}

// head is a document up to its detail.
func head(b []byte, kind string, status int) []byte {
	b = append(append(b, `{"type":"`...), kind...)
	b = append(append(b, `","title":"`...), titles[kind]...)
	b = strconv.AppendInt(append(b, `","status":`...), int64(status), 10)
	return append(b, `,"detail":`...)
}

// detail tells a person what to do.
func (h *handler) detail(b []byte, a Answer) []byte {
	d := a.Decision
	if d.RetryAfter == limiter.Never {
		b = strconv.AppendInt(append(b, `"a request of `...), a.Cost, 10)
		b = strconv.AppendInt(append(b, ` never passes where `...), h.Limit.Capacity(), 10)
		return append(b, ` is the most: waiting does not help"`...)
	}
	b = append(b, `"the request takes `...)
	b = strconv.AppendInt(b, a.Cost, 10)
	if d.Remaining >= 0 {
		b = strconv.AppendInt(append(b, `, and of `...), h.Limit.Capacity(), 10)
		b = append(strconv.AppendInt(append(b, ` there are `...), d.Remaining, 10), ` left`...)
	}
	if d.RetryAfter > 0 {
		b = append(strconv.AppendInt(append(b, `; retry in `...), seconds(d.RetryAfter), 10), ` s`...)
	}
	return append(b, '"')
}

// decision are the last members of a document.
func (h *handler) decision(b []byte, a Answer) []byte {
	d := a.Decision
	number := func(name string, n int64, known bool) {
		b = append(append(append(b, `,"`...), name...), `":`...)
		if known {
			b = strconv.AppendInt(b, n, 10)
		} else {
			b = append(b, `null`...)
		}
	}
	number("limit", h.Limit.Events, true)
	number("window_us", h.Limit.Window.Microseconds(), true)
	number("burst", h.Limit.Capacity(), true)
	number("cost", a.Cost, true)
	number("remaining", d.Remaining, !d.Degraded && d.Remaining >= 0)
	if d.RetryAfter == limiter.Never {
		number("retry_after_us", -1, true)
	} else {
		number("retry_after_us", d.RetryAfter.Microseconds(), d.RetryAfter > 0)
	}
	number("reset_after_us", d.ResetAfter.Microseconds(), !d.Degraded)
	return append(strconv.AppendBool(append(b, `,"degraded":`...), d.Degraded), '}')
}
