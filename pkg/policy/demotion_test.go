package policy_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
	"github.com/rlctl/rlctl/pkg/target"
)

// A master that became a replica refuses writes for ever to a client that keeps its connection. (envoyproxy/ratelimit#1191)
// Here every limiter, under every policy, is asked without pause while its server is demoted and promoted again: there is
// nothing but decisions and the policy's answers, these for being refused only, which nothing was counted of; and when
// the server is a master again, the same limiters decide, though their scripts are forgotten.
func TestEveryLimiterThroughADemotion(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var all []*load
	for _, e := range target.Catalogue() {
		if e.State == target.NoState {
			continue // it asks nobody
		}
		for _, mode := range policy.Modes() {
			all = append(all, r.load(e, mode))
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	defer callers.Wait()
	defer stop()
	for _, l := range all {
		callers.Go(func() { l.run(ctx) })
	}
	each := func(what func(*load) int64, least int64) {
		t.Helper()
		before := map[*load]int64{}
		for _, l := range all {
			before[l] = l.count(what)
		}
		for _, l := range all {
			r.until(func() bool { return l.count(what) >= before[l]+least })
		}
	}
	decided, refused := func(l *load) int64 { return l.decided }, func(l *load) int64 { return l.refused }
	each(decided, 1)
	r.do("REPLICAOF", "127.0.0.1", 1)
	each(refused, 3)
	r.do("REPLICAOF", "NO", "ONE")
	r.do("SCRIPT", "FLUSH")
	each(decided, 3)
	stop()
	callers.Wait()
	for _, l := range all {
		l.settle()
	}
}

// perYear is a limit that no load reaches, and of which nothing comes back meanwhile.
var perYear = limiter.Limit{Events: 100_000, Window: 366 * 24 * time.Hour}

// load is one who asks one limiter under one policy without pause, and how often each came of it.
type load struct {
	*rig
	entry  target.Entry
	mode   policy.Mode
	next   limiter.Limiter
	policy limiter.Limiter
	key    string

	mu               sync.Mutex
	decided, refused int64
	last             error
}

func (r *rig) load(e target.Entry, mode policy.Mode) *load {
	next, err := e.New(r.open(r.near, 1), perYear)
	if err != nil {
		r.Fatal(err)
	}
	l := &load{rig: r, entry: e, mode: mode, next: next, key: string(mode)}
	l.policy = under(r.T, next, policy.Policy{Mode: mode, Timeout: time.Hour, RetryAfter: told[policy.Closed].RetryAfter,
		Failed: func(_ context.Context, err error) { l.last = err }})
	return l
}

func (l *load) run(ctx context.Context) {
	for ctx.Err() == nil {
		l.last = nil
		d, err := l.policy.Check(context.WithoutCancel(ctx), l.key, 1)
		l.mu.Lock()
		var e *limiter.Error
		switch {
		case l.last == nil && err == nil && d.Allowed && !d.Degraded:
			l.decided++
		case errors.As(l.last, &e) && e.Class == limiter.ClassReadOnly && d == told[l.mode] && (err != nil) == (l.mode == policy.Error):
			l.refused++
			if e.Unknown && l.entry.Atomic() {
				l.Errorf("%s, %s: a script that is refused was counted perhaps: %v", l.entry.Name, l.mode, e)
			}
		default:
			l.Errorf("%s, %s: %+v, %v for %v", l.entry.Name, l.mode, d, err, l.last)
		}
		l.mu.Unlock()
	}
}

func (l *load) count(what func(*load) int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return what(l)
}

// settle compares what the server counts with what was decided.
func (l *load) settle() {
	d, err := l.next.Check(l.Context(), l.key, 0)
	if used := perYear.Events - d.Remaining; l.entry.Atomic() && (err != nil || used != l.decided) {
		l.Errorf("%s, %s: %d counted, %d decided, %v", l.entry.Name, l.mode, used, l.decided, err)
	}
}
