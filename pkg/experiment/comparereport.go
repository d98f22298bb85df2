package experiment

import (
	"fmt"

	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
)

// Document shows a comparison: the answer, what was compared, a row a figure, and what is missing.
func (c *Comparison) Document() report.Document {
	d := report.Document{Data: c, Head: []report.Line{c.answer(), origin("old", c.Old), origin("new", c.New)}, Table: c.table()}
	for _, text := range c.Differences {
		d.Head = append(d.Head, report.Line{{Text: "DIFFERENT " + text, Tone: report.Warn}})
	}
	for _, row := range c.Results {
		d.Records = append(d.Records, row)
	}
	for _, text := range c.Missing {
		d.Foot = append(d.Foot, report.Line{{Text: text, Tone: report.Warn}})
	}
	return d
}

// answer counts the changes, and says what the threshold makes of them.
func (c *Comparison) answer() report.Line {
	var line report.Line
	say := func(tone report.Tone, format string, args ...any) {
		if len(line) > 0 {
			line = append(line, report.Plain("   "))
		}
		line = append(line, report.Cell{Text: fmt.Sprintf(format, args...), Tone: tone})
	}
	if c.FailOver != nil {
		limit := inPercent(*c.FailOver)
		switch c.Verdict {
		case replay.Held:
			say(report.Good, "held: nothing is more than %s worse", limit)
		case replay.Broken:
			broken := func(row ComparedRow) bool { return row.Verdict == replay.Broken }
			say(report.Bad, "BROKEN: %s more than %s worse", report.Count(c.count(broken), "figure is", "figures are"), limit)
		default:
			say(report.Warn, "inconclusive: it is not known that nothing is more than %s worse", limit)
		}
	}
	for _, change := range []Change{Worse, Better, Same, Unsure} {
		if n := c.count(func(row ComparedRow) bool { return row.Change == change }); n > 0 {
			say(report.Neutral, "%s %s", report.Int(n), change)
		}
	}
	if len(c.Results) == 0 {
		say(report.Warn, "nothing is in both")
	}
	return line
}

func (c *Comparison) count(is func(ComparedRow) bool) (n int64) {
	for _, row := range c.Results {
		if is(row) {
			n++
		}
	}
	return n
}

// origin says in one line what made a bench.
func origin(name string, p Provenance) report.Line {
	return report.Text("%s: rlctl %s (commit %s), redis %s, %s", name, p.Version, p.commit(), p.Redis.Version, p.Time)
}

func (c *Comparison) table() report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: "LIMITER"}, {Title: "PATH"}, {Title: "FIGURE"}, {Title: "OLD", Right: true}, {Title: "NEW", Right: true},
		{Title: "RATIO", Right: true}, {Title: "INTERVAL"}, {Title: "VERDICT", Wrap: 20}, {Title: "CALLERS", Right: true, Wide: true},
	}}
	for _, row := range c.Results {
		t.Add(report.Plain(row.Limiter), report.Plain(row.Path), report.Plain(row.Figure), figureCell(&row.Old), figureCell(&row.New),
			ratioCell(row.Ratio), intervalCell(row.Low, row.High), row.verdict(c.FailOver), number(int64(row.Clients)*int64(row.Procs)))
	}
	return t
}

func figureCell(x *float64) report.Cell {
	if x == nil {
		return report.Plain("–")
	}
	return report.Plain(report.Figure(*x))
}

func ratioCell(x *float64) report.Cell {
	if x == nil {
		return report.Plain("–")
	}
	return report.Plain(fmt.Sprintf("%.3f", *x))
}

func intervalCell(low, high *float64) report.Cell {
	if low == nil || high == nil {
		return report.Plain("–")
	}
	return report.Plain(fmt.Sprintf("%.3f to %.3f", *low, *high))
}

func (row ComparedRow) verdict(allowed *float64) report.Cell {
	switch {
	case row.Verdict == replay.Broken:
		return report.Cell{Text: "worse, past " + inPercent(*allowed), Tone: report.Bad}
	case row.Verdict == replay.Inconclusive:
		return report.Cell{Text: "inconclusive: " + row.Reason, Tone: report.Warn}
	case row.Change == Better:
		return report.Cell{Text: string(Better), Tone: report.Good}
	case row.Change == Worse && allowed != nil:
		return report.Cell{Text: "worse, within " + inPercent(*allowed), Tone: report.Warn}
	case row.Change == Worse:
		return report.Cell{Text: string(Worse), Tone: report.Warn}
	}
	return report.Plain(string(row.Change))
}

// inPercent writes a share: 5 %.
func inPercent(share float64) string { return report.Figure(share*100) + " %" }
