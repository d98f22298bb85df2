package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/load"
	"github.com/rlctl/rlctl/pkg/report"
)

// micros is an axis text of a time in µs.
func micros(v float64) string { return report.Time(time.Duration(v * float64(time.Microsecond))) }

// line says in one line what made a result.
func (p Provenance) line() report.Line {
	machine := fmt.Sprintf("%s, %s", or(p.CPU, p.Arch), report.Count(int64(p.Cores), "core", "cores"))
	if p.Memory != nil {
		machine += ", " + report.Figure(float64(*p.Memory)/(1<<30)) + " GiB"
	}
	return report.Text("%s   rlctl %s (commit %s), %s, redis %s (%s), %s %s, %s, %s", p.Command, p.Version, p.commit(), p.Go,
		p.Redis.Version, p.Redis.where(), p.OS, or(p.Kernel, "of unknown version"), machine, p.Time)
}

// commit is short, and says if the work tree differed from it.
func (p Provenance) commit() string {
	if p.Commit == nil {
		return "unknown"
	}
	short := (*p.Commit)[:min(12, len(*p.Commit))]
	if p.Modified != nil && *p.Modified {
		short += ", modified"
	}
	return short
}

func or(text *string, otherwise string) string {
	if text == nil {
		return otherwise
	}
	return *text
}

// charts draw how far each limiter went over while a call took so long.
func (r *RaceResult) charts() []report.Chart {
	c := r.overshootChart(fmt.Sprintf("median of a call with %s at once", report.Count(r.callers(), "caller", "callers")),
		func(row RaceRow) (float64, bool) { return float64(row.P50US), true })
	c.Y.Text = micros
	return []report.Chart{c}
}

func (r *RaceResult) callers() int64 { return int64(r.Procs) * int64(r.Clients) }

// overshootChart has a dot a limiter: to the right how far it went over in the round that went furthest, upwards its
// price.
func (r *RaceResult) overshootChart(price string, of func(RaceRow) (float64, bool)) report.Chart {
	c := report.Chart{
		Title: "Safety and price: overshoot and " + price,
		Note: fmt.Sprintf("left is safe, low is cheap; race of %s at a limit of %s, redis %s, %s",
			report.Count(r.callers(), "caller", "callers"), report.Int(r.Limit), r.Redis.Version, or(r.Env.CPU, r.Env.Arch)),
		X:    report.Axis{Label: "events admitted beyond the rule (log scale from 0)", Scale: report.LogFromZero},
		Y:    report.Axis{Label: price},
		Dots: true,
	}
	for _, row := range r.Results {
		if y, ok := of(row); ok {
			c.Series = append(c.Series, report.Series{Name: row.Limiter, Points: []report.Point{{X: row.furthest(), Y: y}}})
		}
	}
	return c
}

func (row RaceRow) furthest() (over float64) {
	for _, round := range row.Rounds {
		over = max(over, float64(round.Overshoot))
	}
	return over
}

// charts draw the latencies of each path and, where there were several numbers of callers, the throughput by them.
func (r *BenchResult) charts() (all []report.Chart) {
	for _, path := range r.paths() {
		all = append(all, r.latencyChart(path))
	}
	return append(all, throughputCharts(r)...)
}

func (r *BenchResult) paths() (paths []string) {
	for _, row := range r.Results {
		if !slices.Contains(paths, row.Path) {
			paths = append(paths, row.Path)
		}
	}
	return paths
}

// note says under which load a chart's figures were measured.
func (r *BenchResult) note() string {
	loop := "closed loop"
	if r.Config.Rate > 0 {
		loop = report.Figure(r.Config.Rate) + " requests a second"
	}
	return fmt.Sprintf("%s, %s, limit %s; redis %s, %s, %s", loop, report.Count(int64(r.Config.Keys), "key", "keys"),
		report.Int(r.Config.Limit), r.Env.Redis.Version, or(r.Env.CPU, r.Env.Arch), report.Count(int64(r.Env.Cores), "core", "cores"))
}

