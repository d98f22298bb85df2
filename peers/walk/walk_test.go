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

func TestX(t *testing.T) {
	srv := redisdtest.Start(t, redisd.Options{Clock: true})
	all, err := target.Extend(target.Catalogue(), rivals.Entries()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gcra", "sliding-log", "fixed-window", "sliding-counter", "redis_rate", "throttled", "ulule"} {
		e, _ := target.Find(all, name)
		for _, l := range []limiter.Limit{{Events: 10, Window: 10 * time.Second}, {Events: 7, Window: time.Minute}, {Events: 100, Window: 1500 * time.Millisecond}} {
			var w experiment.PeerWalk
			start := time.Now()
			err := walk.Run(t.Context(), srv, walk.Plan{Entry: e, Limit: l, Lives: 20, Moves: 50, Seed: 1}, &w)
			t.Logf("%s %v %v: %+v %v", name, l, time.Since(start), w, err)
		}
	}
}
