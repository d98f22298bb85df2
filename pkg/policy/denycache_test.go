package policy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
)

// scripted is a limiter that answers what it is told to, is Identified and a Resetter, and counts what it was asked.
type scripted struct {
	answer func(key string, cost int64) (limiter.Decision, error)
	asked  atomic.Int64
	reset  atomic.Int64
}

func (s *scripted) Check(_ context.Context, key string, cost int64) (limiter.Decision, error) {
	s.asked.Add(1)
	return s.answer(key, cost)
}

func (s *scripted) CheckID(ctx context.Context, key string, cost int64, _ string) (limiter.Decision, error) {
	return s.Check(ctx, key, cost)
}

func (s *scripted) Reset(context.Context, string) error {
	s.reset.Add(1)
	return nil
}

// always answers everything alike.
func always(d limiter.Decision) *scripted {
	return &scripted{answer: func(string, int64) (limiter.Decision, error) { return d, nil }}
}

// wait is a refusal as a server tells it.
func wait(d time.Duration) limiter.Decision {
	return limiter.Decision{RetryAfter: d, ResetAfter: 10 * d, At: time.Unix(1, 0)}
}

func cached(t *testing.T, next limiter.Limiter, c policy.DenyCache) limiter.Limiter {
	t.Helper()
	l, err := policy.WithDenyCache(next, c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// check asks, and wants so many questions to have reached the limiter by then.
func check(t *testing.T, l limiter.Limiter, key string, cost int64, s *scripted, asked int64) limiter.Decision {
	t.Helper()
	d, err := l.Check(t.Context(), key, cost)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.asked.Load(); got != asked {
		t.Errorf("%q, cost %d: the limiter was asked %d times, want %d", key, cost, got, asked)
	}
	return d
}

// A refusal is remembered from the moment it was asked for, told with what is left of it, and over a thousandth early.
func TestARefusalIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rtt = 30 * time.Millisecond
		s, answered := always(limiter.Decision{}), 0
		s.answer = func(string, int64) (limiter.Decision, error) {
			time.Sleep(rtt) // all of it may be the way back
			d := wait(2 * time.Second)
			d.Remaining = 3
			return d, nil
		}
		l := cached(t, s, policy.DenyCache{Answered: func() { answered++ }})
		check(t, l, "a", 5, s, 1)
		want := limiter.Decision{Remaining: 3, RetryAfter: 2*time.Second - rtt, ResetAfter: 20*time.Second - rtt}
		if d := check(t, l, "a", 5, s, 1); d != want {
			t.Errorf("%+v, want %+v", d, want)
		}
		time.Sleep(1998*time.Millisecond - rtt - time.Microsecond)
		if d := check(t, l, "a", 5, s, 1); d.Allowed || d.RetryAfter != 2*time.Millisecond+time.Microsecond {
			t.Errorf("%+v", d)
		}
		if answered != 2 {
			t.Errorf("told of %d refusals from memory, want 2", answered)
		}
		time.Sleep(time.Nanosecond) // of the last microsecond nothing may be left on the server's clock
		if d := check(t, l, "a", 5, s, 2); d.At.IsZero() {
			t.Errorf("%+v is none of the limiter's", d)
		}
		if check(t, l, "a", 5, s, 2); answered != 3 {
			t.Errorf("told of %d refusals from memory, want 3", answered)
		}
	})
}

func TestNoRefusalIsOlderThanMaxAge(t *testing.T) {
	for _, c := range []struct{ set, age time.Duration }{{0, policy.DefaultDenyMaxAge}, {time.Second, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			s := always(wait(time.Hour))
			l := cached(t, s, policy.DenyCache{MaxAge: c.set})
			check(t, l, "a", 1, s, 1)
			time.Sleep(c.age - time.Microsecond)
			check(t, l, "a", 1, s, 1)
			time.Sleep(time.Microsecond)
			check(t, l, "a", 1, s, 2)
		})
	}
}

