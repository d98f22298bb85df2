package serve

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/rlctl/rlctl/pkg/answer"
	"github.com/rlctl/rlctl/pkg/httplimit"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/metrics"
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

// ServeHTTP is reached by what was allowed, and in shadow mode by everything. Where nothing was decided there is nothing
// to say.
func (c checked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, _ := httplimit.AnswerOf(r.Context())
	if a.Err != nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	asked := answer.Request{Key: a.Key, Limiter: c.name, Limit: c.limit, Capacity: c.limit.Capacity(), Cost: a.Cost}
	writeJSON(w, answer.Of(asked, a.Decision).Document())
}

// counted counts the requests that name no usable key or cost, which shadow mode lets pass, too.
func counted(bad func(reason string)) func(*http.Request, httplimit.Answer) {
	return func(_ *http.Request, a httplimit.Answer) {
		var request *httplimit.BadRequest
		if errors.As(a.Err, &request) {
			bad(request.About)
		}
	}
}

// elsewhere answers whoever asks for a path that is not there.
func elsewhere(bad func(reason string)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		bad(metrics.BadPath)
		refuse(w, http.StatusNotFound, "there are /check?key=KEY&cost=N, /metrics and /healthz")
	}
}

// get lets methods pass that only read, as far as HTTP is concerned.
func get(next http.Handler, bad func(reason string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		bad(metrics.BadMethod)
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "use GET")
	})
}

// refuse answers as RFC 9457 has it, of what has no type of its own.
func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	write(w, struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
}

// writeJSON answers with one line of JSON.
func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	write(w, value)
}

func write(w io.Writer, value any) {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // a client that is gone is nobody's concern
}
