package target_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/target"
)

// Every script is walked beside its model: the same requests at the same µs, on a server whose clock the test sets.
// All five integers of each reply and the key's TTL must be equal, and each denial is asked again, on a copy of the
// key, 1 µs before it may pass and when it may. A walk that fails is shrunk to the moves that matter.

const (
	lives   = 40  // keys that a walk goes through
	moves   = 500 // requests to each
	persist = 100 // one move in so many takes the key's TTL away first
)

var immortal = time.UnixMilli(math.MaxInt64)

// move is one request. Its numbers are absolute, so that other moves can be left out before it.
type move struct {
	Step    time.Duration // of the clock, before the request
	Persist bool          // the key loses its TTL before the request
	Limit   limiter.Limit
	Cost    int64
	ID      string
}

// walker is one script beside its model.
type walker struct {
	*stage
	entry    target.Entry
	limiters map[limiter.Limit]limiter.Identified
	lived    int
	client   string
	state    model.State
	last     limiter.Decision
	allowed  int // moves
	denied   int // moves
}

func newWalker(s *stage, e target.Entry) *walker {
	return &walker{stage: s, entry: e, limiters: map[limiter.Limit]limiter.Identified{}}
}

// begin goes on with a fresh key, and the clock where it began.
func (w *walker) begin() {
	if w.lived > 0 {
		w.rdb.Del(w.Context(), w.keyOf(w.entry, w.client), w.keyOf(w.entry, w.again()))
	}
	w.lived++
	w.client = fmt.Sprint("life", w.lived)
	w.state, w.last = w.entry.Rule.Fresh, limiter.Decision{}
	w.set(start)
}

// again is the client under which denials are asked again.
func (w *walker) again() string { return w.client + "-again" }

// play makes one move and tells how script and model differ.
func (w *walker) play(m move) error {
	key, doomed := w.keyOf(w.entry, w.client), w.dying(w.state)
	w.pass(m.Step)
	doomed = doomed || w.dying(w.state)
	if m.Persist {
		w.rdb.Persist(w.Context(), key)
		w.state, _ = w.state.Check(w.now, model.Request{Limit: m.Limit})
		w.state = model.Persist(w.state)
	}
	var want limiter.Decision
	w.state, want = w.state.Check(w.now, model.Request{Limit: m.Limit, Cost: m.Cost, ID: m.ID})
	got, err := w.ask(w.client, m)
	if err != nil {
		return err
	}
	dies := w.expires(key)
	if (got != want || !dies.Equal(w.state.Expires())) && doomed {
		w.state, want = w.entry.Rule.Fresh.Check(w.now, model.Request{Limit: m.Limit, Cost: m.Cost, ID: m.ID})
	}
	if got != want || !dies.Equal(w.state.Expires()) {
		return fmt.Errorf("script: %s, dies %s\nmodel:  %s, dies %s", show(got), showTime(dies), show(want), showTime(w.state.Expires()))
	}
	w.last = got
	if got.Allowed {
		w.allowed++
	} else {
		w.denied++
	}
	if got.RetryAfter > 0 && !w.now.Add(got.RetryAfter).After(latest) {
		return w.askAgain(m, got.RetryAfter)
	}
	return nil
}

// dying tells whether a key is in its last millisecond. In Redis 8 it may then be gone, as soon as the server's
// housekeeping comes by; in 7.0 and in Valkey it is not.
func (s *stage) dying(held interface{ Expires() time.Time }) bool {
	return !held.Expires().IsZero() && held.Expires().UnixMilli() == s.now.UnixMilli()
}

func (w *walker) ask(client string, m move) (limiter.Decision, error) {
	l, ok := w.limiters[m.Limit]
	if !ok {
		l = w.open(w.entry, m.Limit).(limiter.Identified)
		w.limiters[m.Limit] = l
	}
	return l.CheckID(w.Context(), client, m.Cost, m.ID)
}

// askAgain asks a copy of the key 1 µs before the wait is over, and when it is. The copy has no TTL.
func (w *walker) askAgain(m move, wait time.Duration) error {
	now, state := w.now, model.Persist(w.state)
	if w.dying(w.state) {
		return nil
	}
	w.copyKey()
	defer w.set(now)
	if !w.state.Expires().After(now.Add(wait)) {
		defer w.keep()()
	}
	for _, early := range []time.Duration{µs, 0} {
		w.set(now.Add(wait - early))
		_, want := state.Check(w.now, model.Request{Limit: m.Limit, Cost: m.Cost, ID: m.ID})
		got, err := w.ask(w.again(), m)
		switch {
		case err != nil:
			return err
		case got != want:
			return fmt.Errorf("asked again %v later:\nscript: %s\nmodel:  %s", wait-early, show(got), show(want))
		case got.Allowed != (early == 0):
			return fmt.Errorf("told to wait %v, and %v later: %s", wait, wait-early, show(got))
		}
	}
	return nil
}

// copyKey gives another client what the key holds.
func (w *walker) copyKey() {
	held, err := w.rdb.Dump(w.Context(), w.keyOf(w.entry, w.client)).Result()
	if err == nil {
		err = w.rdb.RestoreReplace(w.Context(), w.keyOf(w.entry, w.again()), 0, held).Err()
	}
	if err != nil {
		w.Fatalf("copy the key: %v", err)
	}
}

