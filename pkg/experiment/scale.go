package experiment

import (
	"fmt"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// What benches and mem measured on one machine, multiplied: what a core decides a second, what N servers of one core each
// would, what that takes of a network, and what ten million clients take of memory. Redis decides on one thread, so one
// core is 1 s / (CPU time of a decision), and keys of different clients share nothing, so N shards are N times that. What
// this gives up: servers that lack cores, a network that is slower than the loopback, and keys that are asked by all.

// Scale is the multiplication of benches, and of a mem.
func Scale(results []Result) report.Document {
	var d report.Document
	for _, r := range results {
		switch r := r.(type) {
		case *BenchResult:
			d.Table.Rows = append(d.Table.Rows, r.scaled()...)
			d.Made = r.Env.line()
		case *MemResult:
			d.More = append(d.More, report.Document{Table: r.scaled()})
			d.Made = r.Env.line()
		}
	}
	if len(d.Table.Rows) > 0 {
		d.Table.Columns = []report.Column{
			{Title: "LIMITER"}, {Title: "PATH"}, {Title: "ASKED"}, {Title: "CPU us", Right: true}, {Title: "ONE CORE A SECOND", Right: true},
			{Title: "3 SHARDS", Right: true}, {Title: "10 SHARDS", Right: true}, {Title: "100 SHARDS", Right: true}, {Title: "MBIT/S AT 100,000", Right: true},
		}
	}
	return d
}

// sound tells whether a limiter is one to be used: of its own rule, and atomic.
func sound(name string) bool {
	e, err := target.Find(target.Catalogue(), name)
	return err == nil && e.Atomic() && e.Own()
}

// scaled are the rows of sound limiters that were measured.
func (r *BenchResult) scaled() (rows [][]report.Cell) {
	at := "one server"
	if strings.HasPrefix(r.Env.Redis.At, "cluster") {
		at = r.Env.Redis.At
	}
	if r.Config.Pipeline > 1 {
		at += fmt.Sprintf(", %d a round trip", r.Config.Pipeline)
	}
	for _, row := range r.Results {
		if !sound(row.Limiter) || row.CPU == nil || row.WireBytes == nil {
			continue
		}
		core := float64(time.Second/time.Microsecond) / *row.CPU
		line := []report.Cell{report.Plain(row.Limiter), report.Plain(row.Path), report.Plain(at), report.Plain(fmt.Sprintf("%.1f", *row.CPU))}
		for _, shards := range []float64{1, 3, 10, 100} {
			line = append(line, number(round(core*shards)))
		}
		rows = append(rows, append(line, report.Plain(fmt.Sprintf("%.0f", *row.WireBytes*8*100_000/1e6))))
	}
	return rows
}

// round leaves two digits: more would be no measurement.
func round(v float64) int64 {
	unit := int64(1)
	for v/float64(unit) >= 100 {
		unit *= 10
	}
	return int64(v/float64(unit)+0.5) * unit
}

// scaled are the bytes of so many clients, each of whom is known to the server.
func (r *MemResult) scaled() report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: "LIMITER"}, {Title: "LIMIT", Right: true}, {Title: "BYTES A CLIENT", Right: true}, {Title: "1 M CLIENTS", Right: true},
		{Title: "10 M", Right: true}, {Title: "100 M", Right: true}, {Title: "1 G", Right: true},
	}}
	for _, row := range r.Results {
		if row.BytesPerKeyDelta == nil || row.Limit != 100 && row.Limit != 1000 || !sound(row.Limiter) {
			continue
		}
		line := []report.Cell{report.Plain(row.Limiter), number(row.Limit), number(round(*row.BytesPerKeyDelta))}
		for _, clients := range []float64{1e6, 1e7, 1e8, 1e9} {
			line = append(line, report.Plain(size(int64(*row.BytesPerKeyDelta*clients))))
		}
		t.Add(line...)
	}
	return t
}
