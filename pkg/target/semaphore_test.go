package target_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/target"
)

// call is one of a semaphore's calls, of script and model.
type call struct {
	name   string
	script func(s *limiter.Semaphore, w *stage, id string) (limiter.Decision, error)
	model  model.Request
}

// calls are those that a walk makes; what is often made stands first.
var calls = []call{
	{"acquire", func(s *limiter.Semaphore, w *stage, id string) (limiter.Decision, error) {
		return s.Acquire(w.Context(), "c", id)
	}, model.Request{Cost: 1}},
	{"renew", func(s *limiter.Semaphore, w *stage, id string) (limiter.Decision, error) {
		return s.Renew(w.Context(), "c", id)
	}, model.Request{Act: model.Renew}},
	{"release", func(s *limiter.Semaphore, w *stage, id string) (limiter.Decision, error) {
		return s.Release(w.Context(), "c", id)
	}, model.Request{Act: model.Release}},
	{"peek", func(s *limiter.Semaphore, w *stage, _ string) (limiter.Decision, error) {
		return s.Peek(w.Context(), "c")
	}, model.Request{}},
}

// turnstile is the three scripts of a semaphore beside their model.
type turnstile struct {
	*stage
	entry  target.Entry
	key    string
	opened map[limiter.Limit]*limiter.Semaphore
	state  model.State
	last   limiter.Decision
	told   [2]int // denials and grants
	doomed bool   // the key was dying before the clock moved
}

func newTurnstile(s *stage, e target.Entry) *turnstile {
	return &turnstile{stage: s, entry: e, key: s.keyOf(e, "c"), opened: map[limiter.Limit]*limiter.Semaphore{}}
}

// begin goes on with a fresh key.
func (w *turnstile) begin() {
	w.rdb.Del(w.Context(), w.key)
	w.state, w.last = w.entry.Rule.Fresh, limiter.Decision{}
	w.set(start)
}

func (w *turnstile) semaphore(l limiter.Limit) *limiter.Semaphore {
	if w.opened[l] == nil {
		w.opened[l] = w.open(w.entry, l).(*limiter.Semaphore)
	}
	return w.opened[l]
}

// make makes one call and tells how script and model differ.
func (w *turnstile) make(c call, l limiter.Limit, id string) error {
	var want limiter.Decision
	r, doomed := c.model, w.doomed || w.dying(w.state)
	r.Limit, r.ID = l, id
	w.state, want = w.state.Check(w.now, r)
	got, err := c.script(w.semaphore(l), w.stage, id)
	if err != nil {
		return err
	}
	dies := w.expires(w.key)
	if (got != want || !dies.Equal(w.state.Expires())) && doomed {
		w.state, want = w.entry.Rule.Fresh.Check(w.now, r)
	}
	if got != want || !dies.Equal(w.state.Expires()) {
		return fmt.Errorf("script: %s, dies %s\nmodel:  %s, dies %s",
			show(got), showTime(dies), show(want), showTime(w.state.Expires()))
	}
	w.last = got
	if got.Allowed {
		w.told[1]++
	} else {
		w.told[0]++
	}
	return nil
}

// honest asks what was denied 1 µs before its wait is over, and when it is, and puts the key back.
func (w *turnstile) honest(c call, l limiter.Limit, id string) error {
	if w.last.RetryAfter <= 0 || w.now.Add(w.last.RetryAfter).After(latest) || w.dying(w.state) {
		return nil
	}
	now, state, wait := w.now, w.state, w.last.RetryAfter
	held, err := w.rdb.Dump(w.Context(), w.key).Result()
	if err != nil {
		return err
	}
	defer func() {
		w.set(now.Add(-time.Millisecond)) // Redis refuses a TTL that ends in the present millisecond
		w.rdb.RestoreReplace(w.Context(), w.key, 0, held)
		if !state.Expires().Equal(immortal) {
			w.rdb.PExpireAt(w.Context(), w.key, state.Expires())
		}
		w.set(now)
		w.state = state
	}()
	w.rdb.Persist(w.Context(), w.key)
	w.state = model.Persist(state)
	for _, early := range []time.Duration{µs, 0} {
		w.set(now.Add(wait - early))
		if err := w.make(c, l, id); err != nil {
			return fmt.Errorf("asked again %v later: %w", wait-early, err)
		}
		if w.last.Allowed != (early == 0) {
			return fmt.Errorf("told to wait %v, and %v later: %s", wait, wait-early, show(w.last))
		}
	}
	return nil
}