// What is no refusal that stays right is asked each time.
func TestWhatIsNotRemembered(t *testing.T) {
	t.Parallel()
	degraded := wait(time.Hour)
	degraded.Degraded = true
	for name, c := range map[string]struct {
		told limiter.Decision
		err  error
		key  string
		cost int64
	}{
		"allowed":                {told: limiter.Decision{Allowed: true, Remaining: 1, ResetAfter: time.Hour}, cost: 1},
		"never":                  {told: limiter.Decision{RetryAfter: limiter.Never, ResetAfter: time.Hour}, cost: 9},
		"a policy's answer":      {told: degraded, cost: 1},
		"an error":               {told: wait(time.Hour), err: failure(limiter.ClassLoading, false), cost: 1},
		"a lost call":            {told: wait(time.Hour), err: failure(limiter.ClassNoAnswer, true), cost: 1},
		"a peek":                 {told: wait(time.Hour), cost: 0}, // as one from outside might answer it
		"a long id":              {told: wait(time.Hour), key: strings.Repeat("x", 257), cost: 1},
		"a refusal without wait": {told: limiter.Decision{}, cost: 1},
	} {
		s := &scripted{answer: func(string, int64) (limiter.Decision, error) { return c.told, c.err }}
		l := cached(t, s, policy.DenyCache{})
		for asked := range int64(3) {
			d, err := l.Check(t.Context(), c.key, c.cost)
			if d != c.told || err != c.err || s.asked.Load() != asked+1 {
				t.Errorf("%s: %+v, %v after %d questions", name, d, err, s.asked.Load())
			}
		}
	}
}

// A smaller cost may pass, a larger one has a wait of its own, and others are others.
func TestARefusalIsOfOneClientAndOneCost(t *testing.T) {
	t.Parallel()
	s := &scripted{answer: func(key string, cost int64) (limiter.Decision, error) {
		if cost < 3 {
			return limiter.Decision{Allowed: true}, nil
		}
		return wait(time.Duration(cost)*time.Minute + time.Duration(len(key))*time.Hour), nil
	}}
	l := cached(t, s, policy.DenyCache{})
	check(t, l, "a", 3, s, 1)
	check(t, l, "a", 5, s, 2)
	check(t, l, "bb", 3, s, 3)
	for _, c := range []struct {
		key  string
		cost int64
		wait time.Duration
	}{{"a", 3, time.Hour + 3*time.Minute}, {"a", 5, time.Hour + 5*time.Minute}, {"bb", 3, 2*time.Hour + 3*time.Minute}} {
		if d := check(t, l, c.key, c.cost, s, 3); d.Allowed || (c.wait-d.RetryAfter).Abs() > time.Minute {
			t.Errorf("%q, cost %d: %+v", c.key, c.cost, d)
		}
	}
	if d := check(t, l, "a", 2, s, 4); !d.Allowed {
		t.Errorf("a smaller cost: %+v", d)
	}
	check(t, l, "a", 3, s, 4)
}

// Only the limiter knows whether an id was admitted before, unless it knows none.
func TestRequestsThatBringAnID(t *testing.T) {
	t.Parallel()
	for ignores, asked := range map[bool]int64{false: 3, true: 1} {
		s := always(wait(time.Hour))
		l := cached(t, s, policy.DenyCache{IgnoresIDs: ignores}).(limiter.Identified)
		for i := range 3 {
			if d, err := l.CheckID(t.Context(), "a", 1, fmt.Sprint("id-", i)); d.Allowed || err != nil {
				t.Error(d, err)
			}
		}
		check(t, l, "a", 1, s, asked) // an id of our own was never there before
		if _, _ = l.CheckID(t.Context(), "a", 1, strings.Repeat("x", limiter.MaxID+1)); s.asked.Load() != asked+1 {
			t.Error("an id that no limiter takes was answered from memory")
		}
	}
}

func TestResetForgets(t *testing.T) {
	t.Parallel()
	s := always(wait(time.Hour))
	l := cached(t, s, policy.DenyCache{})
	for cost := range int64(4) {
		check(t, l, "a", cost+1, s, cost+1)
	}
	check(t, l, "b", 1, s, 5)
	if err := l.(limiter.Resetter).Reset(t.Context(), "a"); err != nil || s.reset.Load() != 1 {
		t.Fatal(err, s.reset.Load())
	}
	for cost := range int64(4) {
		check(t, l, "a", cost+1, s, cost+6)
	}
	check(t, l, "b", 1, s, 9) // others are not forgotten
}

