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

// taking returns name, value and time of death of every key, in one round trip.
var taking = redis.NewScript(`
local all = redis.call('KEYS', '*')
table.sort(all)
local out = {}
for _, k in ipairs(all) do
  out[#out + 1], out[#out + 2], out[#out + 3] = k, redis.call('DUMP', k), redis.call('PEXPIRETIME', k)
end
return out`)

// take looks at all keys of the server.
func (x *explorer) take(ctx context.Context) (snapshot, error) {
	reply, err := taking.Run(ctx, x.control, nil).Slice()
	if err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	s := make(snapshot, 0, len(reply)/3)
	for i := 0; i+2 < len(reply); i += 3 {
		name, _ := reply[i].(string)
		dump, _ := reply[i+1].(string)
		dies, _ := reply[i+2].(int64)
		s = append(s, frozen{name, dump, dies})
	}
	return s, nil
}

// restore makes the server hold the snapshot and nothing else.
func (x *explorer) restore(ctx context.Context, s snapshot) error {
	_, err := x.control.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.FlushDB(ctx)
		for _, k := range s {
			p.Do(ctx, "restore", k.name, max(0, k.dies), k.dump, "absttl")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("restore the start: %w", err)
	}
	return nil
}

// key tells the run's state from others: what Redis holds, what each client has been answered and waits for, and the
// order of calls as far as the judge will ask for it.
func (r *run) key() string {
	var b strings.Builder
	text := func(s string) { b.WriteString(strconv.Itoa(len(s))); b.WriteByte(':'); b.WriteString(s) }
	number := func(n int64) { b.WriteString(strconv.FormatInt(n, 10)); b.WriteByte(' ') }
	for _, k := range r.state {
		text(k.name)
		text(k.dump)
		number(k.dies)
	}
	for _, c := range r.clients {
		b.WriteByte('\n')
		number(int64(c.begun))
		if c.dead {
			b.WriteByte('x') // what it was answered is of no interest to anybody
			continue
		}
		number(int64(c.ended))
		if c.parked != nil {
			text(string(c.replies))
			text(strconv.FormatBool(c.charged))
			for _, args := range c.parked.Args {
				text(strings.Join(args, "\x00"))
			}
		}
		for _, n := range c.watch {
			number(int64(n))
		}
	}
	for i, c := range r.s.Calls {
		if c.First < 0 {
			continue
		}
		b.WriteByte('\n')
		number(int64(i))
		number(int64(r.before[i]))
		if c.Ended() {
			b.WriteString(fmt.Sprint(c.Decision, c.Charged))
		}
	}
	return b.String()
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
