package target_test

import (
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/outside"
	"github.com/rlctl/rlctl/pkg/target"
)

// A service is given a tick of its clock, and no capacity for it.
func TestServicesAreJudgedByACoarseClock(t *testing.T) {
	t.Parallel()
	l := limiter.Limit{Events: 100, Window: time.Second}
	from := time.UnixMicro(1_700_000_000_000_000)
	for name, c := range map[string]struct {
		most  int64 // in the first half of a second
		state string
	}{
		"http://127.0.0.1/{key}": {151, target.NoState},
		"exec:worker":            {150, "its own"},
	} {
		e, err := target.Open(target.Catalogue(), name, outside.Terms{As: "gcra"})
		if err != nil {
			t.Fatal(err)
		}
		judged := e.Judged()
		if got := judged.Most(l, from, from.Add(time.Second/2)); got != c.most {
			t.Errorf("%s: admits %d in half a second, want %d", name, got, c.most)
		}
		if got := judged.Capacity(l); got != 100 || e.State != c.state {
			t.Errorf("%s: capacity %d, state %q", name, got, e.State)
		}
	}
}
