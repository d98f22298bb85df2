package model_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// TestOldStatesAnswerAlike goes back to states of a walk, in any order, and finds the same answers and successors.
func TestOldStatesAnswerAlike(t *testing.T) {
	forAll(t, func(t *testing.T, r rule) {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		l := limiter.Limit{Events: 20, Window: 3 * time.Millisecond}
		type step struct {
			state, next model.State
			at          time.Time
			req         model.Request
			want, after limiter.Decision
		}
		var steps []step
		s, now := r.Fresh, at(epoch)
		for range 3000 {
			now = now.Add(someStep(rng, l) / 4)
			x := step{state: s, at: now, req: model.Request{Limit: l, Cost: someCost(rng, 8), ID: fmt.Sprint(rng.IntN(50))}}
			s, x.want = s.Check(now, x.req)
			x.next = s
			_, x.after = s.Check(now, model.Request{Limit: l, Cost: 7, ID: "other"})
			steps = append(steps, x)
		}
		for range 6000 {
			x := steps[rng.IntN(len(steps))]
			next, got := x.state.Check(x.at, x.req)
			_, after := next.Check(x.at, model.Request{Limit: l, Cost: 7, ID: "other"})
			if got != x.want || after != x.after || !next.Expires().Equal(x.next.Expires()) {
				t.Fatalf("seed %d: %v at %v: %+v then %+v, at first %+v then %+v", seed, x.req, x.at, got, after, x.want, x.after)
			}
			branch, _ := next.Check(x.at, model.Request{Limit: l, Cost: 1 + rng.Int64N(3), ID: "branch"})
			branch.Check(x.at, model.Request{Limit: l, Cost: 1, ID: "twig"})
		}
	})
}

// TestTwins walks two rules that must agree in all they say and in their TTLs: gcra and the token bucket while the
// parameters stay, clock steps included; the two logs as long as ids are distinct, changes included.
func TestTwins(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name    string
		a, b    model.Rule
		changes bool
		limits  []limiter.Limit
	}{
		{"buckets", model.TokenBucket(), model.GCRA(), false, uneven()},
		{"logs", model.SlidingLog(), model.CompactLog(), true, uneven()[:5]},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			for i, l := range x.limits {
				seed := rand.Uint64()
				rng := rand.New(rand.NewPCG(seed, 0))
				a, b, now := x.a.Fresh, x.b.Fresh, at(1_700_000_000_123_456)
				for n := range 2000 {
					if x.changes && rng.IntN(10) == 0 {
						l = x.limits[rng.IntN(len(x.limits))]
					}
					now = now.Add(someStep(rng, l))
					if rng.IntN(5) == 0 {
						now = now.Add(-3 * someStep(rng, l))
					}
					r := model.Request{Limit: l, Cost: someCost(rng, l.Capacity()), ID: fmt.Sprint(n)}
					var p, q limiter.Decision
					a, p = a.Check(now, r)
					b, q = b.Check(now, r)
					if p != q || !a.Expires().Equal(b.Expires()) {
						t.Fatalf("seed %d, limit %d, step %d, %+v at %d:\n%+v dies %v\n%+v dies %v",
							seed, i, n, r, now.UnixMicro(), p, a.Expires(), q, b.Expires())
					}
				}
			}
		})
	}
}

// TestDeath watches a key die: it lives through the millisecond that begins at or after its reset, and then is a fresh one.
func TestDeath(t *testing.T) {
	forAll(t, func(t *testing.T, r rule) {
		l := limiter.Limit{Events: 3, Window: 1500 * µs}
		born := at(6_000_999) // window 4000 begins at 6,000,000
		s, d := r.Fresh.Check(born, model.Request{Limit: l, Cost: 3, ID: "a"})
		dies := born.Add(d.ResetAfter + 999*µs).Truncate(time.Millisecond)
		if !s.Expires().Equal(dies) {
			t.Fatalf("dies at %v, want %v", s.Expires(), dies)
		}
		peek := model.Request{Limit: l}
		if alive, _ := s.Check(dies.Add(999*µs), peek); alive != s {
			t.Error("died early")
		}
		if dead, _ := s.Check(dies.Add(1000*µs), peek); dead != r.Fresh {
			t.Error("outlived its time")
		}
		if dead, _ := s.Check(dies.Add(1000*µs), model.Request{}); dead != r.Fresh {
			t.Error("outlived its time under a limit of 0")
		}
		if zero := r.Fresh.Expires(); !zero.IsZero() {
			t.Errorf("a key that does not exist dies at %v", zero)
		}
	})
}