// latencyChart has a line a row, the slowest on top of the legend as it is in the picture.
func (r *BenchResult) latencyChart(path string) report.Chart {
	c := report.Chart{
		Title: "Latency by percentile, " + path + " path", Note: r.note(),
		X: report.Axis{Label: "percentile of calls", Scale: report.Log, Marks: []report.Mark{
			{Value: 1, Text: "0"}, {Value: 2, Text: "50"}, {Value: 10, Text: "90"}, {Value: 100, Text: "99"}, {Value: 1000, Text: "99.9"},
		}},
		Y: report.Axis{Label: "response time (log scale)", Scale: report.Log, Text: micros},
	}
	for _, row := range r.Results {
		if row.Path == path {
			c.Series = append(c.Series, report.Series{Name: r.name(row), Points: row.percentiles()})
		}
	}
	slices.SortStableFunc(c.Series, func(a, b report.Series) int { return cmp.Compare(last(b), last(a)) })
	return c
}

func last(s report.Series) float64 {
	if len(s.Points) == 0 {
		return 0
	}
	return s.Points[len(s.Points)-1].Y
}

// name tells a row from others on the same path.
func (r *BenchResult) name(row BenchRow) string {
	if row.Clients == r.Config.Clients && row.Procs == r.Config.Procs {
		return row.Limiter
	}
	return fmt.Sprintf("%s, %s", row.Limiter, report.Count(row.callers(), "caller", "callers"))
}

func (row BenchRow) callers() int64 { return int64(row.Clients) * int64(row.Procs) }

// percentiles are points of the response times up to 99.9 %, as far as there were calls enough to tell. The x of a
// percentile p is 100/(100-p): one call in so many took longer.
func (row BenchRow) percentiles() (points []report.Point) {
	var l load.Latency
	if err := l.UnmarshalText([]byte(row.Response)); err != nil || row.Response == "" {
		return nil
	}
	for _, x := range []float64{1, 1.5, 2, 4, 10, 20, 40, 100, 200, 400, 1000} {
		if x <= float64(row.Ops) {
			points = append(points, report.Point{X: x, Y: float64(l.Quantile(1-1/x)) / float64(time.Microsecond)})
		}
	}
	return points
}

// throughputCharts draw what limiters decide in a second, by the number of callers: one a path, where there were
// several numbers.
func throughputCharts(results ...*BenchResult) (all []report.Chart) {
	for _, path := range results[0].paths() {
		c := report.Chart{
			Title: "Throughput by number of callers, " + path + " path", Note: results[0].note(),
			X: report.Axis{Label: "concurrent callers (log scale)", Scale: report.Log}, Y: report.Axis{Label: "decisions a second"},
		}
		callers := map[int64]bool{}
		series := map[string]*report.Series{}
		for _, r := range results {
			for _, row := range r.Results {
				if row.Path != path || row.OpsPerSec == nil {
					continue
				}
				callers[row.callers()] = true
				if series[row.Limiter] == nil {
					series[row.Limiter] = &report.Series{Name: row.Limiter}
				}
				s := series[row.Limiter]
				s.Points = append(s.Points, report.Point{X: float64(row.callers()), Y: *row.OpsPerSec})
			}
		}
		if len(callers) < 2 {
			continue
		}
		for _, n := range slices.Sorted(maps.Keys(callers)) {
			c.X.Marks = append(c.X.Marks, report.Mark{Value: float64(n), Text: report.Int(n)})
		}
		for _, s := range series {
			slices.SortFunc(s.Points, func(a, b report.Point) int { return cmp.Compare(a.X, b.X) })
			c.Series = append(c.Series, *s)
		}
		slices.SortFunc(c.Series, func(a, b report.Series) int {
			return cmp.Or(cmp.Compare(last(b), last(a)), cmp.Compare(a.Name, b.Name))
		})
		all = append(all, c)
	}
	return all
}

// fewRows is up to how many rows, without the floors, a bench also shows its percentiles as bars.
const fewRows = 4

// bars draw the percentiles of a bench of few rows for a terminal.
func (r *BenchResult) bars() (all []report.Bars) {
	var rows []BenchRow
	for _, row := range r.Results {
		if !floor(row.Limiter) {
			rows = append(rows, row)
		}
	}
	if len(rows) > fewRows {
		return nil
	}
	for _, row := range rows {
		bars := report.Bars{Title: fmt.Sprintf("%s, %s path: response time", r.name(row), row.Path)}
		for _, p := range []struct {
			label string
			of    *float64 // µs
		}{{"50%", row.P50}, {"90%", row.P90}, {"99%", row.P99}, {"99.9%", row.P999}, {"max", row.Max}} {
			if p.of != nil {
				bars.Of = append(bars.Of, report.Bar{Label: p.label, Time: time.Duration(*p.of * float64(time.Microsecond))})
			}
		}
		if len(bars.Of) > 0 {
			all = append(all, bars)
		}
	}
	return all
}
