// Package httplimit puts a limiter in front of an HTTP handler.
//
// Each request is asked about once: a key function says whose it is, a cost function how many events it takes. What is
// allowed goes on to the handler; what is denied is answered with 429, a Retry-After where waiting helps, and a problem
// document (RFC 9457). Answers carry the RateLimit and RateLimit-Policy fields of draft-ietf-httpapi-ratelimit-headers.
// What happens when the limiter cannot decide is not settled here but by the limiter that is given, which belongs under
// a policy of package policy: open lets requests pass, closed and error answer 503.
//
// # Where it belongs in a chain
//
//	recover, access log > CORS > who is it > caches > idempotent replay > THE LIMITER > what costs something
//
// Outside of it belongs what is needed to know the client, and is cheap: proxy headers, the check of a token. What a
// client can make up for itself (an API key that nobody has checked, X-Forwarded-For from anywhere) is no key: each
// guess would have a fresh quota. So a limiter by address in front of the log-in, and one by account behind it, are two.
// CORS is outside, too: a preflight is not the client's doing and takes no quota, and a page only reads RateLimit and
// Retry-After if they are named in Access-Control-Expose-Headers.
//
// A cache that answers for nothing belongs outside of the limiter, so that hits are not charged. (Where a quota is what
// was sold, and hits count, it belongs inside.) Either way no refusal may be kept: all are sent with Cache-Control:
// no-store. A cache outside keeps the fields of whoever filled it, so it has to drop them, as the draft says.
//
// Idempotent replay, which answers a repeated Idempotency-Key with what was answered first, belongs outside as well: a
// client that lost an answer and asks again has been charged already. It must keep only what the handler answered. One
// that keeps a 429 repeats it for ever; with the limiter inside, refusals pass through it, and it has to leave out 429
// and 503. If it stands inside instead, a repetition is charged once more, unless the limiter is a log that is asked
// under the same id.
//
// Inside belongs everything that costs: bodies that are read, queries, calls of others. Two limiters in a row are two
// decisions: what the inner one refuses the outer one has charged.
//
// # Clients that hang up
//
// Who asked has asked: a client's going away does not end the call of the limiter, which gets the request's context
// without its end. Redis would count what was sent all the same, a client that hangs up early would pay less than one
// that waits, and a Redis that is silent for longer than clients are patient would look like clients who leave: no
// failure would be told, and no breaker ever rest. So the limiter's time is the policy's, and has to be bounded there.
package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// DefaultMaxKey is how long a key may be, in bytes, unless Options say otherwise.
const DefaultMaxKey = 4096

// Options say how to ask a limiter about requests.
type Options struct {
	// Name is what the fields call the quota policy: 1 to 64 letters, digits, '-', '_' and '.'.
	Name string
	// Limit is what the limiter keeps. It is only told to clients: as RateLimit-Policy and in refusals. A Burst that is
	// not 0 is told as the capacity, so it is to be 0 unless the limiter is a bucket.
	Limit limiter.Limit
	// Key says whose request it is. None, an empty one and an error are answered with 400 and the error's text.
	Key func(*http.Request) (string, error)
	// Cost says how many events it takes, 0 to limiter.MaxCost; nil is 1 for all. An error is answered with 400 and its
	// text.
	Cost func(*http.Request) (int64, error)
	// MaxKey is the most bytes that a key may have, 1 to 65536; 0 is DefaultMaxKey. Longer ones are answered with 400.
	MaxKey int
	// Shadow decides and tells the hook, and lets everything pass. Answers carry no fields then, so that no client
	// holds back because of a limit that is only tried out.
	Shadow bool
	// Tell puts the answer where AnswerOf finds it, for the handler. It costs a request two allocations.
	Tell bool
	// Decided, if not nil, is told of each request before it is answered or goes on. Many goroutines call it at once, and
	// its time is the client's.
	Decided func(*http.Request, Answer)
}

// Answer is what became of a request.
type Answer struct {
	Key      string // as the client gave it: not for logs
	Cost     int64
	Decision limiter.Decision
	Err      error // why there is no decision: the limiter's error, or *BadRequest
	// Status is that of the refusal: 429 denied, 503 not decided, or closed by policy, 400 without a usable key or cost;
	// 0 goes on to the handler. In shadow mode it says what would have been.
	Status int
}

