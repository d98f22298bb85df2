package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/report"
)

// Document shows the worst first: of each finding what was seen, what may come of it, and what to do.
func (r *Result) Document() report.Document {
	d := report.Document{Data: r, Head: []report.Line{r.answer(), r.where(), r.sake()}, Table: r.table(), Foot: r.foot()}
	if len(r.Nodes) > 1 {
		d.Head = append(d.Head, report.Text("what names no master is so on each"))
	}
	for _, f := range r.Results {
		d.Records = append(d.Records, struct {
			Node      string `json:"node"`
			Check     string `json:"check"`
			Level     Level  `json:"level"`
			Seen      string `json:"seen"`
			Endangers string `json:"endangers"`
			Do        string `json:"do"`
		}{f.Node, f.Check, f.Level, f.Seen, f.Endangers, strings.Join(f.Do, "; ")})
	}
	return d
}

// answer counts the findings of each level.
func (r *Result) answer() (line report.Line) {
	words := map[Level][2]string{
		Danger: {"danger", "dangers"}, Warning: {"warning", "warnings"},
		Unknown: {"thing that could not be looked at", "things that could not be looked at"}, Fine: {"thing fine", "things fine"},
	}
	for _, level := range slices.Backward(levels()) {
		n := int64(0)
		for _, f := range r.Results {
			if f.Level == level {
				n++
			}
		}
		if n > 0 {
			line = append(line, report.Cell{Text: report.Count(n, words[level][0], words[level][1]), Tone: level.tone()}, report.Plain("   "))
		}
	}
	return line
}

func (r *Result) where() report.Line {
	if n := len(r.Nodes); n > 1 {
		return report.Text("redis at %s, %d masters", r.Redis, n)
	}
	return report.Text("redis at %s", r.Redis)
}

func (r *Result) sake() report.Line {
	limit := fmt.Sprintf("%s, %s per %s", r.Limiter, report.Int(r.Limit), report.Duration(time.Duration(r.WindowUS)*time.Microsecond))
	if r.Burst != r.Limit {
		limit += ", burst " + report.Int(r.Burst)
	}
	return report.Text("looked at for %s; nothing was written", limit)
}

func (r *Result) foot() []report.Line {
	for _, f := range r.Results {
		for _, do := range f.Do {
			if strings.HasPrefix(do, "CONFIG SET ") || strings.HasPrefix(do, "ACL SETUSER ") {
				return []report.Line{report.Text("what is set so is gone after a restart, unless kept: CONFIG REWRITE, ACL SAVE")}
			}
		}
	}
	return nil
}

func (l Level) tone() report.Tone {
	return map[Level]report.Tone{Fine: report.Good, Unknown: report.Warn, Warning: report.Warn, Danger: report.Bad}[l]
}

// word is what a person reads.
func (l Level) word() string {
	if l == Unknown {
		return "not seen"
	}
	return string(l)
}

// table has the worst first. What is the same on several nodes stands once. Nodes stand under what was seen of them and
// not in a column of their own: a few names would leave a narrow terminal no room for anything else.
func (r *Result) table() report.Table {
	t := report.Table{Columns: []report.Column{{Title: "LEVEL"}, {Title: "CHECK"}, {Title: "WHAT", Wrap: 30}}}
	for _, g := range r.grouped() {
		t.Add(report.Cell{Text: g.Level.word(), Tone: g.Level.tone()}, report.Plain(g.Check), report.Plain(g.Seen))
		under := func(text string) { t.Add(report.Cell{}, report.Cell{}, report.Plain(text)) }
		if len(g.nodes) < len(r.Nodes) {
			under("on " + strings.Join(g.nodes, " "))
		}
		if g.Endangers != "" {
			under(g.Endangers)
		}
		for _, do := range g.Do {
			under("  " + do)
		}
	}
	return t
}

// finding is one that several nodes may share.
type finding struct {
	Finding
	nodes []string
}

func (r *Result) grouped() []*finding {
	var all []*finding
	for _, f := range r.Results {
		i := slices.IndexFunc(all, func(g *finding) bool { return g.Check == f.Check && g.Level == f.Level && g.Seen == f.Seen })
		if i < 0 {
			i, all = len(all), append(all, &finding{Finding: f})
		}
		all[i].nodes = append(all[i].nodes, f.Node)
	}
	slices.SortStableFunc(all, func(a, b *finding) int { return b.Level.worse(a.Level) })
	return all
}
