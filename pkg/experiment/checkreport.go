package experiment

import (
	"fmt"
	"io"

	"github.com/rlctl/rlctl/pkg/answer"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/report"
)

// CheckView shows the answers of a check one by one.
type CheckView struct {
	w      io.Writer
	format report.Format
	style  report.Style
	csv    *report.CSV
	table  report.Table // of Markdown, which cannot be written by the line
}

// NewCheckView returns a view that writes to w. The style matters to a table only.
func NewCheckView(w io.Writer, f report.Format, s report.Style) *CheckView {
	return &CheckView{w: w, format: f, style: s, csv: report.NewCSV(w)}
}

// Show writes one answer, or keeps it for End where the format cannot be written by the line.
func (v *CheckView) Show(a Answer) error {
	switch v.format {
	case report.JSONFormat:
		return report.WriteJSONLine(v.w, a.record().Document())
	case report.CSVFormat:
		return v.csv.Write(a.record())
	case report.MarkdownFormat:
		v.table.Add(report.Plain(a.plan.Key), report.Plain(a.plan.Limiter), a.verdict(), report.Plain(a.left()),
			report.Plain(a.wait()))
		return nil
	}
	_, err := io.WriteString(v.w, v.style.Line(a.line()))
	return err
}

// End writes what can only be written as a whole.
func (v *CheckView) End() error {
	if len(v.table.Rows) == 0 {
		return nil
	}
	v.table.Columns = []report.Column{
		{Title: "KEY"}, {Title: "LIMITER"}, {Title: "DECISION"}, {Title: "LEFT"}, {Title: "THEN"},
	}
	return report.Document{Table: v.table}.Write(v.w, v.format, v.style)
}

func (a Answer) record() answer.Record {
	p := a.plan
	return answer.Of(answer.Request{Key: p.Key, Limiter: p.Limiter, Limit: p.Limit, Capacity: a.capacity, Cost: p.Cost}, a.Decision)
}

// line is for a person: the answer, what is left, how long to wait, and in brackets who was asked.
func (a Answer) line() report.Line {
	word := a.verdict()
	word.Text = fmt.Sprintf("%-8s", word.Text)
	p := a.plan
	asked := fmt.Sprintf("%s, %s per %s", p.Limiter, report.Int(p.Limit.Events), report.Duration(p.Limit.Window))
	if a.capacity != p.Limit.Events {
		asked += ", burst " + report.Int(a.capacity)
	}
	if p.Peek {
		asked += ", peek"
	}
	return report.Line{
		word, report.Plain("  " + a.left() + "   " + a.wait() + "   "),
		{Text: fmt.Sprintf("(%s, %s)", asked, report.Millis(a.Took)), Tone: report.Faint},
	}
}

func (a Answer) verdict() report.Cell {
	if a.Allowed {
		return report.Cell{Text: "allowed", Tone: report.Good}
	}
	return report.Cell{Text: "denied", Tone: report.Bad}
}

func (a Answer) left() string {
	if a.Degraded {
		return "degraded: the policy answered"
	}
	return report.Int(a.Remaining) + " of " + report.Int(a.capacity) + " left"
}

func (a Answer) wait() string {
	switch {
	case a.RetryAfter == limiter.Never:
		return fmt.Sprintf("never: a cost of %s cannot pass %s", report.Int(a.plan.Cost), report.Int(a.capacity))
	case !a.Allowed && a.RetryAfter > 0:
		return "retry in " + report.Duration(a.RetryAfter)
	case a.Degraded:
		return "nothing is known"
	case a.ResetAfter > 0:
		return "full again in " + report.Duration(a.ResetAfter)
	}
	return "nothing used"
}