// BadRequest is a request that was not asked about.
type BadRequest struct {
	About   string // key, cost, or empty where the limiter takes no such request
	Problem string
}

// Error says what is wrong with it.
func (e *BadRequest) Error() string { return e.Problem }

func (o *Options) validate() error {
	switch {
	case !named(o.Name):
		return errors.New("httplimit: Name must be 1 to 64 letters, digits, '-', '_' and '.'")
	case o.Key == nil:
		return errors.New("httplimit: Key is missing")
	case o.MaxKey < 0 || o.MaxKey > 65536:
		return errors.New("httplimit: MaxKey must be 1 to 65536")
	}
	if err := o.Limit.Validate(); err != nil {
		return fmt.Errorf("httplimit: Limit: %w", err)
	}
	return nil
}

// named tells whether a name needs no quoting anywhere.
func named(s string) bool {
	for _, r := range s {
		if r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 64
}

// New returns what puts l in front of a handler. The error names the option at fault.
func New(l limiter.Limiter, o Options) (func(http.Handler) http.Handler, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.MaxKey == 0 {
		o.MaxKey = DefaultMaxKey
	}
	f := newFields(o.Name, o.Limit)
	return func(next http.Handler) http.Handler { return &handler{o, f, l, next} }, nil
}

type handler struct {
	Options
	fields  *fields
	limiter limiter.Limiter
	next    http.Handler
}

// ServeHTTP asks, tells, and lets the request pass or refuses it.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := h.ask(r)
	if h.Decided != nil {
		h.Decided(r, a)
	}
	if !h.Shadow {
		h.fields.set(w.Header(), a)
		if a.Status != 0 {
			h.refuse(w, a)
			return
		}
	}
	if h.Tell {
		r = telling(r, a)
	}
	h.next.ServeHTTP(w, r)
}

// answer is the key of an Answer in a context.
type answer struct{}

func telling(r *http.Request, a Answer) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), answer{}, &a))
}

// AnswerOf is what became of the request whose context it is, if the middleware was made with Tell.
func AnswerOf(ctx context.Context) (Answer, bool) {
	a, ok := ctx.Value(answer{}).(*Answer)
	if !ok {
		return Answer{}, false
	}
	return *a, true
}

// ask finds out what is to become of a request.
func (h *handler) ask(r *http.Request) (a Answer) {
	var err error
	about := "key"
	if a.Key, err = h.Key(r); err == nil {
		err = h.usable(a.Key)
	}
	if err == nil {
		about = "cost"
		if a.Cost = 1; h.Cost != nil {
			a.Cost, err = h.Cost(r)
		}
	}
	if err != nil {
		a.Err, a.Status = &BadRequest{about, err.Error()}, http.StatusBadRequest
		return a
	}
	if a.Decision, a.Err = h.limiter.Check(context.WithoutCancel(r.Context()), a.Key, a.Cost); a.Err != nil {
		return failed(a)
	}
	switch d := a.Decision; {
	case d.Allowed:
	case d.Degraded:
		a.Status = http.StatusServiceUnavailable
	default:
		a.Status = http.StatusTooManyRequests
	}
	return a
}

// failed is an answer with an error: the server's trouble, or what the client did wrong. What Redis said of that stays
// here.
func failed(a Answer) Answer {
	var failed *limiter.Error
	var field *limiter.FieldError
	if !errors.As(a.Err, &failed) || failed.Class != limiter.ClassInvalid {
		a.Status = http.StatusServiceUnavailable
		return a
	}
	a.Status = http.StatusBadRequest
	if errors.As(a.Err, &field) {
		a.Err = &BadRequest{field.Field, field.Error()}
	} else {
		a.Err = &BadRequest{"", "the limiter takes no such request"}
	}
	return a
}

func (h *handler) usable(key string) error {
	switch {
	case key == "":
		return errors.New("the request names no key to count it for")
	case len(key) > h.MaxKey:
		return errors.New("the key has more than " + strconv.Itoa(h.MaxKey) + " bytes")
	}
	return nil
}

// seconds are whole ones, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
