package target_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/policy"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
)

// A limiter that answers refusals from memory is walked with several callers, each of which has a memory of its own, on
// two keys, beside the model of each. What the server decides must be the model's, field by field. What is told from memory
// must be a refusal where the model refuses: for no longer, and to the microsecond the same while nobody took meanwhile,
// since here a request takes no time. The clock only goes forward and the limit stays, for that is where it is promised.

// rememberers are the callers of a limiter with a memory, and their keys.
type rememberers struct {
	*stage
	entry   target.Entry
	limit   limiter.Limit
	callers [3]limiter.Limiter
	keys    [2]remembered
	local   int // refusals from memory
	life    int
}

type remembered struct {
	client string
	state  model.State
	taken  int                         // admissions
	when   map[memory]int              // how many there were when a caller was refused
	waits  map[memory]limiter.Decision // what it was told
}

type memory struct {
	caller int
	cost   int64
}

// begin goes on with fresh keys and callers who remember nothing.
func (w *rememberers) begin(l limiter.Limit) {
	w.life++
	w.set(start)
	w.limit = l
	for i := range w.callers {
		w.callers[i] = w.open(w.entry, l)
	}
	for i := range w.keys {
		w.keys[i] = remembered{
			client: fmt.Sprint("life-", w.life, "-", i), state: w.entry.Rule.Fresh,
			when: map[memory]int{}, waits: map[memory]limiter.Decision{},
		}
	}
}

// ask makes one request and tells how limiter and model differ.
func (w *rememberers) ask(key *remembered, caller int, cost int64) error {
	next, want := key.state.Check(w.now, model.Request{Limit: w.limit, Cost: cost})
	got, err := w.callers[caller].Check(w.Context(), key.client, cost)
	if err != nil {
		return err
	}
	by := memory{caller, cost}
	if got.At.IsZero() {
		w.local++
		same := got.RetryAfter == want.RetryAfter && got.ResetAfter == want.ResetAfter
		later := got.RetryAfter <= want.RetryAfter && got.ResetAfter <= want.ResetAfter && key.when[by] != key.taken
		if got.Allowed || want.Allowed || got.RetryAfter <= 0 || got.Remaining >= cost || !same && !later {
			return fmt.Errorf("from memory: %s\nmodel: %s", show(got), show(want))
		}
		return nil
	}
	if got != want {
		return fmt.Errorf("script: %s\nmodel: %s", show(got), show(want))
	}
	key.state = next
	if got.Allowed && cost > 0 {
		key.taken++
	}
	if !got.Allowed {
		key.when[by] = key.taken
		key.waits[by] = got
	}
	return nil
}

// small are limits that are soon used up.
var small = []limiter.Limit{
	{Events: 7, Window: time.Minute}, {Events: 3, Window: time.Second}, {Events: 17, Window: 30 * time.Second, Burst: 5},
	{Events: 1, Window: time.Millisecond}, {Events: 2, Window: 400 * time.Millisecond, Burst: 9},
}

// live leads through the life of two keys.
func (w *rememberers) live(r *rand.Rand, moves int) (made int, err error) {
	w.begin(small[r.IntN(len(small))])
	capacity := w.limit.Capacity()
	for ; made < moves && err == nil; made++ {
		key, caller := &w.keys[r.IntN(2)], r.IntN(3)
		cost := []int64{0, 1, 1, 1, 2, capacity / 2, capacity, capacity, capacity + 1}[r.IntN(9)]
		w.pass(w.step(r, key.waits[memory{caller, cost}].RetryAfter))
		err = w.ask(key, caller, cost)
	}
	return made, err
}

// step is nothing, a little, a part of a wait, or about all of it.
func (w *rememberers) step(r *rand.Rand, wait time.Duration) time.Duration {
	if wait <= 0 {
		wait = w.limit.Window / 4
	}
	switch r.IntN(20) {
	case 0:
		return wait + time.Duration(r.IntN(3)-1)*µs
	case 1:
		return (wait - wait/1000).Truncate(µs) + time.Duration(r.IntN(2))*µs
	case 2:
		return (wait + time.Duration(r.Int64N(int64(wait)))).Truncate(µs)
	case 3, 4, 5:
		return time.Duration(r.Int64N(int64(wait)/50 + 1)).Truncate(µs)
	}
	return 0
}

// TestWalkWithAMemory walks the rows that answer from memory.
func TestWalkWithAMemory(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, e := range target.Catalogue() {
		if !e.Rule.Recalls {
			continue
		}
		seed := rand.Uint64()
		r, w := rand.New(rand.NewPCG(seed, 0)), &rememberers{stage: s, entry: e}
		const lives, moves = 20, 300
		for range lives {
			if made, err := w.live(r, moves); err != nil {
				t.Fatalf("%s, seed %d, request %d of %v: %v", e.Name, seed, made, w.limit, err)
			}
		}
		if w.local < lives*moves/10 {
			t.Errorf("%s, seed %d: %d refusals from memory prove little", e.Name, seed, w.local)
		}
	}
}

