package experiment

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"

	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
)

// Two benches are compared figure by figure, each with the ratio of its two medians. The interval of the ratio goes from
// the most that both medians' 95 % intervals allow in one direction to the most in the other. That is wider than need
// be, on purpose: at six rounds an interval that leaves 1 out wants all rounds of one bench past all of the other's,
// which chance does to one row in 924 each way, and a comparison of the whole catalogue has a hundred rows. Fewer
// rounds than six have no interval, and are inconclusive.

// Compare is the plan of a comparison.
type Compare struct {
	Figures  []string // by their JSON names; none means DefaultFigures
	FailOver *float64 // how much worse the new bench may be, as a share: 0.05 is 5 %; nil does not judge
}

// DefaultFigures are compared where none is named.
func DefaultFigures() []string { return []string{"ops_per_sec", "p50_us", "p99_us", "script_us"} }

// ComparisonSchema names the form of a Comparison.
const ComparisonSchema = "rlctl.comparison/v1"

// Comparison is what became of an old bench's figures in a new one.
type Comparison struct {
	Schema      string         `json:"schema"` // rlctl.comparison/v1
	Old         Provenance     `json:"old"`
	New         Provenance     `json:"new"`
	FailOver    *float64       `json:"fail_over"`
	Differences []string       `json:"differences"` // of machine, server and load: what else may be the reason
	Missing     []string       `json:"missing"`     // what only one of the two has
	Results     []ComparedRow  `json:"results"`
	Verdict     replay.Verdict `json:"verdict"`
}

// ComparedRow is one figure of one row.
type ComparedRow struct {
	BenchLoad
	Figure string   `json:"figure"`
	Old    float64  `json:"old"` // medians
	New    float64  `json:"new"`
	Ratio  *float64 `json:"ratio"` // new by old; null where old is 0
	Low    *float64 `json:"low"`   // of the ratio's interval; null where there is none
	High   *float64 `json:"high"`
	Change Change   `json:"change"`
	// Verdict is held unless the whole interval is past what is allowed, which is broken, or only a part of it.
	Verdict replay.Verdict `json:"verdict"`
	Reason  string         `json:"reason"` // why it is inconclusive; else empty
}

// BenchLoad tells the rows of a bench apart.
type BenchLoad struct {
	Limiter  string  `json:"limiter"`
	Path     string  `json:"path"`
	Clients  int     `json:"clients"`
	Procs    int     `json:"procs"`
	Pipeline int     `json:"pipeline"`
	Rate     float64 `json:"rate"`
}

func (r BenchRow) load() BenchLoad {
	return BenchLoad{r.Limiter, r.Path, r.Clients, r.Procs, r.Pipeline, r.Rate}
}

func (l BenchLoad) String() string {
	return fmt.Sprintf("%s, %s, %d clients, %d processes, pipeline %d, rate %g", l.Limiter, l.Path, l.Clients, l.Procs, l.Pipeline, l.Rate)
}

// Change is what an interval says of a figure.
type Change string

// The changes.
const (
	Better Change = "better"
	Worse  Change = "worse"
	Same   Change = "~" // the rounds do not tell them apart
	Unsure Change = "inconclusive"
)

// Validate returns an error that begins with the flag at fault, if one is.
func (p Compare) Validate() error {
	for _, name := range p.Figures {
		if _, ok := directions()[name]; !ok {
			return fmt.Errorf("--figure: want any of %s, got %q", strings.Join(slices.Sorted(maps.Keys(directions())), ", "), name)
		}
	}
	return nil
}

// Run compares. An error is one of the plan.
func (p Compare) Run(before, after *BenchResult) (*Comparison, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if len(p.Figures) == 0 {
		p.Figures = DefaultFigures()
	}
	c := &Comparison{
		Schema: ComparisonSchema, Old: before.Env, New: after.Env, FailOver: p.FailOver,
		Differences: differences(before, after), Missing: []string{}, Results: []ComparedRow{},
	}
	lost := c.compare(p, before, after)
	c.Verdict = c.verdict()
	if lost && p.FailOver != nil && c.Verdict == replay.Held {
		c.Verdict = replay.Inconclusive // a figure that is gone passes no gate
	}
	return c, nil
}

// compare goes through all that both have, and tells whether the new bench lacks something.
func (c *Comparison) compare(p Compare, before, after *BenchResult) (lost bool) {
	fresh := map[BenchLoad]BenchRow{}
	for _, row := range after.Results {
		fresh[row.load()] = row
	}
	for _, old := range before.Results {
		row, ok := fresh[old.load()]
		delete(fresh, old.load())
		if !ok {
			lost = true
			c.Missing = append(c.Missing, fmt.Sprintf("only in OLD: %s", old.load()))
			continue
		}
		for _, figure := range p.Figures {
			lost = c.figure(p, figure, old, row) || lost
		}
	}
	for _, row := range after.Results {
		if _, ok := fresh[row.load()]; ok {
			c.Missing = append(c.Missing, fmt.Sprintf("only in NEW: %s", row.load()))
		}
	}
	return lost
}

// figure compares one figure of a row, and tells whether only the old bench has it.
func (c *Comparison) figure(p Compare, name string, old, fresh BenchRow) (lost bool) {
	a, b := old.samples(name), fresh.samples(name)
	switch {
	case len(a) == 0 && len(b) == 0:
		return false
	case len(a) == 0 || len(b) == 0:
		side := "OLD"
		if len(a) == 0 {
			side = "NEW"
		}
		c.Missing = append(c.Missing, fmt.Sprintf("only in %s: %s of %s", side, name, old.load()))
		return len(b) == 0
	}
	row := ComparedRow{BenchLoad: old.load(), Figure: name}
	row.compare(a, b, directions()[name])
	row.judge(p.FailOver, directions()[name])
	c.Results = append(c.Results, row)
	return false
}

