package experiment

import (
	"fmt"
	"time"

	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
)

// Document shows what was measured: the answer, a row a limit, and what follows.
func (r *MemResult) Document() report.Document {
	d := report.Document{Data: r, Head: []report.Line{r.answer(), r.setting()}, Table: r.table(), Foot: r.foot()}
	for _, row := range r.Results {
		d.Records = append(d.Records, row)
	}
	return d
}

func (r *MemResult) answer() report.Line {
	tone := map[replay.Verdict]report.Tone{replay.Held: report.Good, replay.Broken: report.Bad, replay.Inconclusive: report.Warn}[r.Verdict]
	line := report.Line{{Text: fmt.Sprintf("%s: %s", r.Verdict, r.Reason), Tone: tone}}
	if r.Partial {
		line = append(line, report.Cell{Text: "   partial: interrupted", Tone: report.Warn})
	}
	return line
}

func (r *MemResult) setting() report.Line {
	return report.Text("redis %s (%s)   %s a row, each at its limit   window %s", r.Env.Redis.Version, r.Env.Redis.where(),
		report.Count(r.Config.Keys, "client", "clients"), report.Duration(time.Duration(r.Config.WindowUS)*time.Microsecond))
}

func (r *MemResult) table() report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: "LIMITER"}, {Title: "LIMIT", Right: true}, {Title: "CLIENTS", Right: true, Wide: true}, {Title: "STATE"},
		{Title: "USAGE", Right: true}, {Title: "TABLES", Right: true}, {Title: "USED", Right: true},
		{Title: "APART", Right: true}, {Title: "ENTRY", Right: true}, {Title: "1 M", Right: true}, {Title: "1 G", Right: true, Wide: true},
	}}
	for _, row := range r.Results {
		t.Add(report.Plain(row.Limiter), number(row.Limit), number(row.Keys), report.Plain(row.Encoding),
			figure(&row.BytesPerKey), figure(&row.TableBytesPerKey), figure(row.BytesPerKeyDelta), percent(row.Apart),
			figure(row.BytesPerEntry), report.Plain(size(row.Million)), report.Plain(size(row.Billion)))
	}
	return t
}

func figure(f *float64) report.Cell {
	if f == nil {
		return report.Plain("-")
	}
	if *f < 1000 {
		return report.Plain(fmt.Sprintf("%.1f", *f))
	}
	return report.Plain(report.Int(int64(*f + 0.5)))
}

func percent(f *float64) report.Cell {
	if f == nil {
		return report.Plain("-")
	}
	return report.Plain(fmt.Sprintf("%.1f %%", 100**f))
}

// size writes bytes in the unit that leaves three digits: 139 MiB.
func size(bytes int64) string {
	value, unit := float64(bytes), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if value < 1000 {
			break
		}
		value, unit = value/1024, next
	}
	if value < 10 {
		return fmt.Sprintf("%.1f %s", value, unit)
	}
	return fmt.Sprintf("%.0f %s", value, unit)
}

func (r *MemResult) foot() []report.Line {
	var lines []report.Line
	for _, l := range r.Limiters {
		if l.Log {
			lines = append(lines, report.Text("%s: %+v passes %+v", l.Limiter, l.Encodings, l.Passes))
		}
	}
	return append(lines, report.Text("%.1f s", float64(r.ElapsedUS)/1e6))
}
