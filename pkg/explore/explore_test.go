package explore_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
)

var perMinute = limiter.Limit{Events: 5, Window: time.Minute}

func plan(t *testing.T, name string, clients int) explore.Plan {
	t.Helper()
	e, err := target.Find(target.Catalogue(), name)
	if err != nil {
		t.Fatal(err)
	}
	return explore.Plan{Entry: e, Limit: perMinute, Clients: clients, Calls: 1, Start: explore.OneLeft, Prefix: "ratelimit"}
}

// shape is a limiter as the order of its commands alone makes it: the command that reads the count, and how many there
// are when that lets it in and when it does not.
type shape struct{ reads, allowed, denied int }

// count is how many orders clients of that shape have with one slot left, and how many of them admit more: worked out
// by counting, without a Redis.
func (s shape) count(done []int, admitted []bool, used int) (orders, over int64) {
	ended := true
	for c := range done {
		total := s.denied
		if admitted[c] || done[c] < s.reads {
			total = s.allowed
		}
		if done[c] == total {
			continue
		}
		ended = false
		was, let, now := done[c], admitted[c], used
		if done[c]++; done[c] == s.reads {
			admitted[c] = used == 0
		}
		if admitted[c] && done[c] == s.allowed {
			now++
		}
		o, v := s.count(done, admitted, now)
		orders, over = orders+o, over+v
		done[c], admitted[c] = was, let
	}
	switch {
	case !ended:
		return orders, over
	case used > 1:
		return 1, 1
	}
	return 1, 0
}

func TestOrders(t *testing.T) {
	srv := redisdtest.Start(t, redisd.Options{Clock: true})
	for _, c := range []struct {
		limiter  string
		clients  int
		shape    shape
		schedule string
	}{
		{"naive-counter", 2, shape{1, 2, 1}, "ABAB"},
		{"naive-counter", 3, shape{1, 2, 1}, "ABABC"},
		{"naive-log", 2, shape{2, 3, 5}, "AABBAB"},
		{"naive-pipeline", 2, shape{1, 4, 3}, "AAABBBAB"},
		{"naive-expire", 3, shape{1, 1, 1}, "ABC"},
		{"gcra", 3, shape{1, 1, 1}, "ABC"},
		{"sliding-log", 2, shape{1, 1, 1}, "AB"},
	} {
		orders, over := c.shape.count(make([]int, c.clients), make([]bool, c.clients), 0)
		compare(t, srv, plan(t, c.limiter, c.clients), orders, over, c.schedule)
	}
	// Of these the count is what was seen: two reads that are not one decision, and rounds that start again.
	compare(t, srv, plan(t, "naive-bucket", 2), 66, 60, "AABAABBB")
	compare(t, srv, plan(t, "watch-bucket", 2), 20, 0, "AABBABBB")
	compare(t, srv, plan(t, "local-bucket", 2), 2, 2, "AB")
	compare(t, srv, plan(t, "charging-log", 2), 2, 2, "AB") // its refusals are charged
}

// compare explores twice.
func compare(t *testing.T, srv explore.Server, p explore.Plan, orders, over int64, schedule string) {
	t.Helper()
	var before []string
	for range 2 {
		r, err := explore.Run(t.Context(), srv, p, nil)
		if err != nil {
			t.Errorf("%s: %v", p.Entry.Name, err)
			return
		}
		if r.Orders != orders || r.Violating != over || r.Shown.Order != schedule {
			t.Errorf("%s, %d clients: %d orders, %d over, shown %s; want %d, %d, %s", p.Entry.Name, p.Clients, r.Orders,
				r.Violating, r.Shown.Order, orders, over, schedule)
		}
		if before != nil && !slices.Equal(before, words(r)) {
			t.Errorf("%s: the same search again shows %v instead of %v", p.Entry.Name, words(r), before)
		}
		before = words(r)
	}
}

// words are the commands of the schedule that is shown, without the time, which moves on from run to run.
func words(r explore.Result) (names []string) {
	for _, s := range r.Shown.Steps {
		for _, args := range s.Args {
			names = append(names, args[0])
		}
	}
	return names
}

