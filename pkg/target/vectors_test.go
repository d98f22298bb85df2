package target_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// Decision vectors say what each limiter answers, for clients in any language: testdata/vectors holds a file a limiter,
// described there. The models write them; here they, and the scripts through the Go client, must agree with what is
// written, and in lua/spec the Lua client.

const vectorsFolder = "../../testdata/vectors"

// vector is what happens to one fresh key, in order.
type vector struct {
	Name  string       `json:"name"`
	Steps []vectorStep `json:"steps"`
}

// vectorStep is one request at a time of the server's clock, and the five integers of its reply: allowed, remaining,
// retry_us, reset_us, now_us.
type vectorStep struct {
	At     int64    `json:"at_us"`
	Limit  int64    `json:"limit"`
	Window int64    `json:"window_us"`
	Burst  int64    `json:"burst"`
	Cost   int64    `json:"cost"`
	ID     string   `json:"id"`
	Want   [5]int64 `json:"want"`
}

func (s vectorStep) move(now time.Time) move {
	l := limiter.Limit{Events: s.Limit, Window: time.Duration(s.Window) * µs, Burst: s.Burst}
	return move{Step: time.UnixMicro(s.At).Sub(now), Limit: l, Cost: s.Cost, ID: s.ID}
}

func integers(d limiter.Decision) [5]int64 {
	out := [5]int64{0, d.Remaining, int64(d.RetryAfter / µs), int64(d.ResetAfter / µs), d.At.UnixMicro()}
	if d.Allowed {
		out[0] = 1
	}
	if d.RetryAfter == limiter.Never {
		out[2] = -1
	}
	return out
}

func TestVectors(t *testing.T) {
	if *update {
		for _, e := range atomics() {
			writeVectors(t, e)
		}
	}
	s := newStage(t)
	for _, e := range atomics() {
		for _, v := range readVectors(t, e.Name) {
			w := newWalker(s, e)
			w.client = "vector " + v.Name
			if err := w.follow(v); err != nil {
				t.Errorf("%s, %s: %v", e.Name, v.Name, err)
			}
		}
	}
}

// follow asks model and script what the vector asks, and tells the first difference.
func (w *walker) follow(v vector) error {
	w.state = w.entry.Rule.Fresh
	for i, step := range v.Steps {
		m := step.move(w.now)
		w.pass(m.Step)
		var told limiter.Decision
		w.state, told = w.state.Check(w.now, model.Request{Limit: m.Limit, Cost: m.Cost, ID: m.ID})
		got, err := w.ask(w.client, m)
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if integers(told) != step.Want || integers(got) != step.Want {
			return fmt.Errorf("step %d: %+v:\nscript %v\nmodel  %v", i+1, step, integers(got), integers(told))
		}
	}
	return nil
}

func readVectors(t *testing.T, name string) []vector {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(vectorsFolder, name+".json"))
	if err != nil {
		t.Fatalf("%v\nto write it: go test ./pkg/target -run Vectors -update", err)
	}
	var file struct {
		Limiter string   `json:"limiter"`
		Vectors []vector `json:"vectors"`
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&file); err != nil || file.Limiter != name {
		t.Fatalf("%s.json is of %q: %v", name, file.Limiter, err)
	}
	return file.Vectors
}

// TestVectorsSayMuch makes sure that each limiter has vectors in which all that can happen does.
func TestVectorsSayMuch(t *testing.T) {
	for _, e := range atomics() {
		seen := map[string]int{}
		for _, v := range readVectors(t, e.Name) {
			for i, s := range v.Steps {
				seen["steps"]++
				for what, so := range map[string]bool{
					"allowed": s.Want[0] == 1 && s.Cost > 0, "denied": s.Want[2] > 0, "never": s.Want[2] < 0,
					"peeked": s.Cost == 0, "at the same time": i > 0 && s.At == v.Steps[i-1].At,
					"back in time": i > 0 && s.At < v.Steps[i-1].At, "limit changed": i > 0 && s.Limit != v.Steps[i-1].Limit,
					"window changed": i > 0 && s.Window != v.Steps[i-1].Window,
				} {
					if so {
						seen[what]++
					}
				}
			}
		}
		for _, what := range []string{"allowed", "denied", "never", "peeked", "at the same time", "back in time", "limit changed", "window changed"} {
			if seen[what] < 5 {
				t.Errorf("%s: of %d steps %d are %q", e.Name, seen["steps"], seen[what], what)
			}
		}
	}
}
