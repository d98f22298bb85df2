package naive_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// A walk says which requests one caller after the other may make for a limiter to answer as its twin does.
type walk struct {
	unit   bool // costs of 1, since what is denied is counted
	single bool // no cost above 1, since that is refused
	obey   bool // nothing that the twin would deny
	early  bool // not in the last millisecond of a window
	back   bool // the clock may step back
	change bool // limit, window and burst may change
	ttl    bool // the key lives exactly as long as the twin's
}

// TestAnswersAsItsTwin walks each limiter beside the model of its twin, one request after the other: every field of
// every decision is equal.
func TestAnswersAsItsTwin(t *testing.T) {
	t.Parallel()
	walks := map[string]walk{
		"naive-counter":    {},
		"naive-expire":     {unit: true, early: true},
		"naive-log":        {ttl: true},
		"naive-pipeline":   {ttl: true},
		"charging-log":     {obey: true, ttl: true},
		"naive-bucket":     {back: true, change: true, ttl: true},
		"watch-bucket":     {back: true, change: true, ttl: true},
		"skewed-bucket":    {back: true, change: true, ttl: true},
		"local-bucket":     {},
		"naive-semaphore":  {single: true, ttl: true},
		"skewed-semaphore": {single: true, back: true, ttl: true},
	}
	for _, name := range naives(t, all) {
		w, ok := walks[name]
		if !ok {
			t.Errorf("%s has no walk", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for i, l := range []limiter.Limit{
				{Events: 1, Window: time.Millisecond},
				{Events: 7, Window: time.Minute},
				{Events: 7, Window: time.Minute, Burst: 3},
				{Events: 1000, Window: time.Second, Burst: 12},
				{Events: 999_983, Window: 24 * time.Hour},
				{Events: limiter.MaxEvents, Window: time.Second},
			} {
				if w.early && l.Window == time.Millisecond || w.single && l.Events > 7 {
					continue
				}
				r.rdb.FlushAll(t.Context())
				r.set(start)
				w.run(r, name, l, rand.New(rand.NewPCG(7, uint64(i))))
			}
		})
	}
}

func (w walk) run(r *rig, name string, l limiter.Limit, rng *rand.Rand) {
	state, lim := entry(r.t, name).Rule.Fresh, r.open(name, r.rdb, l)
	key, err := limiter.Key("test", "c", name)
	if err != nil {
		r.t.Fatal(err)
	}
	var allowed, denied int
	for i := range 300 {
		if w.change && rng.IntN(20) == 0 {
			l = other(l, rng)
			lim = r.open(name, r.rdb, l)
		}
		r.set(max(start, r.time.Load()+w.step(l, rng)))
		if left := -r.time.Load()%l.Window.Microseconds() + l.Window.Microseconds(); w.early && left <= 1000 {
			r.set(r.time.Load() + left)
		}
		cost := w.cost(l, rng)
		next, want := state.Check(r.now(), model.Request{Limit: l, Cost: cost, ID: strconv.Itoa(i)})
		if w.obey && !want.Allowed {
			continue
		}
		want.At = time.Time{}
		if got := check(r.t, lim, cost); got != want {
			r.t.Fatalf("step %d, %+v, cost %d: %+v, its twin %+v", i, l, cost, got, want)
		}
		state = next
		w.checkLife(r, key, state)
		if want.Allowed && cost > 0 {
			allowed++
		} else if cost > 0 {
			denied++
		}
	}
	if allowed < 10 || denied < 10 && !w.obey {
		r.t.Fatalf("%+v: %d allowed, %d denied: the walk shows nothing", l, allowed, denied)
	}
}

// step is by how many µs the clock moves.
func (w walk) step(l limiter.Limit, rng *rand.Rand) int64 {
	window, share := l.Window.Microseconds(), max(1, l.Window.Microseconds()/max(1, l.Events))
	steps := []int64{0, 0, 0, 1, share - 1, share, share + 1, rng.Int64N(window), window - 1, window, window + 1, 2 * window}
	step := steps[rng.IntN(len(steps))]
	if w.single && rng.IntN(3) > 0 { // or few would come to the limit
		return 0
	}
	if w.back && rng.IntN(8) == 0 {
		return -step
	}
	return step
}

func (w walk) cost(l limiter.Limit, rng *rand.Rand) int64 {
	most := l.Capacity()
	if w.single {
		return []int64{0, 1, 1, 1}[rng.IntN(4)]
	}
	if w.unit {
		return []int64{0, 1, 1, 1, l.Events + 1}[rng.IntN(5)]
	}
	costs := []int64{0, 1, 1, min(most, 2), most/2 + 1, most, most + 1, limiter.MaxCost}
	cost := costs[rng.IntN(len(costs))]
	if !w.back && cost > limiter.MaxLogCost && cost <= l.Events {
		return min(most, limiter.MaxLogCost) // logs take no more
	}
	return cost
}

// other is the limit or one that differs from it a little.
func other(l limiter.Limit, rng *rand.Rand) limiter.Limit {
	switch rng.IntN(4) {
	case 0:
		l.Events = 1 + rng.Int64N(20)
	case 1:
		l.Window = time.Duration(1000+rng.Int64N(100_000_000)) * time.Microsecond
	case 2:
		l.Burst = rng.Int64N(30)
	}
	return l
}

func (w walk) checkLife(r *rig, key string, state model.State) {
	want := int64(-2)
	if expires := state.Expires(); !expires.IsZero() && r.time.Load()/1000 <= expires.UnixMilli() {
		want = expires.UnixMilli()
	}
	if ends := r.ends(key); w.ttl && ends != want {
		r.t.Fatalf("%s at %d lives to %d ms, its twin to %d", key, r.time.Load(), ends, want)
	}
}

// TestExpireKeepsToWholeMilliseconds holds naive-expire to the limit from one edge to the next where the edges are
// inside a millisecond, and where keys are created in the last one before an edge.
func TestExpireKeepsToWholeMilliseconds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	lim := r.open("naive-expire", r.rdb, limiter.Limit{Events: 2, Window: 2500 * time.Microsecond})
	for _, at := range []struct {
		us   int64 // the edges are 2.5, put off to 3, 5, 7.5, put off to 8, and 10 ms
		want string
	}{{0, "++-"}, {2999, "-"}, {3000, "++-"}, {4999, "-"}, {5000, "+"}, {9000, "++-"}, {10_999, "-"}, {11_000, "++-"}} {
		r.set(start + at.us)
		for _, want := range at.want {
			if d := check(t, lim, 1); d.Allowed != (want == '+') {
				t.Fatalf("at %d us: %+v, want %q", at.us, d, at.want)
			}
		}
	}
	if d := check(t, lim, 1); d.RetryAfter != 2*time.Millisecond {
		t.Errorf("retry after %v, want 2 ms, from 11 to the edge at 12.5, put off to 13", d.RetryAfter)
	}
}
