package outside

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// What a worker can do wrong, as classes of errors.
const (
	ClassDied    limiter.Class = "worker-died"    // it ended, or could not be started
	ClassHung    limiter.Class = "worker-hung"    // it did not answer in time
	ClassRubbish limiter.Class = "worker-rubbish" // it wrote what is not in the protocol
	ClassRefused limiter.Class = "worker-error"   // it answered with an error
)

// IsWorker tells whether a class is one of those of a worker.
func IsWorker(c limiter.Class) bool {
	return c == ClassDied || c == ClassHung || c == ClassRubbish || c == ClassRefused
}

// Exec is a limiter that is a worker process in any language, which it speaks to over pipes: JSON lines, each request
// with an id, so that a worker may answer in any order. docs/worker.md is the protocol.
//
// The process starts with the first request and serves until Close, or until it breaks the protocol: it is then ended,
// and every later request fails. Nothing is asked twice. It is killed when ours dies.
type Exec struct {
	name, command string
	secret        string // password
	hello         hello
	clock         func() time.Time
	patience      time.Duration // for an answer; 0: as long as the request's context
	ids           *limiter.IDs

	mu     sync.Mutex
	worker *worker // nil before the first request
	opened bool
}

// startUp is how long an interpreter may take to get ready on a busy machine.
const startUp = 20 * time.Second

// openExec makes limiters of a command. The shell reads it, and becomes it.
func openExec(name, command string, t Terms) (Kind, error) {
	if strings.TrimSpace(command) == "" {
		return Kind{}, errors.New("exec: wants a command, as in 'exec:python3 worker.py'")
	}
	return Kind{New: func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
		settings := limiter.Apply(opts...)
		if _, err := limiter.Key(settings.Prefix, "any", t.As); err != nil {
			return nil, limiter.Classify(name, err, false)
		}
		if err := l.ValidateBucket(); err != nil {
			return nil, limiter.Classify(name, err, false)
		}
		e := &Exec{name: name, command: command, clock: settings.Clock, ids: limiter.NewIDs(), hello: hello{
			Protocol: Protocol, Limiter: t.As, Limit: l.Events, WindowUS: l.Window.Microseconds(), Burst: l.Capacity(),
			Prefix: settings.Prefix,
		}}
		if rdb == nil { // somebody asks whether it takes the limit
			return e, nil
		}
		if err := e.leadTo(rdb); err != nil {
			return nil, &limiter.Error{Limiter: name, Class: limiter.ClassInvalid, Err: err}
		}
		return e, nil
	}}, nil
}

// leadTo tells the worker where Redis is: where the client leads.
func (e *Exec) leadTo(rdb redis.UniversalClient) error {
	address, password, timeout, err := addressOf(rdb)
	if err != nil {
		return err
	}
	e.hello.Redis, e.secret = address, password
	if timeout > 0 {
		e.hello.TimeoutMS = timeout.Milliseconds()
		e.patience = 4*timeout + time.Second // a request may be several commands
	}
	return nil
}

// Check asks the worker under an id that no other request has.
func (e *Exec) Check(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	return e.CheckID(ctx, key, cost, e.ids.Next())
}

// CheckID asks the worker. Errors are of the classes here, and those of a request outside the bounds.
func (e *Exec) CheckID(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
	if err := limiter.CheckRequest(key, cost, id); err != nil {
		return limiter.Decision{}, limiter.Classify(e.name, err, false)
	}
	if !utf8.ValidString(key) || !utf8.ValidString(id) { // JSON would make two of them one
		return limiter.Decision{}, limiter.Classify(e.name, &limiter.FieldError{Field: "key", Problem: "must be text for a worker"}, false)
	}
	w, err := e.ready(ctx)
	if err != nil {
		return limiter.Decision{}, e.fail(err, false)
	}
	q := question{Key: key, Cost: cost, Request: id}
	if e.clock != nil {
		q.NowUS = e.clock().UnixMicro()
	}
	a, err := w.ask(ctx, q, e.patience)
	if err != nil {
		return limiter.Decision{}, e.fail(err, true)
	}
	if a.Error != "" {
		counted := a.Counted == nil || *a.Counted
		return limiter.Decision{}, &limiter.Error{Limiter: e.name, Class: ClassRefused, Unknown: counted, Err: errors.New(a.Error)}
	}
	return a.decision(), nil
}

// ready starts the worker if it does not run, and has it begin anew if it is to.
func (e *Exec) ready(ctx context.Context) (*worker, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.worker == nil {
		w, err := startWorker(e.command, e.secret)
		if err != nil {
			return nil, err
		}
		e.worker = w
	}
	if e.opened {
		return e.worker, nil
	}
	if err := e.worker.open(ctx, e.hello); err != nil {
		return nil, err
	}
	e.opened = true
	return e.worker, nil
}

// fail classifies what came in place of an answer.
func (e *Exec) fail(err error, sent bool) error {
	class := limiter.ClassNoAnswer
	var f *fault
	if errors.As(err, &f) {
		class = f.class
	}
	return &limiter.Error{Limiter: e.name, Class: class, Unknown: sent, Err: err}
}

// Renew makes the next request the first of a worker that remembers nothing. One that died is started again.
func (e *Exec) Renew() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opened = false
	if e.worker != nil && e.worker.ended() {
		e.worker.stop()
		e.worker = nil
	}
}

// Close ends the process.
func (e *Exec) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.worker != nil {
		e.worker.stop()
		e.worker = nil
	}
	return nil
}