// step is how far the clock moves: nothing, a µs, to an edge of what the last reply told, within a lease, or back.
func (w *turnstile) step(g *rand.Rand, l limiter.Limit) time.Duration {
	edge := []time.Duration{0, µs, -µs}[g.IntN(3)]
	step := []time.Duration{
		0, 0, edge, w.last.RetryAfter + edge, w.last.ResetAfter + edge, l.Window + edge, l.Window/3 + edge,
		time.Duration(g.Int64N(int64(l.Window))), time.Duration(g.Int64N(int64(l.Window) / 10)),
		-time.Duration(g.Int64N(int64(l.Window))), -time.Duration(g.Int64N(int64(3 * l.Window))), day * 400,
	}[g.IntN(12)].Truncate(µs)
	if next := w.now.Add(step); next.Before(earliest) || next.After(latest) {
		return 0
	}
	return step
}

// live leads w through the life of a key: so many calls, or up to the first that script and model make differently. trail
// tells the calls.
func (w *turnstile) live(g *rand.Rand, steady bool, moves int) (trail []string, err error) {
	w.begin()
	own := limiter.Limit{Events: 3 + g.Int64N(7), Window: 10 * time.Second}
	for n := 0; n < moves && err == nil; n++ {
		l := limiter.Limit{
			Events: []int64{3, 3, 3, 1, 2, 5, 20, 0}[g.IntN(8)],
			Window: []time.Duration{30 * time.Second, 30 * time.Second, time.Millisecond, time.Hour + µs}[g.IntN(4)],
		}
		if steady && n%50 != 49 {
			l = own
		}
		step, c, id := w.step(g, l), calls[min(g.IntN(7), 6)%4], fmt.Sprint("id", g.IntN(12))
		w.doomed = w.dying(w.state)
		w.pass(step)
		trail = append(trail, fmt.Sprintf("%v later %s %s of %d for %v", step, c.name, id, l.Events, l.Window))
		if g.IntN(persist) == 0 {
			w.rdb.Persist(w.Context(), w.key)
			w.state, _ = w.state.Check(w.now, model.Request{Limit: l})
			w.state = model.Persist(w.state)
		}
		if err = w.make(c, l, id); err == nil {
			err = w.honest(c, l, id)
		}
	}
	return trail, err
}

// TestSemaphoreWalk walks the semaphore's scripts at random beside their model, with limits and leases that change,
// clocks that step and keys that lose their TTL. All five integers and the TTL must be equal, and each wait honest.
func TestSemaphoreWalk(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	g := rand.New(rand.NewPCG(seed, 0))
	w := newTurnstile(newStage(t), only("semaphore")[0])
	for life := range lives {
		if trail, err := w.live(g, life%2 == 0, moves); err != nil {
			t.Fatalf("seed %d, life %d: %s\n%v", seed, life, strings.Join(trail[max(0, len(trail)-12):], "\n"), err)
		}
	}
	if least := lives * moves / 10; w.told[0] < least || w.told[1] < least {
		t.Errorf("seed %d: %d denied and %d allowed prove little", seed, w.told[0], w.told[1])
	}
}

// TestSemaphoreTrims lets more leases end than one call takes away: each acquisition takes a thousand, and what is left
// is not counted.
func TestSemaphoreTrims(t *testing.T) {
	t.Parallel()
	w := newTurnstile(newStage(t), only("semaphore")[0])
	w.begin()
	var ended []redis.Z
	for i := range 2500 {
		ended = append(ended, redis.Z{Score: float64(start.UnixMicro() - 1 - int64(i%7)), Member: fmt.Sprint("1:ended", i)})
	}
	w.rdb.ZAdd(t.Context(), w.key, ended...)
	s := w.semaphore(limiter.Limit{Events: 5, Window: time.Minute})
	for i, left := range []int64{1502, 503, 4, 5} { // with the member that keeps the time
		d, err := s.Acquire(t.Context(), "c", fmt.Sprint("id", i))
		if err != nil || d.Remaining != int64(4-i) {
			t.Errorf("acquisition %d: %s, %v", i, show(d), err)
		}
		if held := w.rdb.ZCard(t.Context(), w.key).Val(); held != left {
			t.Errorf("acquisition %d left %d members, want %d", i, held, left)
		}
	}
}
