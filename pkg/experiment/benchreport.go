package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/perf/benchmath"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// Document shows the bench: what is cheap and what is dear, a row a limiter and path, and what bounded them.
func (r *BenchResult) Document() report.Document {
	d := report.Document{Data: r, Head: append(r.answer(), r.setting()), Table: r.table(), Bars: r.bars(), Foot: r.foot(), Charts: r.charts(), Made: r.Env.line(),
		Benchfmt: r.WriteBenchfmt}
	for _, row := range r.Results {
		d.Records = append(d.Records, benchRecord{
			Limiter: row.Limiter, Path: row.Path, Clients: row.Clients, Procs: row.Procs, Pipeline: row.Pipeline, Rate: row.Rate,
			Rounds: row.Rounds, Ops: row.Ops, Errors: row.Errors, Unmeasured: row.Unmeasured, BenchFigures: row.BenchFigures,
			FloorRatio: row.FloorRatio, EmptyRatio: row.EmptyRatio, IncrRatio: row.IncrRatio, ClientBound: row.ClientBound,
		})
	}
	return d
}

// benchRecord is a BenchRow without what does not fit on a line.
type benchRecord struct {
	Limiter    string  `json:"limiter"`
	Path       string  `json:"path"`
	Clients    int     `json:"clients"`
	Procs      int     `json:"procs"`
	Pipeline   int     `json:"pipeline"`
	Rate       float64 `json:"rate"`
	Rounds     int     `json:"rounds"`
	Ops        int64   `json:"ops"`
	Errors     int64   `json:"errors"`
	Unmeasured string  `json:"unmeasured"`
	BenchFigures
	FloorRatio  *float64 `json:"floor_ratio"`
	EmptyRatio  *float64 `json:"empty_ratio"`
	IncrRatio   *float64 `json:"incr_ratio"`
	ClientBound bool     `json:"client_bound"`
}

// answer names, for each path, the limiter that costs the server least and the one that costs it most.
func (r *BenchResult) answer() []report.Line {
	var lines []report.Line
	if r.Partial {
		lines = append(lines, report.Line{{Text: "partial: ended before all rounds were measured", Tone: report.Warn}})
	}
	for _, path := range Paths() {
		if l := r.cheapest(path); l != nil {
			lines = append(lines, l)
		}
	}
	return lines
}

// cheapest compares the scripts. What limiters without one cost is mostly the reading of their commands and the writing
// of replies, which no command's own time holds.
func (r *BenchResult) cheapest(path string) report.Line {
	rows := r.priced(path)
	if len(rows) == 0 {
		return nil
	}
	verb := map[fleet.Path]string{fleet.Allowed: "to allow", fleet.Denied: "to deny", fleet.Mixed: "to do both"}[fleet.Path(path)]
	first, last := rows[0], rows[len(rows)-1]
	low := first.Limiter
	for _, row := range rows[1:] {
		if alike(first, row) {
			low += " ~ " + row.Limiter
		}
	}
	switch {
	case len(rows) == 1:
		return report.Text("%s: %s %s", verb, first.Limiter, priceOf(first))
	case alike(first, last):
		return report.Text("%s: these rounds do not tell apart %s", verb, low)
	}
	return report.Text("cheapest %s: %s %s   dearest: %s %s", verb, low, priceOf(first), last.Limiter, priceOf(last))
}

func priceOf(row *BenchRow) string {
	return fmt.Sprintf("%s us (%.1f x floor)", decimals(row.Script), *row.FloorRatio)
}

// priced are the limiters that are a script, without the floors, the cheapest on that path first.
func (r *BenchResult) priced(path string) []*BenchRow {
	var rows []*BenchRow
	for i := range r.Results {
		if row := &r.Results[i]; row.Path == path && !floor(row.Limiter) && row.FloorRatio != nil && row.Script != nil {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b *BenchRow) int { return cmp.Compare(*a.Script, *b.Script) })
	return rows
}

