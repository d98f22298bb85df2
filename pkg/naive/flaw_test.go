package naive_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/target"
)

// actor is a caller whose steps wait for the test.
type actor struct {
	parked chan string   // the name of each step that wants to run
	run    chan struct{} // lets it
	result chan limiter.Decision
	left   []string // the steps that were parked and have not run: at most one
	done   *limiter.Decision
}

// newActor starts one request of cost 1.
func newActor(r *rig, name string, l limiter.Limit) *actor {
	a := &actor{parked: make(chan string), run: make(chan struct{}), result: make(chan limiter.Decision, 1)}
	lim := r.open(name, r.client(tap(func(cmds []redis.Cmder, run func() error) error {
		if setUp(cmds) {
			return run()
		}
		a.parked <- nameOf(cmds)
		<-a.run
		return run()
	})), l)
	go func() {
		d, err := lim.Check(r.t.Context(), "c", 1)
		if err != nil {
			r.t.Error(err)
		}
		a.result <- d
	}()
	a.wait()
	return a
}

// setUp tells steps that decide nothing: those of a new connection, and UNWATCH.
func setUp(cmds []redis.Cmder) bool {
	name := cmds[0].Name()
	return name == "hello" || name == "client" || name == "unwatch"
}

// nameOf is the names of a step's commands, without those that make a block of them.
func nameOf(cmds []redis.Cmder) string {
	var names []string
	for _, cmd := range cmds {
		if name := cmd.Name(); name != "multi" && name != "exec" {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

// wait lets the actor come to its next step or its end.
func (a *actor) wait() {
	select {
	case name := <-a.parked:
		a.left = []string{name}
	case d := <-a.result:
		a.left, a.done = nil, &d
	}
}

// step runs one step and names it.
func (a *actor) step(t *testing.T) string {
	t.Helper()
	if len(a.left) == 0 {
		t.Fatal("no step left")
	}
	name := a.left[0]
	a.run <- struct{}{}
	a.wait()
	return name
}

// play runs the steps of two actors in the order given, such as "ABAB", then the rest, A's first. It returns what ran
// and how many were allowed.
func play(t *testing.T, r *rig, name string, l limiter.Limit, order string) (ran string, allowed int) {
	t.Helper()
	actors := map[rune]*actor{'A': newActor(r, name, l), 'B': newActor(r, name, l)}
	var steps []string
	for _, who := range order {
		steps = append(steps, string(who)+" "+actors[who].step(t))
	}
	for _, who := range "AB" {
		for actors[who].done == nil {
			steps = append(steps, string(who)+" "+actors[who].step(t))
		}
		if actors[who].done.Allowed {
			allowed++
		}
	}
	return strings.Join(steps, ", "), allowed
}

// TestOrderThatBreaks plays the order that each file draws, with one slot left: both callers pass. One after the other,
// one passes.
func TestOrderThatBreaks(t *testing.T) {
	t.Parallel()
	drawn := map[string]struct{ order, steps string }{
		"naive-counter": {"ABAB", "A get, B get, A incrby+pexpire, B incrby+pexpire"},
		"naive-bucket":  {"AABBAABB", "A get, A get, B get, B get, A set, A set, B set, B set"},
		"naive-log": {"ABABAB",
			"A zremrangebyscore, B zremrangebyscore, A zcard, B zcard, A zadd+pexpire, B zadd+pexpire"},
		"naive-pipeline": {"ABAB",
			"A zcount+zrange+zrange, B zcount+zrange+zrange, " +
				"A zremrangebyscore+zadd+pexpire, B zremrangebyscore+zadd+pexpire"},
		"naive-semaphore": {"ABABAB",
			"A zremrangebyscore, B zremrangebyscore, A zcard, B zcard, A zadd+pexpire, B zadd+pexpire"},
		"local-bucket": {"", ""},
	}
	l := limiter.Limit{Events: 2, Window: time.Minute}
	for _, name := range naives(t, func(e target.Entry) bool { return e.BrokenBy == target.Race }) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, ok := drawn[name]
			if !ok {
				t.Fatal("no order is drawn")
			}
			r := newRig(t)
			lim := r.open(name, r.rdb, l)
			if name != "local-bucket" { // its callers share nothing to fill
				check(t, lim, 1)
			}
			steps, allowed := play(t, r, name, l, d.order)
			if allowed != 2 || steps != d.steps {
				t.Errorf("%d allowed in %q, want 2 in %q", allowed, steps, d.steps)
			}
			if name == "local-bucket" {
				return
			}
			if err := lim.(limiter.Resetter).Reset(t.Context(), "c"); err != nil {
				t.Fatal(err)
			}
			check(t, lim, 1)
			if steps, allowed := play(t, r, name, l, ""); allowed != 1 {
				t.Errorf("%d allowed in %q, want 1", allowed, steps)
			}
		})
	}
}

