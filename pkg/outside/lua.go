package outside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// maxSource bounds a Lua file, in bytes.
const maxSource = 1 << 20

// openLua makes limiters of a Lua file. Without a mapping it keeps the contract of our own scripts, and is run as they
// are, on the server's clock; else it is run as the mapping says.
func openLua(name, file string, t Terms) (Kind, error) {
	source, err := readSource(file)
	if err != nil {
		return Kind{}, err
	}
	m, mapped, err := parseMapping(source)
	if err != nil {
		return Kind{}, fmt.Errorf("%s:%w", file, err)
	}
	return Kind{Unit: mapped && m.units, Callers: m.callers, New: func(
		rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option,
	) (limiter.Limiter, error) {
		settings := limiter.Apply(opts...)
		if err := l.ValidateBucket(); err != nil {
			return nil, limiter.Classify(name, err, false)
		}
		if !mapped {
			return limiter.NewScript(rdb, t.As, source, l, limiter.WithPrefix(settings.Prefix), limiter.WithFile(file))
		}
		raw := limiter.NewRaw(rdb, name, source, limiter.WithFile(file))
		return newMapped(&mappedScript{mapping: m, name: name, file: file, rule: t.As, raw: raw, rdb: rdb, limit: l, settings: settings})
	}}, nil
}

// readSource reads a Lua file.
func readSource(file string) (string, error) {
	if file == "" {
		return "", errors.New("lua: wants a file, as in lua:limit.lua")
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("lua: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("lua: %s is not a file", file)
	}
	source, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("lua: %w", err)
	case len(source) > maxSource:
		return "", fmt.Errorf("lua: %s has more than 1 MiB", file)
	}
	return string(source), nil
}

// mappedScript is a limiter that is a Lua script with a mapping.
//
// A request is one EVALSHA; what is sent again, and how errors are classified, is as with our own scripts. A request of
// cost 0 is passed on only to a script that takes a cost and tells all that a Decision holds; others do not know
// what a peek is, and might write. It then only makes sure that the script is loaded.
type mappedScript struct {
	mapping
	name     string
	file     string
	rule     string // last word of the key: who keeps one rule may share it
	raw      *limiter.Raw
	rdb      redis.UniversalClient
	limit    limiter.Limit
	settings limiter.Settings
	ids      *limiter.IDs
}

// newMapped completes the script: it puts in what is the same in every call.
func newMapped(s *mappedScript) (limiter.Limiter, error) {
	_, err := limiter.Key(s.settings.Prefix, "any", s.rule)
	if err == nil {
		s.keys, err = bind(s.keys, s.limit)
	}
	if err == nil {
		s.argv, err = bind(s.argv, s.limit)
	}
	if err != nil {
		return nil, limiter.Classify(s.name, err, false)
	}
	if s.settings.Clock == nil {
		s.settings.Clock = time.Now
	}
	s.ids = limiter.NewIDs()
	return s, nil
}

// Check runs the script under an id that no other request has.
func (s *mappedScript) Check(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	return s.CheckID(ctx, key, cost, s.ids.Next())
}

// CheckID runs the script.
func (s *mappedScript) CheckID(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
	err := limiter.CheckRequest(key, cost, id)
	if err == nil && s.units && cost > 1 {
		err = &limiter.FieldError{Field: "cost", Problem: "must be 1: the script takes one event a request"}
	}
	if err != nil {
		return limiter.Decision{}, limiter.Classify(s.name, err, false)
	}
	if cost == 0 && (s.units || !s.whole()) {
		return limiter.Decision{Allowed: true}, s.raw.Load(ctx)
	}
	a, err := s.asked(key, cost, id)
	if err != nil {
		return limiter.Decision{}, err
	}
	reply, err := s.raw.Run(ctx, fill(s.keys, a), fill(s.argv, a))
	if err != nil {
		return limiter.Decision{}, err
	}
	d, err := s.decision(reply, s.limit)
	if err != nil {
		return d, &limiter.Error{Limiter: s.name, Class: limiter.ClassScript, Unknown: true, Err: fmt.Errorf("%s: %w", s.file, err)}
	}
	return d, nil
}

func (s *mappedScript) asked(key string, cost int64, id string) (asked, error) {
	of, err := limiter.Key(s.settings.Prefix, key, s.rule)
	if err != nil {
		return asked{}, limiter.Classify(s.name, err, false)
	}
	a := asked{key: of, id: id, cost: cost}
	if s.callers {
		a.now = s.settings.Clock()
	}
	return a, nil
}

// Reset deletes the script's keys of a client.
func (s *mappedScript) Reset(ctx context.Context, key string) error {
	a, err := s.asked(key, 0, "")
	if err != nil {
		return err
	}
	return limiter.Classify(s.name, s.rdb.Del(ctx, fill(s.keys, a)...).Err(), false)
}
