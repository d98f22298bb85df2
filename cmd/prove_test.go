package cmd_test

import "testing"

// provedJSON is all of a result of prove that must be the same at each run.
type provedJSON struct {
	Results []struct {
		Limiter, Start, Verdict                     string
		Skew, Expected                              bool
		Orders, States, Crashes, Violating, Retries int64
		First                                       shownJSON
	}
	Verdict string
}

type shownJSON struct{ Schedule, Order, Kind string }

// TestProveTwiceCountsTheSame: all orders of the whole catalogue are found again, and each schedule that is shown can be
// run by its id.
func TestProveTwiceCountsTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("one client runs at a time: there is nothing for the race detector to see")
	}
	t.Parallel()
	first, again := proved(t, "--clients", "2"), proved(t, "--clients", "2")
	if len(first.Results) < 30 || len(again.Results) != len(first.Results) || first.Verdict != "held" {
		t.Fatalf("%s of %d rows, then of %d", first.Verdict, len(first.Results), len(again.Results))
	}
	for i, row := range first.Results {
		if row != again.Results[i] || !row.Expected {
			t.Errorf("%+v\nthen %+v", row, again.Results[i])
		}
		one := proved(t, "--schedule", row.First.Schedule)
		if len(one.Results) != 1 || one.Results[0].First != row.First || one.Results[0].Verdict != row.Verdict {
			t.Errorf("%s, %s, run again: %+v", row.First.Schedule, row.First.Kind, one.Results)
		}
	}
}

func proved(t *testing.T, args ...string) provedJSON {
	c, stdout, stderr := withOutput(t, append([]string{"prove", "--format", "json"}, args...)...)
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, stderr)
	}
	return parse[provedJSON](t, stdout.Bytes())
}
