// Package walk asks a limiter one request after the other on a server whose clock it sets, beside the rule that the
// limiter claims, so that every microsecond of a difference shows.
//
// A walk is made of lives: each begins on a fresh key and ends after some moves, or at the first decision that is not the
// rule's. Of a refusal that the rule makes too, the true wait is searched for by asking again and again from the same
// state, and compared with the wait that was told. After an admission the lifetime of the key is compared with the time
// for which the rule needs it.
package walk

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/target"
)

// Plan is how far a limiter is walked.
type Plan struct {
	Entry target.Entry
	Limit limiter.Limit
	Lives int
	Moves int // of each life, at most
	Seed  uint64
}

// walker is a walk under way.
type walker struct {
	Plan
	srv     explore.Server
	rdb     *redis.Client
	limiter limiter.Limiter
	random  *rand.Rand
	at      time.Time
	state   model.State // that the rule is in
	last    limiter.Decision
	found   *experiment.PeerWalk
}

// client is whom all requests are for.
const client = "walker"

// Run walks, and adds what it finds to a sum.
func Run(ctx context.Context, srv explore.Server, p Plan, sum *experiment.PeerWalk) error {
	rdb := redis.NewClient(&redis.Options{
		Network: "unix", Addr: srv.Socket(), MaxRetries: -1, Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true,
	})
	defer rdb.Close()
	l, err := p.Entry.New(rdb, p.Limit)
	if err != nil {
		return fmt.Errorf("walk %s: %w", p.Entry.Name, err)
	}
	w := walker{Plan: p, srv: srv, rdb: rdb, limiter: l, random: rand.New(rand.NewPCG(p.Seed, 0)), found: sum}
	for n := range p.Lives {
		if err := w.live(ctx, n); err != nil {
			return fmt.Errorf("walk %s: %w", p.Entry.Name, err)
		}
	}
	w.pass(3 * w.Limit.Window)
	d, err := l.Check(ctx, client, p.Entry.Rule.Capacity(p.Limit)+1)
	sum.NeverTold = !d.Allowed && d.RetryAfter == limiter.Never
	return err
}

// live goes through one life. The clock only ever goes forward, from one life to the next by more than any rule remembers.
func (w *walker) live(ctx context.Context, n int) error {
	if n == 0 {
		w.at = time.Now().Truncate(time.Microsecond)
	}
	w.pass(3*w.Limit.Window + time.Duration(w.random.Int64N(w.Limit.Window.Microseconds()))*time.Microsecond)
	if err := w.rdb.FlushDB(ctx).Err(); err != nil {
		return err
	}
	w.state, w.last = w.Entry.Rule.Fresh, limiter.Decision{}
	w.found.Lives++
	for range w.Moves {
		w.pass(w.pause())
		agreed, err := w.move(ctx)
		if err != nil || !agreed {
			return err
		}
	}
	return nil
}

func (w *walker) pass(d time.Duration) {
	w.at = w.at.Add(d)
	w.srv.Clock().Freeze(w.at.UnixMicro())
}

// pause is the time to the next request: often none, sometimes just what was told to wait for, never long enough to
// forget all.
func (w *walker) pause() time.Duration {
	micros := func(below time.Duration) time.Duration {
		return time.Duration(w.random.Int64N(max(1, below.Microseconds()))) * time.Microsecond
	}
	switch w.random.IntN(6) {
	case 0, 1:
		return 0
	case 2:
		return w.last.RetryAfter.Round(time.Microsecond)
	case 3:
		return micros(w.Limit.Window / 3)
	}
	return micros(2 * w.Limit.Window / time.Duration(w.Limit.Events))
}

// move makes one request and tells whether the limiter decided as the rule does.
func (w *walker) move(ctx context.Context) (agreed bool, err error) {
	cost := int64(1)
	if w.random.IntN(8) == 0 {
		cost = 2
	}
	before, err := w.take(ctx)
	if err != nil {
		return false, err
	}
	got, err := w.limiter.Check(ctx, client, cost)
	if err != nil {
		return false, err
	}
	next, want := w.state.Check(w.at, model.Request{Limit: w.Limit, Cost: cost, ID: strconv.FormatInt(w.found.Moves, 10)})
	w.found.Moves++
	w.state, w.last = next, want
	switch {
	case got.Allowed && !want.Allowed:
		w.found.Generous++
		w.found.MostGenerousUS = max(w.found.MostGenerousUS, want.RetryAfter.Microseconds())
		return false, nil
	case !got.Allowed && want.Allowed:
		wait, err := w.wait(ctx, before, cost)
		w.found.Strict++
		w.found.StrictestUS = max(w.found.StrictestUS, wait.Microseconds())
		return false, err
	}
	if got.Remaining != want.Remaining && w.Entry.Rule.Untold&model.Remaining == 0 {
		w.found.WrongRemaining++
	}
	if got.Allowed {
		return true, w.lifetime(ctx, want)
	}
	return true, w.retry(ctx, before, cost, got.RetryAfter)
}

// retry compares the wait that was told with the true one, and goes back to where it was.
func (w *walker) retry(ctx context.Context, before []key, cost int64, told time.Duration) error {
	after, err := w.take(ctx)
	if err != nil {
		return err
	}
	wait, err := w.wait(ctx, before, cost)
	if err != nil {
		return err
	}
	w.found.Waits++
	// A wait is over in whole microseconds: one that ends within one is over with it.
	off := (told + time.Microsecond - 1).Truncate(time.Microsecond) - wait
	switch {
	case off < 0:
		w.found.TooShort++
		w.found.ShortestUS = max(w.found.ShortestUS, -off.Microseconds())
	case off > 0:
		w.found.TooLong++
		w.found.LongestUS = max(w.found.LongestUS, off.Microseconds())
	}
	return w.put(ctx, after)
}

// wait is how long a request that was refused in a state must wait there, to the microsecond. The clock is then where it
// was, and the state is not.
func (w *walker) wait(ctx context.Context, state []key, cost int64) (time.Duration, error) {
	defer w.srv.Clock().Freeze(w.at.UnixMicro())
	refused, admitted := time.Duration(0), 2*w.Limit.Window+2*time.Second
	for admitted-refused > time.Microsecond {
		d := (refused + (admitted-refused)/2).Truncate(time.Microsecond)
		w.srv.Clock().Freeze(w.at.UnixMicro())
		if err := w.put(ctx, state); err != nil {
			return 0, err
		}
		w.srv.Clock().Freeze(w.at.Add(d).UnixMicro())
		got, err := w.limiter.Check(ctx, client, cost)
		if err != nil {
			return 0, err
		}
		if got.Allowed {
			admitted = d
		} else {
			refused = d
		}
	}
	return admitted, nil
}

// lifetime compares the time of death of what is kept with the time for which the rule needs it. Redis removes a key
// after the last millisecond of its life.
func (w *walker) lifetime(ctx context.Context, want limiter.Decision) error {
	keys, err := w.take(ctx)
	if err != nil {
		return err
	}
	needed := w.at.Add(want.ResetAfter)
	end := time.Time{}
	for _, k := range keys {
		if k.dies < 0 {
			w.found.Immortal++
			return nil
		}
		if dies := time.UnixMilli(k.dies + 1); dies.After(end) {
			end = dies
		}
	}
	w.found.Lifetimes++
	w.found.DiesEarlyUS = max(w.found.DiesEarlyUS, needed.Sub(end).Microseconds())
	if late := end.Sub(needed); late > 2*time.Millisecond { // what whole milliseconds cost anybody
		w.found.DiesLateUS = max(w.found.DiesLateUS, late.Microseconds())
	}
	return nil
}
