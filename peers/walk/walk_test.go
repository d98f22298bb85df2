package walk_test

import (
	"testing"
	"time"

	"github.com/rlctl/rlctl/peers/rivals"
	"github.com/rlctl/rlctl/peers/walk"
	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
)

// TestWalk says of ours that nothing is off, so that what is off of others is theirs; and of others what is so in every
// walk.
func TestWalk(t *testing.T) {
	all, err := target.Extend(target.Catalogue(), rivals.Entries()...)
	if err != nil {
		t.Fatal(err)
	}
	exact := func(w experiment.PeerWalk) bool {
		off := w.Generous + w.Strict + w.WrongRemaining + w.TooShort + w.TooLong + w.Immortal + w.DiesEarlyUS + w.DiesLateUS
		return off == 0 && w.NeverTold && w.Moves == 500 && w.Waits > 0 && w.Lifetimes > 0
	}
	for name, holds := range map[string]func(experiment.PeerWalk) bool{
		"gcra": exact, "token-bucket": exact, "fixed-window": exact, "sliding-counter": exact, "sliding-log": exact, "compact-log": exact,
		// Its floating point is off by a microsecond at most, and it keeps keys for whole seconds.
		"redis_rate": func(w experiment.PeerWalk) bool {
			return w.Generous == 0 && w.StrictestUS <= 1 && w.ShortestUS <= 1 && w.LongestUS <= 1 && !w.NeverTold &&
				w.DiesEarlyUS == 0 && w.DiesLateUS > 500_000 && w.DiesLateUS <= 1_001_000
		},
		// Its keys live for whole seconds, rounded down.
		"throttled": func(w experiment.PeerWalk) bool {
			return w.Strict == 0 && w.TooShort == 0 && w.NeverTold && w.DiesEarlyUS > 500_000 && w.Immortal == 0
		},
		// It tells the second in which its window ends, cut off.
		"ulule": func(w experiment.PeerWalk) bool {
			return w.Generous+w.Strict+w.WrongRemaining == 0 && w.Waits > 0 && w.TooShort == w.Waits && w.TooLong == 0 && !w.NeverTold &&
				w.Immortal == 0 && w.DiesEarlyUS == 0 && w.DiesLateUS == 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redisdtest.Start(t, redisd.Options{Clock: true})
			e, err := target.Find(all, name)
			if err != nil {
				t.Fatal(err)
			}
			var w experiment.PeerWalk
			plan := walk.Plan{Entry: e, Limit: limiter.Limit{Events: 7, Window: 10 * time.Second}, Lives: 10, Moves: 50, Seed: 7}
			if err := walk.Run(t.Context(), srv, plan, &w); err != nil {
				t.Fatal(err)
			}
			if !holds(w) {
				t.Errorf("%+v", w)
			}
		})
	}
}