// TestNoOrderBreaks plays every order of two callers of those that no race breaks.
func TestNoOrderBreaks(t *testing.T) {
	t.Parallel()
	l := limiter.Limit{Events: 2, Window: time.Minute}
	for _, name := range naives(t, func(e target.Entry) bool { return e.BrokenBy != target.Race }) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for _, order := range []string{"", "B", "AB", "BA", "BB", "ABB", "BAA", "ABAB", "ABBA", "BABA", "BAAB"} {
				lim := r.open(name, r.rdb, l)
				if err := lim.(limiter.Resetter).Reset(t.Context(), "c"); err != nil {
					t.Fatal(err)
				}
				check(t, lim, 1)
				if ran, allowed := play(t, r, name, l, fitting(order, stepsOf[name])); allowed != 1 {
					t.Errorf("%d allowed in %q, want 1", allowed, ran)
				}
			}
		})
	}
}

// stepsOf is the least number of steps of a request.
var stepsOf = map[string]int{"naive-expire": 1, "charging-log": 1, "skewed-bucket": 1, "skewed-semaphore": 1, "watch-bucket": 2}

// fitting cuts an order to the steps that each of two callers has.
func fitting(order string, steps int) string {
	var fits strings.Builder
	ran := map[rune]int{}
	for _, who := range order {
		if ran[who]++; ran[who] <= steps {
			fits.WriteRune(who)
		}
	}
	return fits.String()
}

// TestExpireCrash stops a client between INCRBY and PEXPIREAT. Nobody else passes a year later, and the crash is an
// error after which the request may have been counted.
func TestExpireCrash(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := limiter.Limit{Events: 2, Window: time.Minute}
	dying := r.open("naive-expire", r.client(tap(func(cmds []redis.Cmder, run func() error) error {
		if cmds[0].Name() == "pexpireat" {
			return io.ErrClosedPipe
		}
		return run()
	})), l)
	if _, err := dying.Check(t.Context(), "c", 1); !limiter.Counted(err) {
		t.Fatalf("the crash is told as %v, want an error after which it may have been counted", err)
	}
	survivor := r.open("naive-expire", r.rdb, l)
	if !check(t, survivor, 1).Allowed || check(t, survivor, 1).Allowed {
		t.Fatal("never over: want the second of two allowed and the third denied")
	}
	r.set(start + (366 * 24 * time.Hour).Microseconds())
	if d := check(t, survivor, 1); d.Allowed {
		t.Errorf("a year after the crash: %+v, want the client locked out", d)
	}
}

// TestChargingNeverRecovers asks at twice the rate for ten windows: the twin lets the limit through in each of them,
// charging-log none after the first.
func TestChargingNeverRecovers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := limiter.Limit{Events: 10, Window: time.Second}
	lim, twin := r.open("charging-log", r.rdb, l), entry(t, "sliding-log").Rule.Fresh
	var allowed, byRule [10]int
	for window := range 10 {
		for i := range 20 {
			r.set(start + int64(window)*1_000_000 + int64(i)*50_000)
			if check(t, lim, 1).Allowed {
				allowed[window]++
			}
			next, d := twin.Check(r.now(), model.Request{Limit: l, Cost: 1, ID: r.now().String()})
			if twin = next; d.Allowed {
				byRule[window]++
			}
		}
	}
	if allowed != [10]int{10} || byRule != [10]int{10, 10, 10, 10, 10, 10, 10, 10, 10, 10} {
		t.Errorf("allowed %v, by the rule %v: want 10 in the first window, then none against 10 in each", allowed, byRule)
	}
}

// TestSkewedClocks plays what skewed.go draws: a caller a second ahead gets whatever it asks for, and one whose clock is
// right gets nothing.
func TestSkewedClocks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := limiter.Limit{Events: 2, Window: 2 * time.Second}
	right := r.open("skewed-bucket", r.rdb, l)
	ahead := r.openAt("skewed-bucket", r.rdb, l, func() time.Time { return r.now().Add(time.Second) })
	if !check(t, right, 2).Allowed || check(t, right, 1).Allowed {
		t.Fatal("with one clock: want two allowed and the third denied")
	}
	for i := range 20 {
		if d := check(t, ahead, 1); !d.Allowed {
			t.Fatalf("round %d, a second ahead: %+v, want more than the two of the burst", i, d)
		}
		if d := check(t, right, 1); d.Allowed {
			t.Fatalf("round %d, right: %+v, want it starved", i, d)
		}
	}
}

// TestSkewedLeases plays what skewedsemaphore.go draws: to a caller 20 ms ahead a lease has ended that still runs. And
// when they take slots in turn, the semaphore's time runs though theirs stands still.
func TestSkewedLeases(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := limiter.Limit{Events: 1, Window: 30 * time.Second}
	right := r.open("skewed-semaphore", r.rdb, l)
	ahead := r.openAt("skewed-semaphore", r.rdb, l, func() time.Time { return r.now().Add(20 * time.Millisecond) })
	if !check(t, right, 1).Allowed {
		t.Fatal("nobody holds, and it is denied")
	}
	for _, at := range []struct {
		us      int64
		allowed bool
	}{{29_970_000, false}, {29_985_000, true}} {
		r.set(start + at.us)
		if d := check(t, ahead, 1); d.Allowed != at.allowed {
			t.Errorf("%d us into a lease of 30 s, 20 ms ahead: %+v, want allowed %v", at.us, d, at.allowed)
		}
	}
	many := limiter.Limit{Events: 60, Window: 400 * time.Millisecond}
	right = r.open("skewed-semaphore", r.rdb, many)
	ahead = r.openAt("skewed-semaphore", r.rdb, many, func() time.Time { return r.now().Add(20 * time.Millisecond) })
	held := 0
	for i := range 300 {
		if check(t, []limiter.Limiter{right, ahead}[i%2], 1).Allowed {
			held++
		}
	}
	if held <= 60 {
		t.Errorf("%d of 300 hold on a clock that stands still, want more than the 60 that may", held)
	}
}

