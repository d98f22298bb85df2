package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// What benches and mem measured on one machine, multiplied: what a core decides a second, what N servers of one core each
// would, what that takes of a network, and what a million to a billion clients take of memory. Redis decides on one thread,
// so one core is 1 s / (CPU time of a decision), and keys of different clients share nothing, so N shards are N times that.
// What this gives up: servers that lack cores, a network that is slower than the loopback, and keys that are asked by all.

// Scale is the multiplication of benches, and of a mem.
func Scale(results []Result) report.Document {
	var d report.Document
	for _, r := range results {
		switch r := r.(type) {
		case *BenchResult:
			d.Table.Rows = append(d.Table.Rows, r.scaled()...)
			d.Foot = append(d.Foot, r.source())
			d.Made = r.Env.line()
		case *MemResult:
			d.More = append(d.More, report.Document{Table: r.scaled()})
			d.Made = r.Env.line()
		}
	}
	if len(d.Table.Rows) > 0 {
		d.Table.Columns = []report.Column{
			{Title: "LIMITER"}, {Title: "ASKED"}, {Title: "CPU us: ALLOWED", Right: true}, {Title: "DENIED", Right: true},
			{Title: "ONE CORE A SECOND: ALLOWED", Right: true}, {Title: "DENIED", Right: true}, {Title: "3 SHARDS: ALLOWED", Right: true},
			{Title: "10 SHARDS", Right: true}, {Title: "MBIT/S AT 100,000", Right: true},
		}
	}
	return d
}

// sound tells whether a limiter is one to be used: of its own rule, and atomic.
func sound(name string) bool {
	e, err := target.Find(target.Catalogue(), name)
	return err == nil && e.Atomic() && e.Own()
}

// asked is how the decisions of a bench came to its server.
func (r *BenchResult) asked() string {
	at := "one server"
	if strings.HasPrefix(r.Env.Redis.At, "cluster") {
		at = r.Env.Redis.At
	}
	if r.Config.Pipeline > 1 {
		at += fmt.Sprintf(", %d a round trip", r.Config.Pipeline)
	}
	return at
}

// source is where its rows are from, and how busy the machine was before.
func (r *BenchResult) source() report.Line {
	line := report.Text("%s: %s", r.asked(), r.Env.Command)
	if r.LoadBefore != nil {
		line = append(line, report.Plain(fmt.Sprintf(", with a load of %.1f before it began", *r.LoadBefore)))
	}
	return line
}

// scaled are the rows of sound limiters that were measured on both paths.
func (r *BenchResult) scaled() (rows [][]report.Cell) {
	for i := range r.Results {
		allowed := &r.Results[i]
		if allowed.Path != string(fleet.Allowed) || !sound(allowed.Limiter) {
			continue
		}
		denied := slices.IndexFunc(r.Results, func(row BenchRow) bool {
			return row.Limiter == allowed.Limiter && row.Path == string(fleet.Denied)
		})
		if denied >= 0 && allowed.weighed() && r.Results[denied].weighed() {
			rows = append(rows, scaled(r.asked(), allowed, &r.Results[denied]))
		}
	}
	return rows
}

func (row *BenchRow) weighed() bool { return row.CPU != nil && row.WireBytes != nil }

func scaled(asked string, allowed, denied *BenchRow) []report.Cell {
	line := []report.Cell{report.Plain(allowed.Limiter), report.Plain(asked)}
	for _, row := range []*BenchRow{allowed, denied} {
		line = append(line, report.Plain(plusMinus(row, "cpu_us", row.CPU, decimals)))
	}
	core := func(row *BenchRow) float64 { return float64(time.Second/time.Microsecond) / *row.CPU }
	for _, n := range []float64{core(allowed), core(denied), 3 * core(allowed), 10 * core(allowed)} {
		line = append(line, number(round(n)))
	}
	return append(line, report.Plain(fmt.Sprintf("%.0f", max(*allowed.WireBytes, *denied.WireBytes)*8*100_000/1e6)))
}

// round leaves two digits: more would be no measurement.
func round(v float64) int64 {
	unit := int64(1)
	for v/float64(unit) >= 100 {
		unit *= 10
	}
	return int64(v/float64(unit)+0.5) * unit
}

// of is what n clients take: as those who were measured, but for how full the server's tables are, which double.
func (row MemRow) of(n int64) float64 {
	slotsOf := func(n int64) float64 { return float64(2 * slot * slots(n*row.NamesPerKey)) }
	return float64(n)*(row.bytes()-slotsOf(row.Keys)/float64(row.Keys)) + slotsOf(n)
}

// scaled are the bytes of so many clients, each of whom is known to the server. Limits of a limiter at which these are the
// same share a row.
func (r *MemResult) scaled() report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: "LIMITER"}, {Title: "LIMIT", Right: true}, {Title: "BYTES EACH OF 1 M", Right: true},
		{Title: "1 M CLIENTS", Right: true}, {Title: "10 M", Right: true}, {Title: "100 M", Right: true}, {Title: "1 G", Right: true},
	}}
	for _, row := range r.Results {
		if row.BytesPerKeyDelta == nil || row.Limit != 100 && row.Limit != 1000 || !sound(row.Limiter) {
			continue
		}
		line := row.scaled()
		if n := len(t.Rows); n > 0 && t.Rows[n-1][0] == line[0] && slices.Equal(t.Rows[n-1][2:], line[2:]) {
			t.Rows[n-1][1].Text += " or " + line[1].Text
			continue
		}
		t.Add(line...)
	}
	return t
}

func (row MemRow) scaled() []report.Cell {
	line := []report.Cell{report.Plain(row.Limiter), number(row.Limit), number(round(row.of(million) / million))}
	for _, clients := range []int64{million, 10 * million, 100 * million, 1000 * million} {
		line = append(line, report.Plain(size(int64(row.of(clients)))))
	}
	return line
}
