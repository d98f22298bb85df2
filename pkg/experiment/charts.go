package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/report"
)

// ofMicros is an axis text of a time in µs.
func ofMicros(v float64) string { return report.Time(time.Duration(v * float64(time.Microsecond))) }

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
	c.Y.Text = ofMicros
	return []report.Chart{c}
}

func (r *RaceResult) callers() int64 { return int64(r.Procs) * int64(r.Clients) }

// overshootChart has a dot a limiter: to the right how far it went over in the round that went furthest, upwards its
// price.
func (r *RaceResult) overshootChart(price string, of func(RaceRow) (float64, bool)) report.Chart {
	c := report.Chart{
		Title: "Safety and price: overshoot and " + price,
		Note: fmt.Sprintf("left is safe, low is cheap; in brackets what breaks it elsewhere; race of %s at a limit of %s, redis %s, %s",
			report.Count(r.callers(), "caller", "callers"), report.Int(r.Limit), r.Redis.Version, or(r.Env.CPU, r.Env.Arch)),
		X:    report.Axis{Label: "events admitted beyond the rule (log scale from 0)", Scale: report.LogFromZero},
		Y:    report.Axis{Label: price},
		Dots: true,
	}
	for _, row := range r.Results {
		if y, ok := of(row); ok {
			c.Series = append(c.Series, report.Series{Name: row.labelled(), Points: []report.Point{{X: row.furthest(), Y: y}}})
		}
	}
	return c
}

// labelled is the limiter's name, with what breaks it if that is nothing that a race shows.
func (row RaceRow) labelled() string {
	if row.flawElsewhere() {
		return fmt.Sprintf("%s (%s)", row.Limiter, row.BrokenBy)
	}
	return row.Limiter
}

func (row RaceRow) furthest() (over float64) {
	for _, round := range row.Rounds {
		over = max(over, float64(round.Overshoot))
	}
	return over
}

// charts draw what a client takes by the limit.
func (r *MemResult) charts() []report.Chart {
	c := report.Chart{
		Title: "Memory by limit",
		Note: fmt.Sprintf("a client that has taken its whole limit, by used_memory where it is known; redis %s, %s clients a row or fewer",
			r.Env.Redis.Version, report.Int(r.Config.Keys)),
		X: report.Axis{Label: "limit, events a window (log scale)", Scale: report.Log},
		Y: report.Axis{Label: "bytes a client (log scale)", Scale: report.Log},
	}
	for _, limit := range r.Config.Limits {
		c.X.Marks = append(c.X.Marks, report.Mark{Value: float64(limit), Text: report.Int(limit)})
	}
	for _, rows := range r.groups() {
		s := report.Series{Name: rows[0].Limiter}
		for _, row := range rows {
			s.Points = append(s.Points, report.Point{X: float64(row.Limit), Y: row.bytes()})
		}
		c.Series = append(c.Series, s)
	}
	slices.SortStableFunc(c.Series, func(a, b report.Series) int { return cmp.Compare(last(b), last(a)) })
	return []report.Chart{c}
}
