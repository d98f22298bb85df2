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
			{Value: 2, Text: "50"}, {Value: 10, Text: "90"}, {Value: 100, Text: "99"}, {Value: 1000, Text: "99.9"},
		}},
		Y: report.Axis{Label: "response time (log scale)", Scale: report.Log, Text: ofMicros},
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

// percentiles are points of the response times from the median to 99.9 %, as far as there were calls enough to tell. The x of a
// percentile p is 100/(100-p): one call in so many took longer.
func (row BenchRow) percentiles() (points []report.Point) {
	var l load.Latency
	if err := l.UnmarshalText([]byte(row.Response)); err != nil || row.Response == "" {
		return nil
	}
	for _, x := range []float64{2, 4, 10, 20, 40, 100, 200, 400, 1000} {
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

// fewRows is up to how many rows, the floors left out, a bench also shows its percentiles as bars.
const fewRows = 4

// bars draw the percentiles of a bench of few rows for a terminal.
func (r *BenchResult) bars() (all []report.Bars) {
	rows := slices.DeleteFunc(slices.Clone(r.Results), func(row BenchRow) bool { return floor(row.Limiter) || row.Unmeasured != "" })
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