// TestWhatIsShown is the textbook's table, from real replies.
func TestWhatIsShown(t *testing.T) {
	srv := redisdtest.Start(t, redisd.Options{Clock: true})
	r, err := explore.Run(t.Context(), srv, plan(t, "naive-counter", 2), nil)
	if err != nil {
		t.Fatal(err)
	}
	var replies, state []string
	for _, s := range r.Shown.Steps {
		replies, state = append(replies, s.Reply.String()), append(state, s.After[0].Value)
	}
	if got := strings.Join(replies, " "); got != "4 4 [5 1] [6 1]" {
		t.Errorf("replies %s", got)
	}
	if got := strings.Join(state, " "); got != "4 4 5 6" || r.Shown.Before[0].Value != "4" {
		t.Errorf("state %v, then %s", r.Shown.Before, got)
	}
	if g, ok := r.Shown.Gap(); !ok || g != (explore.Gap{Client: 1, Read: 1, Changed: 2, Used: 3}) {
		t.Errorf("gap %+v", g)
	}
	if v := r.Shown.Violation; v == nil || v.Kind != explore.Over || v.Call != 1 {
		t.Errorf("%+v", v)
	}
}

// A bad limiter is one that wraps gcra and spoils one thing.
func bad(t *testing.T, spoil func(rdb redis.UniversalClient, l limiter.Limiter) limiter.Limiter) explore.Plan {
	t.Helper()
	p := plan(t, "gcra", 2)
	honest := p.Entry.New
	p.Entry.New = func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
		inner, err := honest(rdb, l, opts...)
		if err != nil {
			return nil, err
		}
		return spoil(rdb, limiter.Func(func(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
			return inner.(limiter.Identified).CheckID(ctx, key, cost, "id") // the same in each run; gcra makes no use of it
		})), nil
	}
	return p
}

// TestEveryKindOfViolationIsSeen spoils a sound limiter in each way.
func TestEveryKindOfViolationIsSeen(t *testing.T) {
	srv := redisdtest.Start(t, redisd.Options{Clock: true})
	last := func(d limiter.Decision) bool { return d.Allowed && d.Remaining == 0 }
	for kind, spoil := range map[explore.Kind]func(redis.UniversalClient, limiter.Limiter) limiter.Limiter{
		explore.Over: func(_ redis.UniversalClient, l limiter.Limiter) limiter.Limiter {
			return limiter.Func(func(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
				d, err := l.Check(ctx, key, cost)
				d.Allowed = true
				return d, err
			})
		},
		explore.Under: func(_ redis.UniversalClient, l limiter.Limiter) limiter.Limiter {
			return limiter.Func(func(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
				d, err := l.Check(ctx, key, cost)
				d.Allowed = d.Allowed && !last(d)
				return d, err
			})
		},
		explore.Differs: func(_ redis.UniversalClient, l limiter.Limiter) limiter.Limiter {
			return limiter.Func(func(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
				d, err := l.Check(ctx, key, cost)
				d.ResetAfter++
				return d, err
			})
		},
		explore.Charged: func(rdb redis.UniversalClient, l limiter.Limiter) limiter.Limiter {
			return limiter.Func(func(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
				d, err := l.Check(ctx, key, cost)
				if !d.Allowed {
					err = errors.Join(err, rdb.PExpire(ctx, "ratelimit:{"+key+"}:gcra", 59*time.Second).Err())
				}
				return d, err
			})
		},
		explore.Locked: func(rdb redis.UniversalClient, l limiter.Limiter) limiter.Limiter {
			return limiter.Func(func(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
				d, err := l.Check(ctx, key, cost)
				if d.At.UnixMilli()%60_000 != 30_000 { // any time but that of the schedules
					d.Allowed = false
				}
				return d, err
			})
		},
		explore.Lifetime: func(rdb redis.UniversalClient, l limiter.Limiter) limiter.Limiter {
			return limiter.Func(func(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
				d, err := l.Check(ctx, key, cost)
				if last(d) {
					err = errors.Join(err, rdb.Persist(ctx, "ratelimit:{"+key+"}:gcra").Err())
				}
				return d, err
			})
		},
	} {
		r, err := explore.Run(t.Context(), srv, bad(t, spoil), nil)
		if err != nil || r.Violating == 0 || r.Shown.Violation == nil || r.Shown.Violation.Kind != kind {
			t.Errorf("%s: %v, %+v, %+v", kind, err, r, r.Shown.Violation)
		}
	}
}

