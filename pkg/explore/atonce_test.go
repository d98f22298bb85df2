package explore

import (
	"testing"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// TestAtOnce: only calls that were admitted before any of them began to be given back held at once for certain.
func TestAtOnce(t *testing.T) {
	in, out := limiter.Decision{Allowed: true}, limiter.Decision{}
	// A and B acquire (calls 0 and 2) and give back (1 and 3); before holds a bit for each call that had ended.
	calls := func(a, b limiter.Decision, before1, before2, before3 uint, releases bool) []Call {
		all := []Call{
			{Client: 0, First: 0, Last: 1, Decision: a},
			{Client: 0, Release: true, First: 2, Last: 2, Decision: in, before: before1},
			{Client: 1, First: 0, Last: 3, Decision: b, before: before2},
			{Client: 1, Release: true, First: 4, Last: 4, Decision: in, before: before3},
		}
		if !releases {
			all[1].First, all[1].Last, all[3].First, all[3].Last = -1, -1, -1, -1
		}
		return all
	}
	for _, c := range []struct {
		what  string
		calls []Call
		most  int64
		last  int
	}{
		{"nobody admitted", calls(out, out, 0, 0, 0, false), 0, -1},
		{"one admitted", calls(in, out, 0, 0, 0, false), 1, 0},
		{"nobody gives back", calls(in, in, 0, 0, 0, false), 2, 2},
		{"A gave back before B was told", calls(in, in, 1, 1, 0b111, true), 1, 0},
		{"B was told before A gave back", calls(in, in, 0b101, 0, 0b101, true), 2, 2},
	} {
		if most, last := atOnce(c.calls); most != c.most || last != c.last {
			t.Errorf("%s: %d at once, the last was call %d, want %d and %d", c.what, most, last, c.most, c.last)
		}
	}
}
