package limiter

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/scripts"
)

// Raw is a Lua script that keeps no contract: it has keys, arguments and a reply of its own. It is loaded and sent as a
// Script is, and its errors are of the same classes. It may be used by many goroutines at once.
type Raw struct{ script Script }

// NewRaw returns the script. The name is that of the limiter in errors. Of the options it heeds WithFile.
func NewRaw(rdb redis.UniversalClient, name, source string, opts ...Option) *Raw {
	return &Raw{Script{rdb: rdb, name: name, source: source, settings: Apply(opts...), sha: scripts.SHA1(source)}}
}

// Load makes the script known to every node. A source that is not Lua is an error of ClassInvalid, which names the line.
func (r *Raw) Load(ctx context.Context) error { return r.script.load(ctx) }

// Run sends the script, in one round trip if the server knows it, and returns the reply as go-redis reads it: int64,
// string, nil, []any of such, and with RESP3 also others.
func (r *Raw) Run(ctx context.Context, keys, args []string) (any, error) {
	c := r.newCall(ctx, keys, args)
	err := r.script.rdb.Process(ctx, c)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		notLoaded := r.script.load(ctx)
		c = r.newCall(ctx, keys, args)
		err = r.script.rdb.Process(ctx, c)
		if err != nil && notLoaded != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			return nil, notLoaded
		}
	}
	switch {
	case err == redis.Nil:
		return nil, nil
	case err != nil:
		return nil, r.script.explained(err, keys[0], c.written)
	}
	return c.Val(), nil
}

// rawCall is one EVALSHA of a Raw, as call is one of a Script.
type rawCall struct {
	*redis.Cmd
	written bool
}

func (r *Raw) newCall(ctx context.Context, keys, args []string) *rawCall {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, "evalsha", r.script.sha, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	for _, a := range args {
		all = append(all, a)
	}
	c := &rawCall{Cmd: redis.NewCmd(ctx, all...)}
	c.SetFirstKeyPos(3)
	return c
}

// NoRetry keeps every client of go-redis from sending the call again after it may have run.
func (*rawCall) NoRetry() bool { return true }

// Args is what the client asks for when it writes the call out.
func (c *rawCall) Args() []any {
	c.written = true
	return c.Cmd.Args()
}

// Clone keeps a copy from being the client's own command, which is sent again.
func (c *rawCall) Clone() redis.Cmder {
	again := *c
	again.Cmd = c.Cmd.Clone().(*redis.Cmd)
	return &again
}
