package metrics

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// Redactor names clients in a log so that lines of one client can be told from those of others, and nobody can tell from
// a line who it is. It is a keyed digest (HMAC-SHA-256, of which 40 bits are shown) under a secret that is drawn once and
// never leaves the process: without it the digests of all API keys in the world could simply be tried. After a restart a
// client has another name.
type Redactor struct{ secret [32]byte }

// NewRedactor draws the secret.
func NewRedactor() *Redactor {
	r := &Redactor{}
	_, _ = rand.Read(r.secret[:]) // it never fails: the program ends where the system gives no random bytes
	return r
}

// Redact is the digest of a key, ten hexadecimal digits.
func (r *Redactor) Redact(key string) string {
	mac := hmac.New(sha256.New, r.secret[:])
	mac.Write([]byte(key))
	return hex.EncodeToString(mac.Sum(nil)[:5])
}

// restOfLines is for how long a class of failure is only counted after a line about it.
const restOfLines = time.Second

// Lines writes failures of limiters to a log: the class, how many calls ended so and how many of these may have been
// counted, and the digest of the last one's client. What Redis or the network said is left out, since it may hold an
// address, a name or a key.
//
// A class of one limiter has a line a second at most. What came in between is a number in the next line, so that a dead
// Redis under ten thousand requests a second costs a line a second, and no failure goes untold.
type Lines struct {
	log    *slog.Logger
	redact *Redactor
	mu     sync.Mutex
	busy   map[topic]*summary // topics that had a line within the last second
	closed bool
}

// topic is what has lines of its own.
type topic struct {
	limiter string
	class   limiter.Class
}

// summary is what came since the last line of a topic.
type summary struct {
	calls, unknown int64
	key            string // of the last call
}

func (s *summary) add(unknown bool, key string) {
	s.calls++
	if unknown {
		s.unknown++
	}
	s.key = key
}

// NewLines writes to log.
func NewLines(log *slog.Logger, r *Redactor) *Lines {
	return &Lines{log: log, redact: r, busy: map[topic]*summary{}}
}

// Limiter writes where next, called name, fails. It is Identified if next is; other powers of next are found by limiter.As.
// What the caller did wrong is no failure, nor is a call that its caller has cancelled. It belongs beneath a failure
// policy, which else hides failures, and so has no line about calls that a breaker keeps back.
func (l *Lines) Limiter(name string, next limiter.Limiter) limiter.Limiter {
	t := told{l, name, next}
	if named, ok := next.(limiter.Identified); ok {
		return &toldByID{t, named}
	}
	return &t
}

// told is a limiter whose failures are told.
type told struct {
	lines *Lines
	name  string
	next  limiter.Limiter
}

// toldByID is one that takes ids.
type toldByID struct {
	told
	named limiter.Identified
}

// Unwrap is the limiter.
func (t *told) Unwrap() limiter.Limiter { return t.next }

// Check asks.
func (t *told) Check(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	d, err := t.next.Check(ctx, key, cost)
	t.tell(ctx, key, err)
	return d, err
}

// CheckID is Check of the request with that id.
func (t *toldByID) CheckID(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
	d, err := t.named.CheckID(ctx, key, cost, id)
	t.tell(ctx, key, err)
	return d, err
}

func (t *told) tell(ctx context.Context, key string, err error) {
	if err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	if class := classOf(err); class != limiter.ClassInvalid {
		t.lines.failed(topic{t.name, class}, limiter.Counted(err), key)
	}
}

// failed writes a line, or counts for the next one.
func (l *Lines) failed(t topic, unknown bool, key string) {
	l.mu.Lock()
	since, busy := l.busy[t]
	if busy {
		since.add(unknown, key)
	} else {
		l.busy[t] = &summary{}
	}
	l.mu.Unlock()
	if !busy {
		var first summary
		first.add(unknown, key)
		l.write(t, first)
	}
}

// write writes a line, and sees after a second what came since. It holds no lock: a log that is stuck keeps up the one
// call that writes.
func (l *Lines) write(t topic, s summary) {
	l.line(t, s)
	time.AfterFunc(restOfLines, func() { l.rested(t) })
}

func (l *Lines) line(t topic, s summary) {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if closed {
		return
	}
	l.log.Warn("not decided", "limiter", t.limiter, "class", string(t.class),
		"calls", s.calls, "maybe_counted", s.unknown, "last_key", l.redact.Redact(s.key))
}

// rested writes what came since the last line, or ends the topic's rest where that is nothing.
func (l *Lines) rested(t topic) {
	l.mu.Lock()
	since := *l.busy[t]
	if since.calls == 0 {
		delete(l.busy, t)
	} else {
		*l.busy[t] = summary{}
	}
	l.mu.Unlock()
	if since.calls > 0 {
		l.write(t, since)
	}
}

// Flush writes at once what was only counted so far, for a program that ends.
func (l *Lines) Flush() {
	l.mu.Lock()
	rest := map[topic]summary{}
	for t, since := range l.busy {
		if since.calls > 0 {
			rest[t] = *since
			*since = summary{}
		}
	}
	l.mu.Unlock()
	for t, s := range rest {
		l.line(t, s)
	}
}

// Close is Flush, after which nothing is written any more, so that a program has the last word in its log whatever it
// leaves unanswered.
func (l *Lines) Close() {
	l.Flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}