// A cache belongs around a policy, and a client is reset through both.
func TestResetThroughAPolicy(t *testing.T) {
	t.Parallel()
	s := always(wait(time.Hour))
	l := cached(t, under(t, s, policy.Policy{Mode: policy.Closed, Timeout: time.Second}), policy.DenyCache{})
	check(t, l, "a", 1, s, 1)
	check(t, l, "a", 1, s, 1)
	reset, ok := limiter.As[limiter.Resetter](under(t, l, policy.Policy{Mode: policy.Open, Timeout: time.Second}))
	if !ok {
		t.Fatal("no Resetter is found")
	}
	if err := reset.Reset(t.Context(), "a"); err != nil || s.reset.Load() != 1 {
		t.Fatal(err, s.reset.Load())
	}
	check(t, l, "a", 1, s, 2)
}

// A refusal that was under way when its client was reset may be of the time before.
func TestResetForgetsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(string, int64) (limiter.Decision, error) {
			time.Sleep(time.Second)
			return wait(time.Hour), nil
		}}
		l := cached(t, s, policy.DenyCache{})
		var under sync.WaitGroup
		under.Go(func() { check(t, l, "a", 1, s, 1) })
		time.Sleep(time.Millisecond)
		if err := l.(limiter.Resetter).Reset(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		under.Wait()
		check(t, l, "a", 1, s, 2)
		check(t, l, "a", 1, s, 2)
	})
}

// However many clients are refused, no more are remembered than was said; of one client eight costs at least.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{1, 8, 100, 1000} {
		s := always(wait(time.Hour))
		l := cached(t, s, policy.DenyCache{Entries: entries})
		for cost := range int64(8) {
			check(t, l, "the same", cost+1, s, cost+1)
		}
		for cost := range int64(8) {
			check(t, l, "the same", cost+1, s, 8)
		}
		const clients = 5_000
		for i := range clients {
			check(t, l, fmt.Sprint(i), 1, s, 9+int64(i))
			check(t, l, fmt.Sprint(i), 1, s, 9+int64(i)) // whomever it pushed out, it is there
		}
		answered := int64(0)
		for i := clients - 1; i >= 0; i-- { // one that is pushed out now was counted before
			before := s.asked.Load()
			if _, err := l.Check(t.Context(), fmt.Sprint(i), 1); err != nil {
				t.Fatal(err)
			}
			answered += 1 - (s.asked.Load() - before)
		}
		if most := int64(entries+7) / 8 * 8; answered > most || answered == 0 {
			t.Errorf("%d clients are remembered, at most %d may be", answered, most)
		}
	}
}

// How many find no place, and ask each time, is what a user chooses the number of entries by.
func TestPlacesForMany(t *testing.T) {
	t.Parallel()
	const clients = 20_000
	for each, most := range map[int]float64{4: 0.003, 2: 0.07, 1: 0.60} {
		s := always(wait(time.Hour))
		l := cached(t, s, policy.DenyCache{Entries: each * clients})
		for range 2 {
			s.asked.Store(0)
			for i := range clients {
				if _, err := l.Check(t.Context(), fmt.Sprint("client-", i), 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		if share := float64(s.asked.Load()) / clients; share > most {
			t.Errorf("%d entries a client: %.4f find no place, want %.4f at most", each, share, most)
		}
	}
}

// What is due first goes first: what is over is of no use.
func TestWhatIsDueFirstIsPushedOut(t *testing.T) {
	t.Parallel()
	s := &scripted{answer: func(_ string, cost int64) (limiter.Decision, error) {
		return wait(time.Duration(100-cost) * time.Millisecond * 10), nil
	}}
	l := cached(t, s, policy.DenyCache{Entries: 8, Clock: func() time.Time { return time.Unix(1, 0) }})
	for cost := range int64(9) {
		check(t, l, "a", cost+1, s, cost+1)
	}
	for _, cost := range []int64{9, 7, 6, 5, 4, 3, 2, 1} {
		check(t, l, "a", cost, s, 9)
	}
	check(t, l, "a", 8, s, 10)
}

// Whatever happens at once, everybody is told what is so of its own client and cost.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	told := func(client, cost int) time.Duration { return time.Hour + time.Duration(client*100+cost)*time.Minute }
	s := &scripted{answer: func(key string, cost int64) (limiter.Decision, error) {
		var client int
		_, err := fmt.Sscan(key, &client)
		return wait(told(client, int(cost))), err
	}}
	var answered atomic.Int64
	l := cached(t, s, policy.DenyCache{Entries: 64, IgnoresIDs: true, Answered: func() { answered.Add(1) }})
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 3_000 {
				client, cost := (i*7+g)%20, 1+i%5
				ask := func() (limiter.Decision, error) { return l.Check(t.Context(), fmt.Sprint(client), int64(cost)) }
				switch i % 100 {
				case 0:
					if err := l.(limiter.Resetter).Reset(t.Context(), fmt.Sprint(client)); err != nil {
						t.Error(err)
					}
				case 1:
					ask = func() (limiter.Decision, error) {
						return l.(limiter.Identified).CheckID(t.Context(), fmt.Sprint(client), int64(cost), "id")
					}
				}
				d, err := ask()
				if left := told(client, cost) - d.RetryAfter; err != nil || d.Allowed || left < 0 || left > time.Minute/2 {
					t.Errorf("client %d, cost %d: %+v, %v", client, cost, d, err)
					return
				}
			}
		})
	}
	all.Wait()
	if sum := s.asked.Load() + answered.Load(); sum != 8*3_000 || answered.Load() == 0 {
		t.Errorf("%d asked, %d from memory", s.asked.Load(), answered.Load())
	}
}