// TestATTLThatIsNotTheRulesIsSeen: the key dies when a bucket in which as much is used does, not a refill later, though
// a fuller one lives that long, and no millisecond earlier.
func TestATTLThatIsNotTheRulesIsSeen(t *testing.T) {
	srv := redisdtest.Start(t, redisd.Options{Clock: true})
	for off, want := range map[time.Duration]explore.Kind{
		0: "", 12 * time.Second: explore.Lifetime, time.Millisecond: explore.Lifetime, -time.Millisecond: explore.Lifetime,
	} {
		p := bad(t, func(rdb redis.UniversalClient, l limiter.Limiter) limiter.Limiter {
			return limiter.Func(func(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
				d, err := l.Check(ctx, key, cost)
				if d.Remaining == 3 { // of 5: the second of two clients
					dies := d.At.Add(d.ResetAfter + time.Millisecond - time.Microsecond).Truncate(time.Millisecond)
					err = errors.Join(err, rdb.PExpireAt(ctx, "ratelimit:{"+key+"}:gcra", dies.Add(off)).Err())
				}
				return d, err
			})
		})
		p.Start = explore.Empty
		r, err := explore.Run(t.Context(), srv, p, nil)
		var got explore.Kind
		if v := r.Shown.Violation; v != nil {
			got = v.Kind
		}
		if err != nil || got != want {
			t.Errorf("off by %v: %v, %+v", off, err, r.Shown.Violation)
		}
	}
}

// TestARedisThatAnswersAtRandomIsNotJudged: what a command is answered is remembered, so it must follow from the state.
func TestARedisThatAnswersAtRandomIsNotJudged(t *testing.T) {
	srv := redisdtest.Start(t, redisd.Options{Clock: true})
	p := bad(t, func(rdb redis.UniversalClient, l limiter.Limiter) limiter.Limiter {
		return limiter.Func(func(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
			d, err := l.Check(ctx, key, cost)
			if err == nil && cost > 0 {
				err = errors.Join(rdb.SAdd(ctx, "many", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16).Err(),
					rdb.SRandMemberN(ctx, "many", 16).Err(), rdb.SPop(ctx, "many").Err())
			}
			return d, err
		})
	})
	if _, err := explore.Run(t.Context(), srv, p, nil); !errors.Is(err, explore.ErrNotDeterministic) {
		t.Errorf("%v", err)
	}
}

// TestWhatIsUntoldOrChargedByRuleIsNoFault: a limiter is judged by what it says that it does.
func TestWhatIsUntoldOrChargedByRuleIsNoFault(t *testing.T) {
	srv := redisdtest.Start(t, redisd.Options{Clock: true})
	vague := bad(t, func(_ redis.UniversalClient, l limiter.Limiter) limiter.Limiter {
		return limiter.Func(func(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
			d, err := l.Check(ctx, key, cost)
			d.Remaining, d.RetryAfter, d.ResetAfter = d.Remaining+1, time.Hour, 2*time.Hour
			return d, err
		})
	})
	charging := plan(t, "charging-log", 2)
	for name, c := range map[string]struct {
		explore.Plan
		change func(*model.Rule)
	}{
		"vague":    {vague, func(r *model.Rule) { r.Untold = model.AllFields }},
		"charging": {charging, func(r *model.Rule) { r.Charges = true }},
	} {
		before, err := explore.Run(t.Context(), srv, c.Plan, nil)
		if err == nil && before.Violating == 0 {
			t.Errorf("%s: nothing is wrong", name)
		}
		c.change(&c.Entry.Rule)
		after, err := explore.Run(t.Context(), srv, c.Plan, nil)
		if err != nil || after.Violating != 0 || after.Orders == 0 {
			t.Errorf("%s, as a rule: %v, %d of %d orders violate: %+v", name, err, after.Violating, after.Orders, after.Shown.Violation)
		}
	}
}

// TestAClientThatLooksElsewhereIsNotJudged: what differs from run to run is no finding. Here a limiter asks for
// something else each time that it is made.
func TestAClientThatLooksElsewhereIsNotJudged(t *testing.T) {
	srv := redisdtest.Start(t, redisd.Options{Clock: true})
	made := 0
	p := bad(t, func(rdb redis.UniversalClient, l limiter.Limiter) limiter.Limiter {
		made++
		nth := strconv.Itoa(made)
		return limiter.Func(func(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
			d, err := l.Check(ctx, key, cost)
			return d, errors.Join(err, rdb.Exists(ctx, "other"+nth).Err())
		})
	})
	if _, err := explore.Run(t.Context(), srv, p, nil); !errors.Is(err, explore.ErrNotDeterministic) {
		t.Errorf("%v", err)
	}
}

