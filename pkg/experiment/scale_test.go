package experiment

import (
	"slices"
	"testing"
)

// A limiter has a row for each limit at which its clients take another room, and one for those at which they do not.
func TestLimitsThatTakeTheSameShareARow(t *testing.T) {
	t.Parallel()
	row := func(limiter string, limit int64, bytes float64) MemRow {
		return MemRow{Limiter: limiter, Limit: limit, Keys: 10_000, NamesPerKey: 1, BytesPerKey: bytes, BytesPerKeyDelta: &bytes}
	}
	r := MemResult{Results: []MemRow{
		row("sliding-log", 100, 3_200), row("sliding-log", 1_000, 130_000), row("gcra", 10, 90), row("gcra", 100, 160),
		row("gcra", 1_000, 160), row("fixed-window", 100, 160), row("fixed-window", 1_000, 160), row("naive-log", 100, 160),
	}}
	var got []string
	for _, line := range r.scaled().Rows {
		got = append(got, line[0].Text+" "+line[1].Text)
	}
	want := []string{"sliding-log 100", "sliding-log 1,000", "gcra 100 or 1,000", "fixed-window 100 or 1,000"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
