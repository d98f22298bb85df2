package serve

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/rlctl/rlctl/pkg/httplimit"
	"github.com/rlctl/rlctl/pkg/limiter"
)

// key is whose request it is.
func key(r *http.Request) (string, error) {
	value, given, err := parameter(r.URL.RawQuery, "key")
	if err == nil && !given {
		err = errors.New("key is missing: /check?key=KEY")
	}
	return value, err
}

// cost is how many events it takes, 1 where it does not say.
func cost(r *http.Request) (int64, error) {
	value, given, err := parameter(r.URL.RawQuery, "cost")
	if err != nil || !given {
		return 1, err
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > limiter.MaxCost {
		return 0, errors.New("cost must be a whole number from 0 to 9007199254740991")
	}
	return n, nil
}

// parameter reads one parameter of a query. Two of one name are refused: whoever stands in front may have read the other.
func parameter(query, name string) (value string, given bool, err error) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		word, escaped, _ := strings.Cut(pair, "=")
		if word != name {
			continue
		}
		if given {
			return "", true, errors.New(name + " is given twice")
		}
		if value, err = url.QueryUnescape(escaped); err != nil {
			return "", true, errors.New(name + " is not escaped as a query is")
		}
		given = true
	}
	return value, given, nil
}

// checked is the handler behind the limiter: it says what was decided.
type checked struct {
	name  string
	limit limiter.Limit
}

// decision is what rlctl check tells of one, by the same schema.
type decision struct {
	Schema       string `json:"schema"`
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

// ServeHTTP is reached by what was allowed, and in shadow mode by everything. Where nothing was decided there is nothing
// to say.
func (c checked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, _ := httplimit.AnswerOf(r.Context())
	if a.Err != nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, c.decision(a))
}

func (c checked) decision(a httplimit.Answer) decision {
	d := a.Decision
	out := decision{
		Schema: "rlctl.check/v1", Key: a.Key, Limiter: c.name, Allowed: d.Allowed, Limit: c.limit.Events,
		WindowUS: c.limit.Window.Microseconds(), Burst: c.limit.Capacity(), Cost: a.Cost, Degraded: d.Degraded,
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

// writeJSON answers with one line of JSON.
func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // a client that is gone is nobody's concern
}