// TestWhatAClientThatDiesLeavesBehind: naive-expire counts, and is dead before it gives its key a lifetime.
func TestWhatAClientThatDiesLeavesBehind(t *testing.T) {
	srv := redisdtest.Start(t, redisd.Options{Clock: true})
	p := plan(t, "naive-expire", 2)
	p.Start, p.Limit.Events, p.Crash = explore.Empty, 1, true
	r, err := explore.Run(t.Context(), srv, p, nil)
	if err != nil || r.Shown.Violation == nil || r.Shown.Violation.Kind != explore.Lifetime || r.Shown.Order != "aB" {
		t.Fatalf("%v, %+v", err, r.Shown)
	}
	if len(r.Found) != 1 || r.Found[0].Kind != explore.Lifetime || r.Found[0].Order != "aB" {
		t.Errorf("found %+v", r.Found)
	}
	again, err := explore.Replay(t.Context(), srv, p, "aB")
	if err != nil || again.Violating != 1 || again.Shown.Order != "aB" || len(again.Shown.Steps) != 2 || !again.Shown.Steps[0].Died {
		t.Errorf("%v, %+v", err, again.Shown)
	}
	for _, order := range []string{"aBb", "C", "AAAA", "a!"} {
		if r, err := explore.Replay(t.Context(), srv, p, order); err == nil {
			t.Errorf("%q was run as %s", order, r.Shown.Order)
		}
	}
}

// TestClientsThatShareWhatRedisDoesNotHoldAreNotJudged: what a client does alone after the same replies is not what it does
// among the others, which whole schedules of live clients show.
func TestClientsThatShareWhatRedisDoesNotHoldAreNotJudged(t *testing.T) {
	srv := redisdtest.Start(t, redisd.Options{Clock: true})
	refusals := 0
	p := bad(t, func(_ redis.UniversalClient, l limiter.Limiter) limiter.Limiter {
		return limiter.Func(func(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
			d, err := l.Check(ctx, key, cost)
			if err == nil && !d.Allowed {
				refusals++
			}
			if refusals > 1 { // the first is in the search
				d.Remaining++
			}
			return d, err
		})
	})
	if r, err := explore.Run(t.Context(), srv, p, nil); !errors.Is(err, explore.ErrNotDeterministic) {
		t.Errorf("%v, %d of %d orders broken", err, r.Violating, r.Orders)
	}
}

// TestClocksThatDiffer: each client ahead by the time that one event takes to refill finds one refilled.
func TestClocksThatDiffer(t *testing.T) {
	srv := redisdtest.Start(t, redisd.Options{Clock: true})
	for _, c := range []struct {
		limiter string
		skew    bool
		over    bool
	}{{"skewed-bucket", false, false}, {"skewed-bucket", true, true}, {"token-bucket", true, false}} {
		p := plan(t, c.limiter, 2)
		p.Skew = c.skew
		r, err := explore.Run(t.Context(), srv, p, nil)
		if err != nil || (r.Violating > 0) != c.over {
			t.Errorf("%s, skew %v: %v, %d of %d over", c.limiter, c.skew, err, r.Violating, r.Orders)
		}
	}
}

func TestErrorsOfTheLimiterAreNotVerdicts(t *testing.T) {
	srv := redisdtest.Start(t, redisd.Options{Clock: true})
	broken := errors.New("no answer")
	calls := 0
	p := bad(t, func(_ redis.UniversalClient, l limiter.Limiter) limiter.Limiter {
		return limiter.Func(func(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
			if calls++; calls > 8 {
				return limiter.Decision{}, broken
			}
			return l.Check(ctx, key, cost)
		})
	})
	if _, err := explore.Run(t.Context(), srv, p, nil); !errors.Is(err, broken) || !errors.Is(err, explore.ErrFailed) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := explore.Run(ctx, srv, plan(t, "naive-log", 3), func(orders int64) {
		if orders == 3 {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
