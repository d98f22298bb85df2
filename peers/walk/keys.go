package walk

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// key is a key as it can be put back.
type key struct {
	name, dump string
	dies       int64 // the last ms of its life; -1 if it has no end
}

// look returns name, value and time of death of every key. The server holds no others.
var look = redis.NewScript(`
local out = {}
for _, k in ipairs(redis.call('KEYS', '*')) do
  out[#out + 1], out[#out + 2], out[#out + 3] = k, redis.call('DUMP', k), redis.call('PEXPIRETIME', k)
end
return out`)

// take looks at all keys.
func (w *walker) take(ctx context.Context) (keys []key, err error) {
	all, err := look.Run(ctx, w.rdb, nil).Slice()
	if err != nil {
		return nil, fmt.Errorf("look at the keys: %w", err)
	}
	for ; len(all) >= 3; all = all[3:] {
		name, _ := all[0].(string)
		dump, _ := all[1].(string)
		dies, _ := all[2].(int64)
		keys = append(keys, key{name, dump, dies})
	}
	return keys, nil
}

// put makes the server hold these keys and no others.
func (w *walker) put(ctx context.Context, keys []key) error {
	_, err := w.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.FlushDB(ctx)
		for _, k := range keys {
			p.Do(ctx, "RESTORE", k.name, max(0, k.dies), k.dump, "ABSTTL")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("put the keys back: %w", err)
	}
	return nil
}
