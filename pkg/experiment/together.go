package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/report"
)

// Together draws what no result shows alone: the overshoot of a race against the price that a bench or mem measured,
// and what changes from race to race or from bench to bench. Where there are several races the last gives the dots.
func Together(results []Result) report.Document {
	races, benches, mems := of[*RaceResult](results), of[*BenchResult](results), of[*MemResult](results)
	var d report.Document
	if len(races) > 1 {
		slices.SortStableFunc(races, func(a, b *RaceResult) int {
			return cmp.Or(cmp.Compare(a.callers(), b.callers()), cmp.Compare(a.RTTUS, b.RTTUS))
		})
		if near := nearest(races); len(near) > 1 {
			d.Charts = append(d.Charts, overshootByCallers(near))
		}
		d.Head = []report.Line{report.Text("events admitted beyond the rule, by number of processes and the way there and back; limit %s, "+
			"the round that went furthest", report.Int(races[0].Limit))}
		d.Table, d.Made = overshootTable(races), races[len(races)-1].Env.line()
	}
	if len(benches) > 1 {
		d.Charts = append(d.Charts, throughputCharts(benches...)...)
	}
	if len(races) == 0 {
		return d
	}
	race := races[len(races)-1]
	if len(benches) > 0 {
		d.Charts = append(d.Charts, safetyAndTime(race, benches[0]))
	}
	if len(mems) > 0 {
		d.Charts = append(d.Charts, safetyAndMemory(race, mems[0]))
	}
	return d
}

func of[R Result](results []Result) (out []R) {
	for _, result := range results {
		if r, ok := result.(R); ok {
			out = append(out, r)
		}
	}
	return out
}

// nearest are the races over the shortest way: those over others would share its points on a line.
func nearest(races []*RaceResult) []*RaceResult {
	least := slices.MinFunc(races, func(a, b *RaceResult) int { return cmp.Compare(a.RTTUS, b.RTTUS) }).RTTUS
	return slices.DeleteFunc(slices.Clone(races), func(r *RaceResult) bool { return r.RTTUS > least })
}

// overshootByCallers has a line a limiter that went over in any of the races.
func overshootByCallers(races []*RaceResult) report.Chart {
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

// overshootTable has a row a limiter and a column a race, of as many callers as stand over it.
func overshootTable(races []*RaceResult) report.Table {
	t := report.Table{Columns: []report.Column{{Title: "LIMITER"}}}
	place := map[string]int{} // of a limiter's row
	for _, r := range races {
		title := report.Int(r.callers())
		if r.RTTUS > 0 {
			title += ", " + (time.Duration(r.RTTUS) * time.Microsecond).String()
		}
		if r.Limit != races[0].Limit {
			title += ", limit " + report.Int(r.Limit)
		}
		t.Columns = append(t.Columns, report.Column{Title: title, Right: true})
		for _, row := range r.Results {
			if _, ok := place[row.Limiter]; !ok {
				place[row.Limiter] = len(t.Rows)
				t.Add(report.Plain(row.labelled()))
			}
			cells := &t.Rows[place[row.Limiter]]
			for len(*cells) < len(t.Columns)-1 { // races without it
				*cells = append(*cells, report.Plain("–"))
			}
			*cells = append(*cells, difference(int64(row.furthest())))
		}
	}
	for i := range t.Rows {
		for len(t.Rows[i]) < len(t.Columns) {
			t.Rows[i] = append(t.Rows[i], report.Plain("–"))
		}
	}
	return t
}

// safetyAndTime has a dot a limiter that was raced and benched: overshoot, and what the server's main thread spends on
// an allowed request. That is measured of racy limiters too, which have no script.
func safetyAndTime(race *RaceResult, bench *BenchResult) report.Chart {
	price := map[string]float64{}
	for _, row := range bench.Results {
		if row.Path == "allowed" && row.CPU != nil {
			price[row.Limiter] = *row.CPU
		}
	}
	c := race.overshootChart("server CPU of an allowed request", func(row RaceRow) (float64, bool) {
		v, ok := price[row.Limiter]
		return v, ok
	})
	c.Y.Text = ofMicros
	return c
}

// safetyAndMemory has a dot a limiter that was raced and filled: overshoot, and what a client takes at the limit of the
// race, or at the next one that was measured.
func safetyAndMemory(race *RaceResult, mem *MemResult) report.Chart {
	price, at := map[string]float64{}, map[string]int64{}
	for _, row := range mem.Results {
		if far := at[row.Limiter]; row.Limit >= race.Limit && (far == 0 || row.Limit < far) {
			price[row.Limiter], at[row.Limiter] = row.bytes(), row.Limit
		}
	}
	c := race.overshootChart("memory of a client at the limit", func(row RaceRow) (float64, bool) {
		v, ok := price[row.Limiter]
		return v, ok
	})
	c.Y.Label, c.Y.Scale = "bytes of a client at the limit (log scale)", report.Log
	return c
}
