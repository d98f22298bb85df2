package experiment

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlctl/rlctl/pkg/report"
)

// Together draws what no result shows alone: the overshoot of races against the price that a bench measured, and what
// changes from race to race or from bench to bench.
func Together(results []Result) report.Document {
	var races []*RaceResult
	var benches []*BenchResult
	for _, result := range results {
		switch r := result.(type) {
		case *RaceResult:
			races = append(races, r)
		case *BenchResult:
			benches = append(benches, r)
		}
	}
	var d report.Document
	if len(races) > 1 {
		d.Charts = append(d.Charts, overshootByCallers(races))
	}
	if len(benches) > 1 {
		d.Charts = append(d.Charts, throughputCharts(benches...)...)
	}
	if len(races) > 0 && len(benches) > 0 {
		d.Charts = append(d.Charts, safetyAndTime(races[len(races)-1], benches[0]))
	}
	return d
}

// overshootByCallers has a line a limiter that went over in any of the races.
func overshootByCallers(races []*RaceResult) report.Chart {
	slices.SortStableFunc(races, func(a, b *RaceResult) int { return cmp.Compare(a.callers(), b.callers()) })
	first := races[0]
	c := report.Chart{
		Title: "Overshoot by number of processes",
		Note: fmt.Sprintf("limit %s, the round that went furthest; limiters that never went over are left out; redis %s, %s", report.Int(first.Limit),
			first.Redis.Version, or(first.Env.CPU, first.Env.Arch)),
		X: report.Axis{Label: "processes, one key, released together (log scale)", Scale: report.Log},
		Y: report.Axis{Label: "events admitted beyond the rule (log scale from 0)", Scale: report.LogFromZero},
	}
	lines := map[string]*report.Series{}
	var order []string
	for _, r := range races {
		c.X.Marks = append(c.X.Marks, report.Mark{Value: float64(r.callers()), Text: report.Int(r.callers())})
		for _, row := range r.Results {
			if lines[row.Limiter] == nil {
				lines[row.Limiter] = &report.Series{Name: row.Limiter}
				order = append(order, row.Limiter)
			}
			s := lines[row.Limiter]
			s.Points = append(s.Points, report.Point{X: float64(r.callers()), Y: row.furthest()})
		}
	}
	for _, name := range order {
		if slices.ContainsFunc(lines[name].Points, func(p report.Point) bool { return p.Y > 0 }) {
			c.Series = append(c.Series, *lines[name])
		}
	}
	slices.SortStableFunc(c.Series, func(a, b report.Series) int { return cmp.Compare(last(b), last(a)) })
	return c
}

// safetyAndTime has a dot a limiter that was raced and benched: overshoot, and the server's time of an allowed call.
func safetyAndTime(race *RaceResult, bench *BenchResult) report.Chart {
	times := map[string]float64{}
	for _, row := range bench.Results {
		if row.Path == "allowed" && row.Script != nil {
			times[row.Limiter] = *row.Script
		}
	}
	c := race.overshootChart("server time of an allowed request, µs", func(row RaceRow) (float64, bool) {
		t, ok := times[row.Limiter]
		return t, ok
	})
	return c
}
