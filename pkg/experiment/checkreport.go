package experiment

import (
	"fmt"
	"io"

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
		return report.WriteJSONLine(v.w, struct {
			Schema string `json:"schema"`
			checkRecord
		}{"rlctl.check/v1", a.record()})
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

// checkRecord is one decision as JSON and CSV show it.
type checkRecord struct {
	Key          string `json:"key"`
	Limiter      string `json:"limiter"`
	Allowed      bool   `json:"allowed"`
	Limit        int64  `json:"limit"`
	WindowUS     int64  `json:"window_us"`
	Burst        int64  `json:"burst"`
	Cost         int64  `json:"cost"`
	Remaining    *int64 `json:"remaining"`      // null where the policy answered
	RetryAfterUS *int64 `json:"retry_after_us"` // -1 for never, null where a peek cannot tell
	ResetAfterUS *int64 `json:"reset_after_us"` // null where the policy answered
	ServerTimeUS *int64 `json:"server_time_us"` // null where the limiter does not say
	Degraded     bool   `json:"degraded"`
}

func (a Answer) record() checkRecord {
	p := a.plan
	r := checkRecord{
		Key: p.Key, Limiter: p.Limiter, Allowed: a.Allowed,
		Limit: p.Limit.Events, WindowUS: p.Limit.Window.Microseconds(), Burst: a.capacity, Cost: p.Cost,
		Degraded: a.Degraded,
	}
	if !a.Degraded {
		r.Remaining, r.ResetAfterUS = &a.Remaining, new(a.ResetAfter.Microseconds())
	}
	switch {
	case a.RetryAfter == limiter.Never:
		r.RetryAfterUS = new(int64(-1))
	case a.Allowed || a.RetryAfter > 0:
		r.RetryAfterUS = new(a.RetryAfter.Microseconds())
	}
	if !a.At.IsZero() {
		r.ServerTimeUS = new(a.At.UnixMicro())
	}
	return r
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
