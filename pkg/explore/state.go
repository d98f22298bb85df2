package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/wire"
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
	dies       int64 // ms since 1970; -1 if never
}

// bytes are the snapshot in a form that equal ones share.
func (s snapshot) bytes() (b []byte) {
	for _, k := range s {
		b = wire.AppendCommand(b, k.name, k.dump, strconv.FormatInt(k.dies, 10))
	}
	return b
}

// ttl is what is left of a key's life at a time; of one that lives for ever it is not defined.
func (k frozen) ttl(at time.Time) time.Duration {
	return time.Duration(k.dies-at.UnixMilli()) * time.Millisecond
}

// diesAs tells whether the key dies in the millisecond in which the rule lets it die, or is not there where the rule has
// none.
func (s snapshot) diesAs(m model.State) bool {
	if m.Expires().IsZero() || len(s) == 0 {
		return m.Expires().IsZero() && len(s) == 0
	}
	return !slices.ContainsFunc(s, func(k frozen) bool { return k.dies != m.Expires().UnixMilli() })
}

// ttls are the TTLs of a snapshot as a person reads them.
func (s snapshot) ttls(at time.Time) string {
	if len(s) == 0 {
		return "none"
	}
	texts := make([]string, len(s))
	for i, k := range s {
		texts[i] = k.ttl(at).String()
	}
	return strings.Join(texts, ", ")
}

// looking returns name, value and time of death of every key.
const looking = `
local all = redis.call('KEYS', '*')
table.sort(all)
local out = {}
for _, k in ipairs(all) do
  out[#out + 1], out[#out + 2], out[#out + 3] = k, redis.call('DUMP', k), redis.call('PEXPIRETIME', k)
end
return out`

// take looks at all keys of the server.
func (x *explorer) take() (snapshot, error) {
	reply, err := x.direct.Ask(x.taking, 1)
	if err != nil {
		return nil, err
	}
	return taken(reply[0])
}

func taken(v wire.Value) (snapshot, error) {
	if v.Err() {
		return nil, fmt.Errorf("take a snapshot: %s", v.Text)
	}
	s := make(snapshot, 0, len(v.Elems)/3)
	for e := v.Elems; len(e) >= 3; e = e[3:] {
		dies, err := strconv.ParseInt(e[2].Text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("take a snapshot: %w", err)
		}
		s = append(s, frozen{e[0].Text, e[1].Text, dies})
	}
	return s, nil
}

// restoring are the commands that make the server hold a snapshot and nothing else, and the number of their replies.
func restoring(s snapshot) (commands []byte, replies int) {
	commands = wire.AppendCommand(nil, "FLUSHDB")
	for _, k := range s {
		commands = wire.AppendCommand(commands, "RESTORE", k.name, strconv.FormatInt(max(0, k.dies), 10), k.dump, "ABSTTL")
	}
	return commands, 1 + len(s)
}

func (x *explorer) restore(s snapshot) error {
	commands, n := restoring(s)
	replies, err := x.direct.Ask(commands, n)
	if err != nil {
		return err
	}
	return refusedAny(replies)
}

func refusedAny(replies []wire.Value) error {
	for _, v := range replies {
		if v.Err() {
			return fmt.Errorf("restore a state: %s", v.Text)
		}
	}
	return nil
}

// readOnly asks the server whether a command cannot write, once.
func (x *explorer) readOnly(ctx context.Context, name string) (bool, error) {
	if reads, known := x.reads[name]; known {
		return reads, nil
	}
	info, err := x.control.Do(ctx, "command", "info", name).Slice()
	if err != nil {
		return false, fmt.Errorf("ask what %s does: %w", name, err)
	}
	fields, _ := info[0].([]any)
	reads := name == "watch" || len(fields) > 2 && strings.Contains(fmt.Sprint(fields[2]), "readonly")
	x.reads[name] = reads
	return reads, nil
}

// observe reads all keys as a person would.
func (x *explorer) observe(ctx context.Context) ([]Key, error) {
	names, err := x.control.Keys(ctx, "*").Result()
	if err != nil {
		return nil, fmt.Errorf("list the keys: %w", err)
	}
	slices.Sort(names)
	keys := make([]Key, len(names))
	for i, name := range names {
		keys[i], err = x.read(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("look at a key: %w", err)
		}
	}
	return keys, nil
}

func (x *explorer) read(ctx context.Context, name string) (Key, error) {
	kind, err := x.control.Type(ctx, name).Result()
	ttl, err2 := x.control.PTTL(ctx, name).Result()
	k := Key{Name: name, Type: kind, TTL: ttl != time.Duration(-1)}
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