// compare finds the ratio, its interval and what that says.
func (row *ComparedRow) compare(before, after []float64, better direction) {
	a, b := median(before), median(after)
	row.Old, row.New, row.Change = a.Center, b.Center, Unsure
	if a.Center > 0 {
		row.Ratio = new(b.Center / a.Center)
	}
	switch {
	case unbounded(a) || unbounded(b):
		row.Reason = fmt.Sprintf("%d and %d rounds have no interval, 6 have", len(before), len(after))
		return
	case a.Lo == a.Hi && b.Lo == b.Hi && a.Lo == b.Lo:
		row.Ratio, row.Low, row.High = new(1.0), new(1.0), new(1.0) // the same to the last digit, be it 0
	case a.Lo <= 0:
		row.Reason = "0 has no ratio"
		return
	default:
		row.Low, row.High = new(b.Lo/a.Hi), new(b.Hi/a.Lo)
	}
	row.Change = change(*row.Low, *row.High, better)
}

func change(low, high float64, better direction) Change {
	switch {
	case low <= 1 && high >= 1:
		return Same
	case high < 1 && better == lower, low > 1 && better == higher:
		return Better
	}
	return Worse
}

// judge holds the row against what is allowed.
func (row *ComparedRow) judge(allowed *float64, better direction) {
	switch {
	case row.Change == Unsure:
		row.Verdict = replay.Inconclusive
		return
	case allowed == nil:
		row.Verdict = replay.Held
		return
	}
	best, worst := *row.Low-1, *row.High-1 // how much worse it is, at the least and at the most
	if better == higher {
		best, worst = 1-*row.High, 1-*row.Low
	}
	switch {
	case best > *allowed:
		row.Verdict = replay.Broken
	case worst > *allowed:
		row.Verdict, row.Reason = replay.Inconclusive, fmt.Sprintf("may be past %s", inPercent(*allowed))
	default:
		row.Verdict = replay.Held
	}
}

// verdict is broken if any row is, inconclusive if one is or if there is none.
func (c *Comparison) verdict() replay.Verdict {
	verdict := replay.Held
	for _, row := range c.Results {
		switch row.Verdict {
		case replay.Broken:
			return replay.Broken
		case replay.Inconclusive:
			verdict = replay.Inconclusive
		}
	}
	if len(c.Results) == 0 {
		return replay.Inconclusive
	}
	return verdict
}

func median(values []float64) benchmath.Summary {
	return benchmath.AssumeNothing.Summary(sample(values), confidence)
}

// unbounded tells whether there were too few rounds to bound the median on both sides.
func unbounded(s benchmath.Summary) bool { return math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0) }

// direction says which way a figure gets better.
type direction int

const (
	lower direction = iota
	higher
)

// directions are of all that a round measures but shares of cores, of which neither more nor less is better.
func directions() map[string]direction {
	all := map[string]direction{}
	for name := range new(BenchFigures).fields() {
		if !strings.HasSuffix(name, "_share") {
			all[name] = lower
		}
	}
	all["ops_per_sec"] = higher
	return all
}

// samples are the rounds' values of a figure, without those that did not measure it.
func (r BenchRow) samples(name string) (values []float64) {
	for _, round := range r.Samples {
		for figure, v := range round.fields() {
			if figure == name && *v != nil {
				values = append(values, **v)
			}
		}
	}
	return values
}

// differences are of what should be alike: the machine, the server, the load. The seed and the program may differ.
func differences(before, after *BenchResult) []string {
	out := []string{}
	for _, pair := range []struct {
		what          string
		before, after any
		of            []string
	}{
		{"machine", before.Env, after.Env, []string{"os", "arch", "kernel", "cpu", "cores", "memory_bytes", "go"}},
		{"redis", before.Env.Redis, after.Env.Redis, []string{"version", "private", "at"}},
		{"load", before.Config, after.Config, nil},
	} {
		a, b := asMap(pair.before), asMap(pair.after)
		if pair.of == nil {
			pair.of = slices.DeleteFunc(slices.Sorted(maps.Keys(a)), func(name string) bool { return name == "seed" })
		}
		for _, name := range pair.of {
			if a[name] != b[name] {
				out = append(out, fmt.Sprintf("%s: %s was %v, is %v", pair.what, name, a[name], b[name]))
			}
		}
	}
	for _, side := range []struct {
		name   string
		result *BenchResult
	}{{"OLD", before}, {"NEW", after}} {
		if side.result.Partial {
			out = append(out, side.name+" is partial: its run was interrupted")
		}
		if n := side.result.clientBound(); n > 0 {
			out = append(out, fmt.Sprintf("%s was limited by the client in %s: calls a second and latencies there are not the server's",
				side.name, report.Count(n, "row", "rows")))
		}
	}
	return out
}

func (r *BenchResult) clientBound() (n int64) {
	for _, row := range r.Results {
		if row.ClientBound {
			n++
		}
	}
	return n
}

// asMap has the fields of a struct of plain values by their JSON names.
func asMap(v any) map[string]any {
	text, err := json.Marshal(v)
	out := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic(err) // it came from JSON
	}
	return out
}
