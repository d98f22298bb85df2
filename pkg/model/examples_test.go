package model_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// epoch is a multiple of every window of the examples, in µs.
const epoch = 1_000_000_000

// The examples are worked out by hand. A line is one request to one key:
//
//	µs limit/window/burst cost id : allowed remaining retry reset
const logExamples = `
	 0 3/10/0 1 a : 1 2  0 10
	 4 3/10/0 2 b : 1 0  0 10
	 9 3/10/0 1 c : 0 0  1  5    one leaves the window at 10
	10 3/10/0 1 c : 1 0  0 10    and counts no more at 10 exactly
	10 3/10/0 4 d : 0 0 -1 10
	13 3/10/0 2 d : 0 0  1  7
	14 3/10/0 2 d : 1 0  0 10
	 2 3/10/0 0 e : 1 0  0 10    the clock steps back 12: the log stays at 14
	 2 3/10/0 1 e : 0 0  6 10
	 8 3/10/0 1 e : 1 0  0 10
	 9 2/10/0 1 f : 0 0  3  9    a lower limit: two of three must leave
	 9 4/30/0 0 f : 1 1  0 29    a longer window counts what is still held
	 9 0/10/0 0 f : 1 0  0  0
	 9 0/10/0 1 f : 0 0 -1  0
`

const idExamples = `
	 0 3/10/0 2 a : 1 1  0 10
	 5 3/10/0 1 a : 1 1  0  5    seen, not charged
	 5 3/10/0 9 a : 1 1  0  5    whatever its cost
	 9 3/10/0 2 b : 0 1  1  1
	 9 3/10/0 2 b : 0 1  1  1    a denied id is not seen
	10 3/10/0 1 a : 1 2  0 10    seen so long ago that it is new
	11 3/20/0 3 b : 0 2 19 19    and what had left was trimmed
`

const counterExamples = `
	 0 4/10/0 3 a : 1 1  0 20
	 5 4/10/0 2 b : 0 1  9 15
	13 4/10/0 2 b : 0 1  1  7
	14 4/10/0 2 b : 1 0  0 16
	19 4/10/0 0 c : 1 1  0 11
	20 4/10/0 1 c : 1 1  0 20
	 9 4/10/0 1 d : 1 0  0 11    the clock steps back a window: all move into this one
	19 4/10/0 5 e : 0 3 -1  1
	35 4/10/0 4 e : 1 0  0 15    two windows on
	35 3/10/0 1 f : 0 0 10 15    a lower limit
	29 3/10/0 1 f : 0 0  5 11    which caps what the clock's next step back moves
	29 4/10/0 0 f : 1 1  0 11
`

const windowExamples = `
	 2 3/10/0 2 a : 1 1  0  8
	 9 3/10/0 2 b : 0 1  1  1
	10 3/10/0 2 b : 1 1  0 10
	10 3/10/0 4 c : 0 1 -1 10
	 5 3/10/0 2 c : 0 1  5  5    the clock steps back a window: the count moves along
	 5 3/10/0 1 c : 1 0  0  5
	 5 2/10/0 0 d : 1 0  0  5    a lower limit
	 5 3/4/0  1 d : 0 0  3  3    another window, which holds the last admission
	 8 3/4/0  1 d : 1 2  0  4
	10 3/4/0  0 e : 1 2  0  2
	12 3/4/0  0 e : 1 3  0  0
	20 3/10/0 3 f : 1 0  0 10
	15 2/10/0 1 g : 0 0  5  5    a lower limit caps what a step back moves
	15 3/10/0 0 g : 1 1  0  5
`

const bucketExamples = `
	 0 3/10/5 5 a : 1 0  0 17
	 1 3/10/5 1 b : 0 0  3 16
	 1 3/10/5 6 b : 0 0 -1 16
	 4 3/10/5 1 b : 1 0  0 16
	 2 3/10/5 1 c : 0 0  4 17    the clock steps back 2: empty
	 6 3/10/5 1 c : 1 0  0 16
`

const tokenExamples = bucketExamples + `
	 6 3/10/2 1 d : 0 0  4  7    a lower burst caps what is used
	 6 3/10/5 0 d : 1 0  0 16    and a denial writes no cap
	 6 3/7/5  0 d : 1 0  0 12    a shorter window: 4 + 8/10 become 4 + 6/7
	 9 10/10/5 1 d : 1 2 0  3    a higher rate refills all the time since the last write
`

const gcraExamples = bucketExamples + `
	 6 6/10/5 0 d : 1 0  0  9    a higher limit: time counts, one new refill at most
	 6 6/10/5 1 d : 0 0  2  9    and a denial writes that cap
	 6 3/10/5 0 d : 1 2  0  9    8 + 2/6 µs to wait are 8 + 1/3
	 6 2/10/5 0 d : 1 3  0  9    and 8 + 1/2, rounded up
`

func TestExamples(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name  string
		rule  model.Rule
		lines string
	}{
		{"sliding-log", model.SlidingLog(), logExamples},
		{"sliding-log ids", model.SlidingLog(), idExamples},
		{"compact-log", model.CompactLog(), logExamples},
		{"sliding-counter", model.SlidingCounter(), counterExamples},
		{"fixed-window", model.FixedWindow(), windowExamples},
		{"token-bucket", model.TokenBucket(), tokenExamples},
		{"gcra", model.GCRA(), gcraExamples},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			s := x.rule.Fresh
			for line := range strings.SplitSeq(strings.TrimSpace(x.lines), "\n") {
				if line == "" {
					continue
				}
				at, r, want := parseExample(t, line)
				var got limiter.Decision
				if s, got = s.Check(at, r); got != want {
					t.Fatalf("%s\ngot  %+v\nwant %+v", line, got, want)
				}
			}
		})
	}
}

func parseExample(t *testing.T, line string) (time.Time, model.Request, limiter.Decision) {
	t.Helper()
	var micro, window, allowed, retry, reset int64
	var r model.Request
	var d limiter.Decision
	_, err := fmt.Sscanf(line, "%d %d/%d/%d %d %s : %d %d %d %d", &micro, &r.Limit.Events, &window, &r.Limit.Burst,
		&r.Cost, &r.ID, &allowed, &d.Remaining, &retry, &reset)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	r.Limit.Window = time.Duration(window) * µs
	d.Allowed = allowed == 1
	d.RetryAfter, d.ResetAfter = time.Duration(retry)*µs, time.Duration(reset)*µs
	if retry < 0 {
		d.RetryAfter = limiter.Never
	}
	d.At = at(epoch + micro)
	return d.At, r, d
}