// The powers are those of the limiter, and a semaphore is none that can be remembered.
func TestPowersOfADenyCache(t *testing.T) {
	t.Parallel()
	whole := always(wait(time.Hour))
	for name, c := range map[string]struct {
		next               limiter.Limiter
		identified, resets bool
	}{
		"all":        {whole, true, true},
		"check":      {limiter.Func(whole.Check), false, false},
		"identified": {struct{ limiter.Identified }{whole}, true, false},
		"resets": {struct {
			limiter.Limiter
			limiter.Resetter
		}{whole, whole}, false, true},
	} {
		l := cached(t, c.next, policy.DenyCache{})
		_, identified := l.(limiter.Identified)
		_, resets := l.(limiter.Resetter)
		if identified != c.identified || resets != c.resets {
			t.Errorf("%s: identified %v, resets %v", name, identified, resets)
		}
	}
	semaphore, err := limiter.NewSemaphore(nil, limiter.Limit{Events: 1, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	closed := policy.Policy{Mode: policy.Closed, Timeout: time.Second}
	for _, next := range []limiter.Limiter{semaphore, under(t, semaphore, closed), under(t, under(t, semaphore, closed), closed)} {
		if l, err := policy.WithDenyCache(next, policy.DenyCache{}); err == nil || l != nil {
			t.Errorf("a semaphore was taken: %v", err)
		}
	}
	for _, c := range []policy.DenyCache{{Entries: -1}, {Entries: policy.MaxDenyEntries + 1}, {MaxAge: -1}} {
		if l, err := policy.WithDenyCache(whole, c); err == nil || l != nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

// A policy's answer is no decision: it is over with the trouble.
func TestAPolicyIsNotRemembered(t *testing.T) {
	t.Parallel()
	s := &scripted{answer: func(string, int64) (limiter.Decision, error) { return limiter.Decision{}, errors.New("away") }}
	l := cached(t, under(t, s, policy.Policy{Mode: policy.Closed, Timeout: time.Second, RetryAfter: time.Hour}), policy.DenyCache{})
	if d := check(t, l, "a", 1, s, 1); !d.Degraded || d.Allowed {
		t.Errorf("%+v", d)
	}
	s.answer = func(string, int64) (limiter.Decision, error) { return limiter.Decision{Allowed: true}, nil }
	if d := check(t, l, "a", 1, s, 2); !d.Allowed {
		t.Errorf("%+v", d)
	}
}

func TestARefusalFromMemoryAllocatesNothing(t *testing.T) {
	s := always(wait(time.Hour))
	l := cached(t, s, policy.DenyCache{})
	check(t, l, "client-1", 1, s, 1)
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		if d, err := l.Check(ctx, "client-1", 1); err != nil || d.Allowed {
			t.Fatal(d, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