// keep takes the key's TTL away, so that the server does not drop it while the clock is ahead, and returns what gives
// it back. Redis refuses a TTL that ends in the present millisecond, hence the step back.
func (w *walker) keep() (giveBack func()) {
	now, key := w.now, w.keyOf(w.entry, w.client)
	w.rdb.Persist(w.Context(), key)
	return func() {
		w.set(now.Add(-time.Millisecond))
		w.rdb.PExpireAt(w.Context(), key, w.state.Expires())
	}
}

// live leads w through the life of a key: so many moves, or up to the first that script and model make differently.
func (g *guide) live(w *walker, moves int) (made []move, err error) {
	w.begin()
	steady, l := g.IntN(3) == 0, g.limit()
	for n := 0; n < moves && err == nil; n++ {
		if !steady && g.IntN(12) == 0 {
			l = g.change(l)
		}
		made = append(made, g.move(w, l, n))
		err = w.play(made[n])
	}
	return made, err
}

// fails plays all moves on a fresh key and returns the first difference.
func (w *walker) fails(ms []move) error {
	w.begin()
	for _, m := range ms {
		if err := w.play(m); err != nil {
			return err
		}
	}
	return nil
}

// shrink leaves out what moves it can while the others still fail.
func (w *walker) shrink(ms []move) []move {
	for size := len(ms) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(ms); {
			fewer := append(append([]move{}, ms[:i]...), ms[i+size:]...)
			if w.fails(fewer) != nil {
				ms = fewer
			} else {
				i += size
			}
		}
	}
	return ms
}

// explain shrinks moves that failed and says what is left of them.
func (w *walker) explain(ms []move) string {
	var b strings.Builder
	ms = w.shrink(ms)
	err := w.fails(ms)
	w.begin()
	for _, m := range ms {
		told := w.play(m)
		fmt.Fprintf(&b, "%+v: %s\n", m, show(w.last))
		if told != nil {
			break
		}
	}
	fmt.Fprintf(&b, "%v", err)
	return b.String()
}

func show(d limiter.Decision) string {
	return fmt.Sprintf("allowed %v, remaining %d, retry %d, reset %d, at %d", d.Allowed, d.Remaining,
		d.RetryAfter/µs, d.ResetAfter/µs, d.At.UnixMicro())
}

func showTime(t time.Time) string {
	switch {
	case t.IsZero():
		return "not, there is no key"
	case t.Equal(immortal):
		return "never"
	}
	return fmt.Sprintf("after ms %d", t.UnixMilli())
}

// atomics are the rows of the catalogue that claim to keep their rule, of how many per time, and ask each time. The
// semaphore, of which nobody asks more than one, and what remembers refusals have walks of their own.
func atomics() (rows []target.Entry) {
	for _, e := range target.Catalogue() {
		if e.Atomic() && !e.Rule.AtOnce && !e.Rule.Recalls {
			rows = append(rows, e)
		}
	}
	return rows
}

// TestWalk walks every script at random.
func TestWalk(t *testing.T) {
	t.Parallel()
	lives := lives
	if testing.Short() {
		lives /= 5
	}
	for _, e := range atomics() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			g := &guide{rand.New(rand.NewPCG(seed, 0)), e}
			w := newWalker(newStage(t), e)
			for range lives {
				if made, err := g.live(w, moves); err != nil {
					t.Fatalf("seed %d:\n%s", seed, w.explain(made))
				}
			}
			if least := lives * moves / 10; w.allowed < least || w.denied < least {
				t.Errorf("seed %d: %d allowed and %d denied prove little", seed, w.allowed, w.denied)
			}
		})
	}
}

// TestTrimming goes where walks seldom do: more has left the window than one admission trims, and then the window
// grows and counts what is still held. What goes first of the requests in one µs follows the sorted set's order, so
// that an id can lose its first member and keep others.
func TestTrimming(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	short := limiter.Limit{Events: 3500, Window: time.Second}
	long := limiter.Limit{Events: 3500, Window: time.Hour}
	for _, e := range atomics() {
		if !isLog(e) {
			continue
		}
		w := newWalker(s, e)
		err := w.fails([]move{
			{Limit: short, Cost: 1000, ID: "b"}, {Limit: short, Cost: 500, ID: "a"}, {Limit: short, Cost: 700, ID: "c"},
			{Limit: short, Cost: 1000, ID: "later", Step: µs},
			{Limit: short, Cost: 1, ID: "trims", Step: time.Second - µs}, {Limit: long},
			{Limit: long, Cost: 1, ID: "a"}, {Limit: long, Cost: 1, ID: "b"}, {Limit: long, Cost: 30, ID: "c"}, {Limit: long},
			{Limit: short, Cost: 1, ID: "trims too"}, {Limit: long}, {Limit: long, Cost: 2, ID: "b"}, {Limit: long},
			{Limit: short, Cost: 2, ID: "trims the rest", Step: µs}, {Limit: long}, {Limit: long, Cost: 900, ID: "a"},
		})
		if err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
}
