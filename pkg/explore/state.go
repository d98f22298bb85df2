package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Key is what Redis holds under one key, as a person reads it.
type Key struct {
	Name  string
	Type  string // as TYPE says
	Value string // a string as it is, a hash as its fields, of all else the number of entries
	TTL   bool   // it has one
}

// snapshot is all keys with their values and times of death, by name.
type snapshot []frozen

type frozen struct {
	name, dump string
	dies       time.Duration // since 1970; -1 ns if never
}

// take looks at all keys of the server.
func (x *explorer) take(ctx context.Context) (snapshot, error) {
	names, err := x.names(ctx)
	if err != nil {
		return nil, err
	}
	dumps, dies := make([]*redis.StringCmd, len(names)), make([]*redis.DurationCmd, len(names))
	_, err = x.control.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			dumps[i], dies[i] = p.Dump(ctx, name), p.PExpireTime(ctx, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	s := make(snapshot, len(names))
	for i, name := range names {
		s[i] = frozen{name, dumps[i].Val(), dies[i].Val()}
	}
	return s, nil
}

func (x *explorer) names(ctx context.Context) ([]string, error) {
	names, err := x.control.Keys(ctx, "*").Result()
	if err != nil {
		return nil, fmt.Errorf("list the keys: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

// restore makes the server hold the snapshot and nothing else.
func (x *explorer) restore(ctx context.Context, s snapshot) error {
	_, err := x.control.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.FlushDB(ctx)
		for _, k := range s {
			p.Do(ctx, "restore", k.name, max(0, k.dies.Milliseconds()), k.dump, "absttl")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("restore the state to start from: %w", err)
	}
	return nil
}

// immortal is the first key without a TTL, "" if there is none.
func (s snapshot) immortal() string {
	for _, k := range s {
		if k.dies < 0 {
			return k.name
		}
	}
	return ""
}

// observe reads all keys as a person would.
func (x *explorer) observe(ctx context.Context) ([]Key, error) {
	names, err := x.names(ctx)
	if err != nil {
		return nil, err
	}
	keys := make([]Key, len(names))
	for i, name := range names {
		keys[i], err = x.look(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("look at a key: %w", err)
		}
	}
	return keys, nil
}

func (x *explorer) look(ctx context.Context, name string) (Key, error) {
	kind, err := x.control.Type(ctx, name).Result()
	ttl, err2 := x.control.PTTL(ctx, name).Result()
	k := Key{Name: name, Type: kind, TTL: ttl != -1}
	if err := errors.Join(err, err2); err != nil {
		return k, err
	}
	switch kind {
	case "string":
		k.Value, err = x.control.Get(ctx, name).Result()
	case "hash":
		var fields map[string]string
		fields, err = x.control.HGetAll(ctx, name).Result()
		var parts []string
		for f, v := range fields {
			parts = append(parts, f+" "+v)
		}
		slices.Sort(parts)
		k.Value = strings.Join(parts, ", ")
	case "zset":
		k.Value, err = entries(x.control.ZCard(ctx, name))
	case "list":
		k.Value, err = entries(x.control.LLen(ctx, name))
	default:
		k.Value = "a " + kind
	}
	return k, err
}

func entries(n *redis.IntCmd) (string, error) {
	if n.Val() == 1 {
		return "1 entry", n.Err()
	}
	return fmt.Sprintf("%d entries", n.Val()), n.Err()
}
