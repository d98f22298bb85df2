package cmd_test

import (
	"strconv"
	"testing"
)

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
	t.Parallel()
	for clients := 3; clients <= 4; clients++ {
		if clients == 4 && testing.Short() {
			continue
		}
		first, again := proved(t, "--clients", strconv.Itoa(clients)), proved(t, "--clients", strconv.Itoa(clients))
		if len(first.Results) < 30 || len(again.Results) != len(first.Results) || first.Verdict != "held" {
			t.Fatalf("%d clients: %s of %d rows, then of %d", clients, first.Verdict, len(first.Results), len(again.Results))
		}
		for i, row := range first.Results {
			if row != again.Results[i] || !row.Expected {
				t.Errorf("%d clients: %+v\nthen %+v", clients, row, again.Results[i])
			}
			if clients == 4 {
				continue
			}
			one := proved(t, "--schedule", row.First.Schedule)
			if len(one.Results) != 1 || one.Results[0].First != row.First || one.Results[0].Verdict != row.Verdict {
				t.Errorf("%s, %s, run again: %+v", row.First.Schedule, row.First.Kind, one.Results)
			}
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