func floor(name string) bool { return strings.HasPrefix(name, "(") }

// alike tells whether the rounds of two rows do not tell their prices apart.
func alike(a, b *BenchRow) bool {
	x, y := a.samples("script_us"), b.samples("script_us")
	return len(x) == 0 || len(y) == 0 || benchmath.AssumeNothing.Compare(sample(x), sample(y)).P > 1-confidence
}

func (r *BenchResult) setting() report.Line {
	c := r.Config
	who := report.Count(int64(c.Clients), "client", "clients")
	if c.Procs > 1 {
		who = fmt.Sprintf("%d processes of %s", c.Procs, who)
	}
	load := "each asks again when it has its answer"
	if c.Rate > 0 {
		load = fmt.Sprintf("%s requests a second", report.Int(int64(math.Round(c.Rate))))
	}
	switch {
	case c.Pipeline > 1:
		load += fmt.Sprintf(", %d a round trip", c.Pipeline)
	case c.AutoPipeline:
		load += ", autopipelined"
	}
	keys := report.Count(int64(c.Keys), "key", "keys")
	if c.Zipf > 0 {
		keys += fmt.Sprintf(" by Zipf %g", c.Zipf)
	}
	return report.Text("redis %s (%s)   %s, %s   %s   limit %s per %s   %s of %s", r.Env.Redis.Version, r.Env.Redis.where(),
		who, load, keys, report.Int(c.Limit), report.Duration(time.Duration(c.WindowUS)*time.Microsecond),
		report.Count(int64(c.Rounds), "round", "rounds"),
		(time.Duration(c.DurationUS) * time.Microsecond / time.Duration(max(1, c.Rounds))).Round(time.Millisecond/10))
}

// column is one figure of the table.
type column struct {
	title string
	wide  bool
	of    func(row *BenchRow) string
}

func (r *BenchResult) columns() []column {
	open := r.Config.Rate > 0
	all := []column{
		{"CALLS/S", false, func(row *BenchRow) string { return plusMinus(row, "ops_per_sec", row.OpsPerSec, whole) }},
		{"SERVER us", false, func(row *BenchRow) string { return plusMinus(row, "script_us", row.Script, decimals) }},
		{"x FLOOR", false, r.priceInFloors},
		{"CPU us", false, func(row *BenchRow) string { return decimals(row.CPU) }},
		{"x INCR", true, func(row *BenchRow) string { return decimals(row.IncrRatio) }},
	}
	if open {
		all = append(all,
			column{"SERVICE p50", false, func(row *BenchRow) string { return whole(row.ServiceP50) }},
			column{"p99", false, func(row *BenchRow) string { return whole(row.ServiceP99) }},
			column{"RESPONSE p50", false, func(row *BenchRow) string { return whole(row.P50) }},
			column{"p99", false, func(row *BenchRow) string { return whole(row.P99) }},
			column{"LAG p99", true, func(row *BenchRow) string { return whole(row.LagP99) }})
	} else {
		all = append(all,
			column{"p50 us", false, func(row *BenchRow) string { return whole(row.P50) }},
			column{"p90", true, func(row *BenchRow) string { return whole(row.P90) }},
			column{"p99", false, func(row *BenchRow) string { return whole(row.P99) }})
	}
	return append(all,
		column{"p99.9", true, func(row *BenchRow) string { return whole(row.P999) }},
		column{"MAX", true, func(row *BenchRow) string { return whole(row.Max) }},
		column{"COMMANDS", true, func(row *BenchRow) string { return decimals(row.Commands) }},
		column{"ALLOCS", true, func(row *BenchRow) string { return decimals(row.Allocs) }},
		column{"BYTES", true, func(row *BenchRow) string { return whole(row.WireBytes) }},
		column{"PING p99", true, func(row *BenchRow) string { return whole(row.PingP99) }},
		column{"ERRORS", true, func(row *BenchRow) string { return report.Int(row.Errors) }},
		column{"LIMITED BY", false, limitedBy})
}

