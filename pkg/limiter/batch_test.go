package limiter_test

import (
	"context"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// ask is a batch of one request a key.
func ask(t testing.TB, l limiter.Limiter, keys ...string) []limiter.Answer {
	t.Helper()
	answers := make([]limiter.Answer, len(keys))
	l.(limiter.Batcher).CheckBatch(context.Background(), keys, 1, answers)
	return answers
}

func TestABatchDecidesEachInItsOrder(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, name string) {
		l := r.new(name, perYear(3))
		before := r.calls("evalsha")
		for i, a := range ask(t, l, "a", "a", "b", "a", "a") {
			want := []limiter.Decision{{Allowed: true, Remaining: 2}, {Allowed: true, Remaining: 1}, {Allowed: true, Remaining: 2},
				{Allowed: true, Remaining: 0}, {Allowed: false, Remaining: 0}}[i]
			if a.Err != nil || a.Allowed != want.Allowed || a.Remaining != want.Remaining || a.At.IsZero() {
				t.Errorf("request %d: %+v", i, a)
			}
		}
		if sent := r.calls("evalsha") - before; sent < 5 || sent > 10 {
			t.Errorf("5 requests took %d calls, those before the script was loaded included", sent)
		}
	})
}

// between puts a command into each pipeline, as somebody else's could come.
type between struct {
	at    int
	args  []any
	sizes []int // of the pipelines without it
}

func (*between) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*between) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		b.sizes = append(b.sizes, len(cmds))
		if len(b.sizes) == 1 {
			cmds = slices.Insert(slices.Clone(cmds), b.at, redis.Cmder(redis.NewCmd(ctx, b.args...)))
		}
		return next(ctx, cmds)
	}
}

// TestABatchSendsAgainOnlyWhatFoundNoScript flushes the scripts in the middle of a pipeline.
func TestABatchSendsAgainOnlyWhatFoundNoScript(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, name string) {
		rdb := dial(t, &redis.Options{Addr: r.server.Socket(), DisableIdentity: true, PoolSize: 1})
		l := made(t, rdb, name, perYear(100))
		check(t, l, "other") // loads it
		hook := &between{at: 2, args: []any{"script", "flush"}}
		rdb.AddHook(hook)
		for i, a := range ask(t, l, "k", "k", "k", "k", "k") {
			if a.Err != nil || !a.Allowed || a.Remaining != int64(99-i) {
				t.Errorf("request %d: %+v", i, a)
			}
		}
		if !slices.Equal(hook.sizes, []int{5, 3}) {
			t.Errorf("pipelines of %v requests, want the five and then the three after the flush", hook.sizes)
		}
	})
}

func TestAnErrorInABatchIsItsOwn(t *testing.T) {
	r := newRig(t)
	l := r.new("gcra", perYear(10))
	key, _ := limiter.Key("ratelimit", "foreign", "gcra")
	r.do("lpush", key, "x")
	answers := ask(t, l, "a", "", "foreign", "a")
	for i, want := range []limiter.Class{"", limiter.ClassInvalid, limiter.ClassWrongType, ""} {
		switch err := answers[i].Err; {
		case want == "" && err != nil:
			t.Errorf("request %d: %v", i, err)
		case want != "" && failure(t, err).Class != want:
			t.Errorf("request %d: %v, want %s", i, err, want)
		}
	}
	if a := answers[3]; a.Remaining != 8 {
		t.Errorf("%+v, want 8 left: the errors took nothing", a)
	}
}

func TestABatchThatWasNotSentCountsNothing(t *testing.T) {
	r := newRig(t)
	l := r.new("gcra", perYear(10))
	r.server.Kill()
	for i, a := range ask(t, l, "a", "b") {
		if e := failure(t, a.Err); e.Class != limiter.ClassUnreachable || e.Unknown {
			t.Errorf("request %d: %v", i, e)
		}
	}
}

func TestAnEmptyBatchAsksNobody(t *testing.T) {
	r := newRig(t)
	l := r.new("gcra", perYear(10))
	r.server.Kill()
	if got := ask(t, l); len(got) != 0 {
		t.Error(got)
	}
}

// TestAllocationsOfABatch holds a request in a batch to ten, as one alone.
func TestAllocationsOfABatch(t *testing.T) {
	r := newRig(t)
	l := r.new("gcra", perYear(100_000_000))
	keys, answers := slices.Repeat([]string{"some-client's-id"}, 64), make([]limiter.Answer, 64)
	got := testing.AllocsPerRun(100, func() { l.(limiter.Batcher).CheckBatch(context.Background(), keys, 1, answers) })
	if got /= 64; got > 10 {
		t.Errorf("%.1f allocations a request", got)
	}
}
