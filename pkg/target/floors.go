package target

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/scripts"
)

// The floors: what a call costs that limits nothing. A limiter cannot be cheaper than the least that its way of asking
// costs, so its price is told as a multiple of that.
const (
	FloorEmpty = "(empty script)"       // EVALSHA of return 1, with a limiter's key and arguments
	FloorEval  = "(empty script, EVAL)" // the same by EVAL
	FloorTime  = "(TIME, 5 integers)"   // a script that does what each limiter must: read the time, return five integers
	FloorIncr  = "(INCR)"               // one native command
	FloorGCRA  = "(gcra, EVAL)"         // gcra, its source sent with every call
)

// Floors are the rows that a bench measures beside the catalogue. They keep no rule and allow everything, but for
// FloorGCRA, which is gcra.
func Floors() []Entry {
	const (
		empty = "return 1"
		five  = "local t = redis.call('TIME') return {1, 0, 0, 0, t[1] * 1000000 + t[2]}"
	)
	gcra, _ := scripts.Source("gcra")
	return []Entry{
		{Name: FloorEmpty, New: scripted(empty, true)},
		{Name: FloorTime, New: scripted(five, true)},
		{Name: FloorIncr, New: newIncr},
		{Name: FloorEval, New: scripted(empty, false)},
		{Name: FloorGCRA, New: scripted(gcra, false)},
	}
}

// script is a floor that sends the arguments of a limiter's call.
type script struct {
	rdb      redis.UniversalClient
	settings limiter.Settings
	source   string
	args     [10]any // the fourth is the key, the eighth the cost
}

func scripted(source string, bySHA bool) func(redis.UniversalClient, limiter.Limit, ...limiter.Option) (limiter.Limiter, error) {
	return func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
		s := script{rdb: rdb, settings: limiter.Apply(opts...), source: source}
		number := func(n int64) string { return strconv.FormatInt(n, 10) }
		s.args = [10]any{"eval", source, "1", "", number(l.Events), number(l.Window.Microseconds()), number(l.Burst), "", "id", "0"}
		if bySHA {
			s.args[0], s.args[1] = "evalsha", scripts.SHA1(source)
		}
		return &s, nil
	}
}

// Check sends one call. A peek loads the script.
func (s *script) Check(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	if cost == 0 {
		err := s.rdb.ScriptLoad(ctx, s.source).Err()
		return limiter.Decision{Allowed: true}, limiter.Classify("floor", err, false)
	}
	cmd := s.command(ctx, key, cost)
	return answered(cmd, s.rdb.Process(ctx, cmd))
}

// CheckBatch sends a call a key in one pipeline.
func (s *script) CheckBatch(ctx context.Context, keys []string, cost int64, answers []limiter.Answer) {
	batch(ctx, s.rdb, answers, func(i int) *redis.Cmd { return s.command(ctx, keys[i], cost) })
}

// Reset deletes what gcra keeps; the others keep nothing.
func (s *script) Reset(ctx context.Context, key string) error {
	return s.rdb.Del(ctx, s.key(key)).Err()
}

func (s *script) key(client string) string { return s.settings.Prefix + ":{" + client + "}:floor" }

func (s *script) command(ctx context.Context, key string, cost int64) *redis.Cmd {
	args := s.args
	args[3], args[7] = s.key(key), cost
	cmd := redis.NewCmd(ctx, args[:]...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// incr is INCR of one key, which a peek makes with a lifetime, so that it has one whatever becomes of the caller.
type incr struct {
	rdb    redis.UniversalClient
	prefix string
	key    *string
}

// incrLives is longer than any bench.
const incrLives = 24 * time.Hour

func newIncr(rdb redis.UniversalClient, _ limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
	return incr{rdb, limiter.Apply(opts...).Prefix, new(string)}, nil
}

// Check increments. A peek, which comes first and alone, makes the key.
func (n incr) Check(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	if cost == 0 {
		*n.key = n.prefix + ":{" + key + "}:floor"
		err := n.rdb.Set(ctx, *n.key, 0, incrLives).Err()
		return limiter.Decision{Allowed: true}, limiter.Classify("floor", err, false)
	}
	cmd := redis.NewCmd(ctx, "incr", *n.key)
	return answered(cmd, n.rdb.Process(ctx, cmd))
}

// CheckBatch increments once a key, in one pipeline.
func (n incr) CheckBatch(ctx context.Context, _ []string, _ int64, answers []limiter.Answer) {
	batch(ctx, n.rdb, answers, func(int) *redis.Cmd { return redis.NewCmd(ctx, "incr", *n.key) })
}

// Reset deletes the key.
func (n incr) Reset(ctx context.Context, _ string) error { return n.rdb.Del(ctx, *n.key).Err() }

func batch(ctx context.Context, rdb redis.UniversalClient, answers []limiter.Answer, command func(i int) *redis.Cmd) {
	p := rdb.Pipeline()
	for i := range answers {
		_ = p.Process(ctx, command(i)) // only queues it
	}
	cmds, _ := p.Exec(ctx) // the first error of any command, each of which has its own
	for i, cmd := range cmds {
		answers[i].Decision, answers[i].Err = answered(cmd.(*redis.Cmd), cmd.Err())
	}
}

// answered reads a reply that is an integer, or a list whose first says whether the request passed.
func answered(cmd *redis.Cmd, err error) (limiter.Decision, error) {
	if err != nil {
		return limiter.Decision{}, limiter.Classify("floor", err, false)
	}
	switch v := cmd.Val().(type) {
	case int64:
		return limiter.Decision{Allowed: v > 0}, nil
	case []any:
		if len(v) > 0 {
			return limiter.Decision{Allowed: v[0] == int64(1)}, nil
		}
	}
	return limiter.Decision{}, fmt.Errorf("floor: the reply %v is neither an integer nor a list", cmd.Val())
}