// TestPersistedKey counts what a key without TTL says, no longer than that, and gives it a TTL at the next write.
func TestPersistedKey(t *testing.T) {
	forAll(t, func(t *testing.T, r rule) {
		l := limiter.Limit{Events: 3, Window: 6 * time.Second}
		if model.Persist(r.Fresh) != r.Fresh {
			t.Error("PERSIST made a key")
		}
		s, d := r.Fresh.Check(at(6_000_000), model.Request{Limit: l, Cost: 3, ID: "a"})
		s = model.Persist(s)
		if want := time.UnixMilli(math.MaxInt64); !s.Expires().Equal(want) {
			t.Fatalf("dies at %v", s.Expires())
		}
		if _, early := s.Check(at(6_000_000+1), model.Request{Limit: l, Cost: 3, ID: "b"}); early.Allowed {
			t.Error("forgot what was taken")
		}
		late := at(6_000_000).Add(d.ResetAfter)
		s, d = s.Check(late, model.Request{Limit: l, Cost: 3, ID: "b"})
		if want := late.Add(d.ResetAfter); !d.Allowed || !s.Expires().Equal(want) {
			t.Errorf("%+v, dies at %v, want %v", d, s.Expires(), want)
		}
	})
}

// TestSeenIDWritesNothing answers an id that was counted again, and leaves the key as it was, TTL included.
func TestSeenIDWritesNothing(t *testing.T) {
	t.Parallel()
	r := model.Request{Limit: limiter.Limit{Events: 3, Window: 1500 * µs}, Cost: 2, ID: "a"}
	s, _ := model.SlidingLog().Fresh.Check(at(epoch+700), r)
	for _, cost := range []int64{1, 2, 3, 4} {
		r.Cost = cost
		next, d := s.Check(at(epoch+1100), r)
		if !d.Allowed || d.Remaining != 1 || d.ResetAfter != 1100*µs || next != s {
			t.Errorf("cost %d: %+v, %v", cost, d, next)
		}
	}
}

// TestTrimmingInSlices holds more expired entries than one admission trims. A window that grows counts those left.
func TestTrimmingInSlices(t *testing.T) {
	t.Parallel()
	for _, r := range rules()[:2] {
		short := limiter.Limit{Events: 5000, Window: time.Second}
		long := limiter.Limit{Events: 5000, Window: time.Hour}
		now := at(epoch)
		s := r.Fresh
		take := func(cost int64, id string) (d limiter.Decision) {
			s, d = s.Check(now, model.Request{Limit: short, Cost: cost, ID: id})
			return d
		}
		used := func() int64 {
			_, d := s.Check(now, model.Request{Limit: long})
			return 5000 - d.Remaining
		}
		take(900, "a")
		take(900, "b")
		take(900, "c")
		s = model.Persist(s)
		now = now.Add(time.Second)
		for i, want := range []int64{2700, 1701, 702, 3} {
			if i > 0 {
				take(1, fmt.Sprint(i))
			}
			if got := used(); got != want {
				t.Errorf("%s: %d held after %d admissions, want %d", r.name, got, i, want)
			}
		}
	}
}

// TestSlicesFollowTheSortedSet trims part of what came in one µs: the members go in the order of a sorted set, which
// ends with 99:b, 9:b. An id that lost its first member is new, and takes over its others.
func TestSlicesFollowTheSortedSet(t *testing.T) {
	t.Parallel()
	short := limiter.Limit{Events: 5000, Window: time.Second}
	long := limiter.Limit{Events: 5000, Window: time.Hour}
	s, _ := model.SlidingLog().Fresh.Check(at(epoch), model.Request{Limit: short, Cost: 999, ID: "b"})
	s, _ = s.Check(at(epoch), model.Request{Limit: short, Cost: 2, ID: "a"})
	s, _ = s.Check(at(epoch), model.Request{Limit: short, Cost: 1, ID: "zz"})
	s = model.Persist(s)
	now := at(epoch).Add(time.Second)
	s, _ = s.Check(now, model.Request{Limit: short, Cost: 1, ID: "c"}) // leaves 99:b, 9:b and 1:c
	for _, x := range []struct {
		id   string
		cost int64
		used int64
	}{
		{"c", 1, 3},   // seen
		{"a", 1, 4},   // lost 1:a, so it is new
		{"zz", 1, 4},  // as is this
		{"b", 50, 52}, // and this, which takes over 9:b
		{"b", 99, 100},
		{"b", 5000, 3}, // denied
	} {
		next, d := s.Check(now, model.Request{Limit: long, Cost: x.cost, ID: x.id})
		_, peek := next.Check(now, model.Request{Limit: long})
		if used := 5000 - peek.Remaining; used != x.used {
			t.Errorf("%s: %d used, want %d: %+v", x.id, used, x.used, d)
		}
	}
}