// TestReleasesAreOnesOwn has a holder's slot given back: by somebody else, which changes nothing, and by itself.
func TestReleasesAreOnesOwn(t *testing.T) {
	t.Parallel()
	for _, name := range naives(t, target.Entry.Releases) {
		r := newRig(t)
		s := r.open(name, r.rdb, limiter.Limit{Events: 1, Window: time.Minute}).(limiter.Releaser)
		if d, err := s.CheckID(t.Context(), "c", 1, "holder"); err != nil || !d.Allowed {
			t.Fatalf("%s: %+v, %v", name, d, err)
		}
		before := r.dump()
		if d, err := s.Release(t.Context(), "c", "other"); err != nil || d.Allowed || d.RetryAfter != limiter.Never || r.dump() != before {
			t.Errorf("%s: released by another: %+v, %v", name, d, err)
		}
		for _, want := range []bool{true, false} {
			if d, err := s.Release(t.Context(), "c", "holder"); err != nil || d.Allowed != want {
				t.Errorf("%s: released by the holder: %+v, %v, want %v", name, d, err, want)
			}
		}
		if !check(t, s, 1).Allowed {
			t.Errorf("%s: the slot is not back", name)
		}
	}
}

// TestLifetimes looks at all keys after each step of a request: only naive-expire ever has one without a lifetime, and
// only between its two steps.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	for _, name := range naives(t, all) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var immortal []string
			lim := r.open(name, r.client(tap(func(cmds []redis.Cmder, run func() error) error {
				err := run()
				for _, key := range r.keys() {
					if r.ends(key) == -1 {
						immortal = append(immortal, cmds[0].Name())
					}
				}
				return err
			})), limiter.Limit{Events: 3, Window: time.Minute})
			for range 5 {
				check(t, lim, 1)
			}
			if got := strings.Join(immortal, " "); name == "naive-expire" && got != "incrby" || name != "naive-expire" && got != "" {
				t.Errorf("keys without a lifetime after: %q", got)
			}
			r.set(start + 2*time.Minute.Microseconds())
			if keys := r.keys(); len(keys) > 0 {
				t.Errorf("two windows later there still is %q", keys)
			}
		})
	}
}

// TestDenialsLeaveNoTrace compares all keys and their lifetimes around a denial, a peek, and a cost above the limit.
// The two that charge denials are told by it.
func TestDenialsLeaveNoTrace(t *testing.T) {
	t.Parallel()
	charges := map[string]bool{"charging-log": true, "naive-expire": true}
	for _, name := range naives(t, all) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			lim := r.open(name, r.rdb, limiter.Limit{Events: 3, Window: time.Minute})
			unit := entry(t, name).Unit
			for range 3 {
				check(t, lim, 1)
			}
			r.set(start + 1_500_000)
			before := r.dump()
			if d := check(t, lim, 0); !d.Allowed || d.RetryAfter != 0 {
				t.Errorf("peek: %+v", d)
			}
			if !unit {
				if d := check(t, lim, 4); d.Allowed || d.RetryAfter != limiter.Never {
					t.Errorf("4 of 3: %+v, want never", d)
				}
			}
			if r.dump() != before {
				t.Error("a peek or a cost above the limit changed a key")
			}
			if d := check(t, lim, 1); d.Allowed || d.RetryAfter <= 0 {
				t.Errorf("the fourth of 3: %+v", d)
			}
			if changed := r.dump() != before; changed != charges[name] {
				t.Errorf("a denial changed a key: %v, want %v", changed, charges[name])
			}
		})
	}
}

// TestSameMicrosecond makes a thousand requests while the clock stands still: each is counted.
func TestSameMicrosecond(t *testing.T) {
	t.Parallel()
	for _, name := range naives(t, all) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lim := newRig(t)
			one, two := lim.open(name, lim.rdb, thousand), lim.open(name, lim.rdb, thousand)
			for i := range 500 {
				if !check(t, one, 1).Allowed || !check(t, two, 1).Allowed && name != "local-bucket" {
					t.Fatalf("denied in pair %d of 500", i)
				}
			}
			if name == "local-bucket" {
				return
			}
			if d := check(t, two, 0); d.Remaining != 0 {
				t.Errorf("after 1000 requests of 1000 %d remain", d.Remaining)
			}
		})
	}
}

var thousand = limiter.Limit{Events: 1000, Window: time.Hour}