func (r *BenchResult) table() report.Table {
	columns := r.columns()
	t := report.Table{Columns: []report.Column{{Title: "LIMITER", Wrap: longestName}, {Title: "PATH"}}}
	for i, c := range columns {
		t.Columns = append(t.Columns, report.Column{Title: c.title, Right: i < len(columns)-1, Wide: c.wide})
	}
	for i := range r.Results {
		row := &r.Results[i]
		cells := []report.Cell{report.Plain(row.Limiter), report.Plain(row.Path)}
		for _, c := range columns {
			cell := report.Plain(c.of(row))
			if c.title == "LIMITED BY" && (row.ClientBound || row.Unmeasured != "") {
				cell.Tone = report.Warn
			}
			cells = append(cells, cell)
		}
		t.Add(cells...)
	}
	return t
}

// priceInFloors is the row's price as a multiple of the floor's: "~" says that their rounds do not tell them apart.
func (r *BenchResult) priceInFloors(row *BenchRow) string {
	if row.FloorRatio == nil {
		return ""
	}
	if f := r.floor(target.FloorTime); row.Limiter != f.Limiter && alike(row, f) {
		return "~"
	}
	return fmt.Sprintf("%.1f", *row.FloorRatio)
}

func limitedBy(row *BenchRow) string {
	switch {
	case row.Unmeasured != "":
		return "not measured"
	case row.ClientBound:
		return "client"
	case row.Rate > 0:
		return "rate"
	case row.ServerCPUShare == nil:
		return ""
	case *row.ServerCPUShare >= busy:
		return "server"
	}
	return "waiting"
}

// plusMinus is a figure with how far the bounds of its interval are from it at most, in per cent.
func plusMinus(row *BenchRow, name string, v *float64, show func(*float64) string) string {
	bounds, ok := row.Spread[name]
	if v == nil || !ok || *v == 0 {
		return show(v)
	}
	return fmt.Sprintf("%s ±%2.0f%%", show(v), 100*max(*v-bounds[0], bounds[1]-*v) / *v)
}

func whole(v *float64) string {
	if v == nil {
		return ""
	}
	return report.Int(int64(math.Round(*v)))
}

func decimals(v *float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%.1f", *v)
}

// calm is the load a core up to which a machine counts as quiet.
const calm = 0.5

// foot says why rows are missing, what was busy, and how to read the rest.
func (r *BenchResult) foot() []report.Line {
	var lines []report.Line
	for _, row := range r.Results {
		if row.Unmeasured != "" {
			lines = append(lines, report.Line{{Text: fmt.Sprintf("%s, %s: not measured: %s", row.Limiter, row.Path, row.Unmeasured),
				Tone: report.Warn}})
		}
	}
	lines = append(lines,
		report.Text("SERVER us: of one decision, by the server's count of its commands; x FLOOR: a script's as a multiple of %s", target.FloorTime),
		report.Text("CPU us: of one decision, of the server's main thread with reading and answering; x INCR: as a multiple of one INCR"))
	bound := 0
	for _, row := range r.Results {
		if row.ClientBound {
			bound++
		}
	}
	if bound > 0 {
		lines = append(lines, report.Line{{Text: fmt.Sprintf("in %s the client was the limit: their CALLS/S and latencies are not the server's",
			report.Count(int64(bound), "row", "rows")), Tone: report.Warn}})
	}
	if load := r.LoadBefore; load != nil && *load > calm*float64(r.Env.Cores) {
		lines = append(lines, report.Line{{Text: fmt.Sprintf(
			"the machine was busy before this began (load %.1f on %s): intervals are wide, and SERVER us holds waits for a core",
			*load, report.Count(int64(r.Env.Cores), "core", "cores")), Tone: report.Warn}})
	}
	lines = append(lines, r.checks()...)
	return append(lines, report.Text("seed %s; %.1f s", r.Config.Seed, float64(r.ElapsedUS)/1e6))
}
