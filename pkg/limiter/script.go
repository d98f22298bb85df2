package limiter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/scripts"
)

// Script is a limiter that is one Lua script. It may be used by many goroutines at once.
//
// A request is one EVALSHA. Redis that does not know the script says NOSCRIPT, which proves that nothing ran; then the
// script is loaded and the request sent once more. Nothing else is ever sent again, whatever the retries that the
// client is set to, since a take whose answer was lost may have been counted: the command says so itself
// (call.NoRetry), and every client of go-redis 9.23 heeds that. A cluster client still follows MOVED, ASK and READONLY,
// which are refused before anything runs, and after any other failure is made to look who has the slots now.
//
// What it cannot do for its caller: a deadline ends the wait for an answer only if the client was made with
// ContextTimeoutEnabled.
type Script struct {
	rdb      redis.UniversalClient
	name     string
	source   string
	limit    Limit
	settings Settings
	rule     rule
	ids      *IDs

	sha, events, window, burst any // arguments that are the same in every call, as they are sent
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// rule is what a limiter asks of its arguments beyond what all do.
type rule struct{ bucket, log, ids, single bool }

var rules = map[string]rule{
	"token-bucket": {bucket: true},
	"gcra":         {bucket: true},
	"sliding-log":  {log: true, ids: true},
	"compact-log":  {log: true},
	semaphore:      {ids: true, single: true},
}

// New returns the atomic limiter of that name (see package scripts for the names). It does no I/O. The Limiter is also
// Identified and a Resetter. An error is of ClassInvalid and names the field at fault.
func New(rdb redis.UniversalClient, name string, l Limit, opts ...Option) (Limiter, error) {
	source, ok := scripts.Source(name)
	if !ok || !slices.Contains(scripts.Limiters(), name) {
		return nil, &Error{name, ClassInvalid, false, &FieldError{"limiter", "must be the name of an atomic limiter"}}
	}
	return NewScript(rdb, name, source, l, opts...)
}

// NewScript returns a limiter that runs source, which may be any Lua that keeps the contract of package scripts. The
// name is the last word of its keys. It does no I/O. The Limiter is also Identified and a Resetter.
func NewScript(rdb redis.UniversalClient, name, source string, l Limit, opts ...Option) (Limiter, error) {
	s, err := newScript(rdb, name, source, l, opts...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func newScript(rdb redis.UniversalClient, name, source string, l Limit, opts ...Option) (*Script, error) {
	s := &Script{rdb: rdb, name: name, source: source, limit: l, settings: Apply(opts...), rule: rules[name]}
	check := Limit.Validate
	if s.rule.bucket {
		check = Limit.ValidateBucket
	}
	if err := errors.Join(check(l), checkPrefix(s.settings.Prefix)); err != nil {
		return nil, Classify(name, err, false)
	}
	s.ids = NewIDs()
	s.sha = scripts.SHA1(source)
	s.events, s.window, s.burst = decimal(l.Events), decimal(l.Window.Microseconds()), decimal(l.Burst)
	return s, nil
}

// Check takes cost events (0 peeks) from key in one script call, under an id that no other request has.
func (s *Script) Check(ctx context.Context, key string, cost int64) (Decision, error) {
	return s.CheckID(ctx, key, cost, s.ids.Next())
}

// CheckID is Check under the caller's id, 1 to 256 bytes. sliding-log counts an id that it holds no second time.
func (s *Script) CheckID(ctx context.Context, key string, cost int64, id string) (Decision, error) {
	if err := s.checkRequest(key, cost, id); err != nil {
		return Decision{}, Classify(s.name, err, false)
	}
	reply, err := s.run(ctx, keyOf(s.settings.Prefix, key, s.name), cost, id)
	if err != nil {
		return Decision{}, err
	}
	return s.decision(reply)
}

// decision is what a reply says.
func (s *Script) decision(reply []int64) (Decision, error) {
	d, err := decode(reply)
	if err != nil {
		return Decision{}, &Error{s.name, ClassScript, true, s.misread(err)}
	}
	if s.settings.Clock != nil {
		d.At = time.Time{}
	}
	return d, nil
}

// Reset deletes all that the limiter keeps for key.
func (s *Script) Reset(ctx context.Context, key string) error {
	if err := checkClient(key); err != nil {
		return Classify(s.name, err, false)
	}
	return Classify(s.name, s.rdb.Del(ctx, keyOf(s.settings.Prefix, key, s.name)).Err(), false)
}

func (s *Script) checkRequest(key string, cost int64, id string) error {
	if err := CheckRequest(key, cost, id); err != nil {
		return err
	}
	switch {
	case s.rule.ids && cost > 0 && id == "":
		return &FieldError{"id", "must not be empty"}
	case s.rule.log && cost > MaxLogCost && cost <= s.limit.Events:
		return &FieldError{"cost", "must be at most 1000 where it fits the limit of a log"}
	case s.rule.single && cost > 1:
		return &FieldError{"cost", "must be at most 1 of a semaphore"}
	}
	return nil
}

// run sends the script, loads it where it is not known, and sends it once more.
func (s *Script) run(ctx context.Context, key string, cost int64, id string) ([]int64, error) {
	c := s.newCall(ctx, key, cost, id)
	err := s.rdb.Process(ctx, c)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		notLoaded := s.load(ctx)
		c = s.newCall(ctx, key, cost, id)
		err = s.rdb.Process(ctx, c)
		if err != nil && notLoaded != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			err = notLoaded
		}
	}
	if err != nil {
		return nil, s.explain(c, err)
	}
	return c.Val(), nil
}

// load makes the script known to every node: a slot may move to any of them. One that cannot be reached need not be
// the one that is asked, so its error counts only if the call then still finds no script.
func (s *Script) load(ctx context.Context) error {
	load := func(ctx context.Context, node *redis.Client) error { return node.ScriptLoad(ctx, s.source).Err() }
	var err error
	switch rdb := s.rdb.(type) {
	case *redis.Client:
		err = load(ctx, rdb)
	case interface {
		ForEachShard(context.Context, func(context.Context, *redis.Client) error) error
	}:
		err = rdb.ForEachShard(ctx, load)
	default:
		err = rdb.ScriptLoad(ctx, s.source).Err()
	}
	if err == nil {
		if s.settings.Loaded != nil {
			s.settings.Loaded()
		}
		return nil
	}
	e := s.place(classify(s.name, err))
	if redis.HasErrorPrefix(err, "Error compiling script") {
		e.Class = ClassInvalid
	}
	e.Unknown, e.Err = false, fmt.Errorf("load the script: %w", e.Err)
	return e
}

// explain classifies the error of a call.
func (s *Script) explain(c *call, err error) error {
	e := s.explained(err, c.key, c.written)
	Rediscover(s.rdb, e)
	if c.written && (errors.Is(err, redis.Nil) || e.Class == ClassNoAnswer && !lost(err)) {
		return &Error{s.name, ClassScript, true, s.misread(errReply)}
	}
	return e
}

// explained classifies the error of a call for a key. One that was never written out was not counted, whatever the error.
func (s *Script) explained(err error, key string, written bool) *Error {
	e := s.place(classify(s.name, err))
	if r, ok := e.Err.(reply); ok {
		e.Err = r.without(key)
	}
	if !written {
		e.Unknown = false
		if e.Class == ClassNoAnswer {
			e.Class = ClassUnreachable
		}
	}
	return e
}

// misread adds where a reply came from that makes no sense.
func (s *Script) misread(err error) error {
	if s.settings.File == "" {
		return err
	}
	return fmt.Errorf("%s: %w", s.settings.File, err)
}

// lost tells a connection that broke or was waited for too long from an answer that came and made no sense.
func lost(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// file is where the source stands.
func (s *Script) file() string {
	if s.settings.File != "" {
		return s.settings.File
	}
	return s.name + ".lua"
}

// place adds to an error that the script raised where its source stands, and the line of it.
func (s *Script) place(e *Error) *Error {
	if r, ok := e.Err.(reply); ok {
		e.Err = r.at(s.file(), s.source)
	}
	return e
}

// call is one EVALSHA. It differs from the client's own command in that it is never sent twice, and knows whether it
// may have been sent at all.
type call struct {
	*redis.IntSliceCmd
	args    [10]any // point to key, id and cost, since a value in an any is an allocation each
	key, id string
	cost    int64
	written bool
}

func (s *Script) newCall(ctx context.Context, key string, cost int64, id string) *call {
	var now any = "0"
	if s.settings.Clock != nil {
		now = s.settings.Clock().UnixMicro()
	}
	c := &call{key: key, id: id, cost: cost}
	c.args = [10]any{"evalsha", s.sha, "1", &c.key, s.events, s.window, s.burst, &c.cost, &c.id, now}
	c.IntSliceCmd = redis.NewIntSliceCmd(ctx, c.args[:]...)
	c.SetFirstKeyPos(3)
	return c
}

// NoRetry keeps every client of go-redis from sending the call again after it may have run.
func (*call) NoRetry() bool { return true }

// Args is what the client asks for when it writes the call out. A cluster client asks earlier too, to find the node;
// then written only says that it may have been.
func (c *call) Args() []any {
	c.written = true
	return c.IntSliceCmd.Args()
}

// Clone keeps a copy from being the client's own command, which is sent again.
func (c *call) Clone() redis.Cmder {
	again := *c
	again.IntSliceCmd = c.IntSliceCmd.Clone().(*redis.IntSliceCmd)
	return &again
}