// A changed limit of ours is another limiter, with a memory of its own, and applies from the next request. One of somebody
// else can cap what was used, and let pass earlier than was told: that is seen when the refusal has the longest age.
func TestAMemoryBesideAChangedLimit(t *testing.T) {
	field(t, only("cached-gcra"), func(c *caller) {
		before := limiter.Limit{Events: 2, Window: time.Minute}
		c.fresh(before)
		c.allowed(2)
		c.denied(1)
		c.pass(time.Second)
		if d := c.denied(1); !d.At.IsZero() || d.RetryAfter != 29*time.Second {
			c.Errorf("%s: want it from memory, 1s after it was told to wait for 30s", show(d))
		}
		c.limiter = c.open(c.entry, limiter.Limit{Events: 60, Window: time.Minute})
		if d := c.allowed(1); d.At.IsZero() {
			c.Errorf("%s: the new limit was not asked", show(d))
		}

		c.fresh(before)
		c.allowed(2)
		refused := c.now
		c.denied(2)
		another := c.open(c.entry, limiter.Limit{Events: 2, Window: time.Second})
		if _, err := another.Check(c.Context(), c.client, 2); err != nil { // refused, and capped at a second
			c.Fatal(err)
		}
		c.pass(time.Second)
		if d, err := c.open(c.entry, before).Check(c.Context(), c.client, 0); err != nil || d.Remaining != 2 {
			c.Errorf("%s, %v: nothing was capped", show(d), err)
		}
		c.set(refused.Add(policy.DefaultDenyMaxAge - µs))
		if d := c.denied(2); !d.At.IsZero() {
			c.Errorf("%s: want it from memory", show(d))
		}
		c.pass(µs)
		c.allowed(2)
	})
}

// What is paid for is not asked: while a client waits, Redis hears nothing of it.
func TestARefusalFromMemoryAsksNothing(t *testing.T) {
	field(t, only("cached-gcra"), func(c *caller) {
		c.fresh(limiter.Limit{Events: 1, Window: time.Minute})
		c.allowed(1)
		c.denied(1)
		before := c.commands()
		for range 1000 {
			c.denied(1)
		}
		if asked := c.commands() - before; asked != 1 { // INFO itself
			c.Errorf("Redis was sent %d commands", asked)
		}
		c.limiter.(limiter.Resetter).Reset(c.Context(), c.client)
		c.allowed(1)
	})
}

// commands is how many the server has been sent.
func (c *caller) commands() (n int) {
	info, err := c.rdb.Info(c.Context(), "stats").Result()
	_, rest, _ := strings.Cut(info, "total_commands_processed:")
	if _, scanned := fmt.Sscan(rest, &n); err != nil || scanned != nil {
		c.Fatal(err, scanned)
	}
	return n
}

// A race that lasts for many waits holds for a sound memory. One that keeps for too long what it was told gets less than the
// rule gives: most plainly where nobody else takes what comes free meanwhile.
func TestARaceOverManyWaits(t *testing.T) {
	if testing.Short() {
		t.Skip("its callers are processes: there is nothing for the race detector to see")
	}
	t.Parallel()
	mutants, err := zoo()
	if err != nil {
		t.Fatal(err)
	}
	z := newZooRun(mutants)
	for name, procs := range map[string]int{"cached-gcra": 4, "refused-twice-as-long": 1} {
		r, err := experiment.Race{
			Limiters: []string{name}, Limit: limiter.Limit{Events: 50, Window: time.Second}, Cost: 1, Procs: procs, Clients: 1,
			Attempts: 20_000 / int64(procs), Rounds: 1, Prefix: "ratelimit", Private: true, Conn: target.Conn{Timeout: 20 * time.Second},
		}.Run(t.Context(), z.env)
		if err != nil {
			t.Fatal(err)
		}
		row, unsound := r.Results[0], name != "cached-gcra"
		verdict := replay.Held
		if unsound { // by what it got less, or by what its memory could not know, whichever comes first
			verdict = replay.Broken
		}
		if row.Verdict != verdict || row.Overshoot > 0 || !unsound && (row.Undershoot > 0 || row.Recalled == 0) {
			t.Errorf("%s: %s: %s; %d over, %d under, %d from memory",
				name, row.Verdict, row.Reason, row.Overshoot, row.Undershoot, row.Recalled)
		}
	}
}
