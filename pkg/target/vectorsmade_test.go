package target_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/target"
)

// scribe writes down what a model answers. It moves a walker that has no server.
type scribe struct {
	*walker
	vectors []vector
}

// begin goes on with a fresh key.
func (s *scribe) begin(name string) {
	s.vectors = append(s.vectors, vector{Name: name})
	s.now, s.state, s.last = start, s.entry.Rule.Fresh, limiter.Decision{}
}

func (s *scribe) take(m move) {
	s.now = s.now.Add(m.Step)
	s.state, s.last = s.state.Check(s.now, model.Request{Limit: m.Limit, Cost: m.Cost, ID: m.ID})
	v := &s.vectors[len(s.vectors)-1]
	v.Steps = append(v.Steps, vectorStep{
		s.now.UnixMicro(), m.Limit.Events, m.Limit.Window.Microseconds(), m.Limit.Burst, m.Cost, m.ID, integers(s.last),
	})
}

// ask takes each cost in turn under ids of their own, the first of them after the step.
func (s *scribe) ask(l limiter.Limit, step time.Duration, costs ...int64) {
	for _, cost := range costs {
		s.take(move{Step: step, Limit: l, Cost: cost, ID: fmt.Sprint("id", len(s.vectors[len(s.vectors)-1].Steps))})
		step = 0
	}
}

// writeVectors makes the vectors of one limiter: what its rule says at each kind of edge, and lives led at random.
func writeVectors(t *testing.T, e target.Entry) {
	t.Helper()
	s := &scribe{walker: newWalker(&stage{TB: t}, e)}
	s.edges()
	s.changes()
	for seed := range uint64(6) {
		g := &guide{rand.New(rand.NewPCG(seed, 0)), e}
		s.begin(fmt.Sprintf("random %d", seed+1))
		l := g.limit()
		for n := range 50 {
			if g.IntN(12) == 0 {
				l = g.change(l)
			}
			s.take(g.move(s.walker, l, n))
		}
	}
	if err := os.WriteFile(filepath.Join(vectorsFolder, e.Name+".json"), s.text(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// text is the file, a step a line, so that a change shows where it is.
func (s *scribe) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"limiter\": %q, \"vectors\": [", s.entry.Name)
	between := func(i int) string { return ","[:min(i, 1)] + "\n" }
	for i, v := range s.vectors {
		fmt.Fprintf(&b, "%s{\"name\": %q, \"steps\": [", between(i), v.Name)
		for j, step := range v.Steps {
			line, err := json.Marshal(step)
			if err != nil {
				s.Fatal(err)
			}
			fmt.Fprintf(&b, "%s%s", between(j), line)
		}
		b.WriteString("\n]}")
	}
	b.WriteString("\n]}\n")
	return b.Bytes()
}

// edges are requests around the limit and around the times at which something is forgotten.
func (s *scribe) edges() {
	l := limiter.Limit{Events: 3, Window: 10 * time.Second}
	s.begin("exactly the limit")
	s.ask(l, 0, 1, 1, 1, 1, 0)
	for _, d := range []time.Duration{l.Window - µs, l.Window, l.Window + µs} {
		s.begin(fmt.Sprintf("%v after a full limit", d))
		s.ask(l, 0, 3, 1)
		s.ask(l, d, 1, 1, 2, 3)
	}
	s.begin("before and at the edge of the aligned window")
	edge := start.Truncate(l.Window).Add(l.Window).Sub(start)
	s.ask(l, edge-µs, 3, 1)
	s.ask(l, µs, 1, 3)
	s.ask(l, l.Window-µs, 1)
	s.ask(l, µs, 1, 2)
	s.begin("asked again when told, and before")
	s.ask(l, 0, 2, 1, 2)
	for _, early := range []time.Duration{µs, 0} {
		s.ask(l, s.last.RetryAfter-early, 2)
	}
	s.begin("one takes leave after the other")
	for range 12 {
		s.ask(l, l.Window/4, 1)
	}
	for _, w := range []time.Duration{1, 400, 500, 999, 1500} {
		s.begin(fmt.Sprintf("a window of %d ms", w))
		short := limiter.Limit{Events: 2, Window: w * time.Millisecond}
		s.ask(short, 0, 1, 1, 1)
		s.ask(short, short.Window-µs, 1)
		s.ask(short, µs, 1)
	}
	s.begin("many at the same µs")
	s.ask(limiter.Limit{Events: 20, Window: time.Minute}, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	s.begin("costs")
	s.ask(limiter.Limit{Events: 10, Window: time.Minute}, 0, 0, 11, limiter.MaxCost, 10, 0, 1, 10, 11)
	s.begin("an id twice")
	for _, id := range []string{"a", "a", "b", "a", "b"} {
		s.take(move{Step: l.Window / 5, Limit: l, Cost: 1, ID: id})
	}
}

// changes are clocks that step and limits that change.
func (s *scribe) changes() {
	l := limiter.Limit{Events: 3, Window: 10 * time.Second}
	for _, d := range []time.Duration{-µs, -10 * time.Second, -time.Hour, time.Hour} {
		s.begin(fmt.Sprintf("the clock steps by %v", d))
		s.ask(l, 0, 2)
		s.ask(l, d, 0, 2, 1, 1)
		s.ask(l, s.last.RetryAfter, 1)
		s.ask(l, s.last.ResetAfter, 3)
	}
	for _, next := range []limiter.Limit{
		{Events: 0, Window: l.Window}, {Events: 2, Window: l.Window}, {Events: 30, Window: l.Window},
		{Events: 3, Window: 3_333_333 * µs}, {Events: 3, Window: 3 * l.Window}, {Events: 3, Window: l.Window, Burst: 7},
		{Events: 7, Window: time.Minute, Burst: 2},
	} {
		s.begin(fmt.Sprintf("from 3 per 10s to %d per %v, burst %d", next.Events, next.Window, next.Burst))
		s.ask(l, 0, 2)
		s.ask(next, time.Second, 0, 1, 1, 1)
		s.ask(l, time.Second, 0, 1, 1)
	}
}
