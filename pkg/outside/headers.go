package outside

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// said is what the headers of an answer say of a key.
type said struct {
	remaining    int64         // or limiter.Untold, or limiter.Garbled
	retry, reset time.Duration // 0 if they say nothing that can be read
}

// readHeaders reads Retry-After, and of the three ways to tell what remains, the first that is there: the current draft's
// RateLimit, its older RateLimit-Remaining and -Reset, and the X-RateLimit- ones that came before. Times of day are
// counted from the answer's own Date, or from now without one.
func readHeaders(h http.Header, now time.Time) said {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	s := said{remaining: limiter.Untold, retry: waitUntil(h.Get("Retry-After"), now)}
	if list := strings.Join(h.Values("RateLimit"), ","); list != "" {
		s.remaining, s.reset = readRateLimit(list)
		return s
	}
	for _, prefix := range []string{"RateLimit-", "X-RateLimit-"} {
		remaining, reset := h.Get(prefix+"Remaining"), h.Get(prefix+"Reset")
		if remaining == "" && reset == "" {
			continue
		}
		if remaining != "" {
			s.remaining = count(remaining)
		}
		s.reset = waitUntil(reset, now)
		break
	}
	return s
}

// epoch is above what is a number of seconds to wait, and below what is a number of seconds since 1970.
const epoch = 1_000_000_000

// waitUntil reads a number of seconds, an HTTP date, or seconds since 1970. What is past is no wait.
func waitUntil(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n > epoch {
			return max(0, time.Unix(n, 0).Sub(now))
		}
		return max(0, time.Duration(n)*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// count reads what remains.
func count(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 {
		return limiter.Garbled
	}
	return n
}

// readRateLimit reads a RateLimit header: a list of policies, "name";r=REMAINING;t=SECONDS, of which the one with the
// least left counts; or the form of earlier drafts, limit=, remaining=, reset=.
func readRateLimit(list string) (remaining int64, reset time.Duration) {
	remaining = limiter.Untold
	least := func(r, t string) {
		n := count(r)
		if remaining == limiter.Untold || n < remaining {
			remaining, reset = n, waitUntil(t, time.Time{})
		}
	}
	old := map[string]string{}
	for _, item := range splitQuoted(list, ',') {
		params := map[string]string{}
		for _, p := range splitQuoted(item, ';') {
			name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
			params[name] = value
		}
		if r, ok := params["r"]; ok {
			least(r, params["t"])
		}
		for _, name := range []string{"remaining", "reset"} {
			if value, ok := params[name]; ok {
				old[name] = value
			}
		}
	}
	if r, ok := old["remaining"]; ok {
		least(r, old["reset"])
	}
	return remaining, reset
}

// splitQuoted cuts text at each separator that is not within quotes.
func splitQuoted(text string, separator byte) (parts []string) {
	quoted, from := false, 0
	for i := 0; i < len(text); i++ {
		switch {
		case quoted && text[i] == '\\':
			i++
		case text[i] == '"':
			quoted = !quoted
		case text[i] == separator && !quoted:
			parts, from = append(parts, text[from:i]), i+1
		}
	}
	return append(parts, text[from:])
}
