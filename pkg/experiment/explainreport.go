package experiment

import (
	"fmt"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/scripts"
)

// Document shows, for each limiter, one order of commands as a table with a column a client.
func (r *ExplainResult) Document() report.Document {
	d := report.Document{Data: r}
	for _, row := range r.Results {
		d.Records = append(d.Records, row.record())
		part := report.Document{Head: []report.Line{row.answer()}, Table: row.table(), Foot: row.foot()}
		if len(d.Head) == 0 {
			d.Head, d.Table, d.Foot = part.Head, part.Table, part.Foot
			continue
		}
		d.More = append(d.More, part)
	}
	setting := report.Text("redis %s (private, its clock stands still)   limit %s per %s   %.1f s", r.Redis.Version,
		report.Int(r.Limit), report.Duration(time.Duration(r.WindowUS)*time.Microsecond), float64(r.ElapsedUS)/1e6)
	last := &d.Foot
	if len(d.More) > 0 {
		last = &d.More[len(d.More)-1].Foot
	}
	if r.Partial {
		*last = append(*last, report.Line{{Text: "partial: interrupted", Tone: report.Warn}})
	}
	*last = append(*last, setting)
	return d
}

// explainRecord is an ExplainRow without what does not fit on a line.
type explainRecord struct {
	Limiter   string          `json:"limiter"`
	Atomic    bool            `json:"atomic"`
	BrokenBy  target.BrokenBy `json:"broken_by"`
	Clients   int             `json:"clients"`
	Calls     int             `json:"calls"`
	Slots     int64           `json:"slots"`
	Orders    int64           `json:"orders"`
	Violating int64           `json:"violating"`
	Verdict   replay.Verdict  `json:"verdict"`
	Reason    string          `json:"reason"`
	Expected  bool            `json:"expected"`
	Schedule  string          `json:"schedule"`
}

func (row ExplainRow) record() explainRecord {
	return explainRecord{
		row.Limiter, row.Atomic, row.BrokenBy, row.Clients, row.Calls, row.Slots, row.Orders, row.Violating, row.Verdict, row.Reason,
		row.Expected, row.Shown.Schedule,
	}
}

// answer is the row's first line: whether any order broke the rule, and how many there are.
func (row ExplainRow) answer() report.Line {
	if row.Verdict == replay.Inconclusive {
		return report.Line{{Text: fmt.Sprintf("%s: inconclusive: %s", row.Limiter, row.Reason), Tone: report.Warn}}
	}
	tone := report.Good
	if !row.Expected {
		tone = report.Bad
	}
	what := map[explore.Kind]string{
		"":               "no order lets one too many in",
		explore.Over:     "the smallest order that lets one too many in",
		explore.Under:    "the smallest order in which one is refused that had room",
		explore.Differs:  "the smallest order whose answers no order of the calls explains",
		explore.Immortal: "the smallest order that leaves a key without a TTL",
	}[row.Shown.Kind]
	fail := "none fails"
	if row.Violating > 0 {
		fail = fmt.Sprintf("%s of them broken", report.Int(row.Violating))
	}
	return report.Line{
		{Text: row.Limiter + ": " + what, Tone: tone},
		report.Plain(fmt.Sprintf("   %s, %s left: %s, %s   order %s", report.Count(int64(row.Clients), "client", "clients"),
			report.Count(row.Slots, "slot", "slots"), report.Count(row.Orders, "order", "orders"), fail, row.Shown.Schedule)),
	}
}

// table has a row a step and a column a client.
func (row ExplainRow) table() report.Table {
	s := row.Shown
	if len(s.Steps) == 0 {
		return report.Table{}
	}
	t := report.Table{Columns: []report.Column{{Title: "STEP", Right: true}, {Title: "REDIS", Wrap: 16}}}
	for c := range row.Clients {
		t.Columns = append(t.Columns, report.Column{Title: "CLIENT " + explore.Name(c), Wrap: 24})
	}
	names := s.names()
	t.Add(append([]report.Cell{report.Plain("0"), report.Plain(names.state(s.Before))}, make([]report.Cell, row.Clients)...)...)
	for _, step := range s.Steps {
		cells := []report.Cell{report.Plain(fmt.Sprint(step.Step)), report.Plain(names.state(step.State))}
		for c := range row.Clients {
			cell := report.Cell{}
			if step.Client == explore.Name(c) {
				cell = s.cell(step, names)
			}
			cells = append(cells, cell)
		}
		t.Add(cells...)
	}
	return t
}

// cell is what a client did in a step, what it was answered, and what is to be said of it.
func (s ExplainSchedule) cell(step ExplainStep, names keyNames) report.Cell {
	cell := report.Plain("asks nobody")
	if step.Reply != nil {
		cell.Text = names.commands(step.Commands) + " -> " + *step.Reply
	}
	switch {
	case step.Over:
		cell.Text, cell.Tone = cell.Text+"   allowed   <- over the limit", report.Bad
	case step.Allowed != nil && *step.Allowed:
		cell.Text += "   allowed"
	case step.Allowed != nil:
		cell.Text += "   denied"
	}
	if g := s.Gap; g != nil && s.Kind != "" && step.Step == g.Read {
		cell.Text, cell.Tone = fmt.Sprintf("%s   <- stale from step %d on", cell.Text, g.Changed), report.Warn
	}
	return cell
}

// foot says what went wrong, or what was looked at, and what to type next.
func (row ExplainRow) foot() []report.Line {
	s, lines := row.Shown, []report.Line{}
	switch {
	case row.Verdict == replay.Inconclusive:
		return nil
	case s.Kind == "" && row.BrokenBy != target.Nothing && row.BrokenBy != target.Race:
		lines = append(lines, report.Text("no order of two clients breaks it; %s does", row.BrokenBy))
	case s.Kind == "":
		lines = append(lines, report.Text("every order of %d clients with one call each was run; more clients were not", row.Clients))
	case s.Gap != nil:
		lines = append(lines, report.Text("%s; what %s had read in step %d was no longer true from step %d on, and it acted on it up to step %d",
			s.Reason, s.Gap.Client, s.Gap.Read, s.Gap.Changed, s.Gap.Used))
	default:
		lines = append(lines, report.Text("%s", s.Reason))
	}
	if s.Split {
		lines = append(lines, report.Text("it takes a pipeline apart, which Redis may do and seldom does"))
	}
	if s.Kind != "" && row.Twin != "" {
		lines = append(lines, report.Text("fixed: rlctl race %s --explain", row.Twin))
	}
	return lines
}

// keyNames are the names of the keys in a schedule. What they all begin with is left out where they are shown.
type keyNames struct{ common string }

func (s ExplainSchedule) names() keyNames {
	var names []string
	for _, step := range s.Steps {
		for _, k := range step.State {
			names = append(names, k.Key)
		}
	}
	if len(names) == 0 {
		return keyNames{}
	}
	common := names[0]
	for _, n := range names {
		for !strings.HasPrefix(n, common) {
			common = common[:len(common)-1]
		}
	}
	return keyNames{common}
}

// state is what Redis held: the value of the one key, or each value with what tells its key apart.
func (n keyNames) state(keys []ExplainKey) string {
	if len(keys) == 0 {
		return "nothing"
	}
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = strings.TrimSpace(strings.TrimPrefix(k.Key, n.common) + " " + k.Value)
		if !k.TTL {
			parts[i] += " (no TTL)"
		}
	}
	return strings.Join(parts, ", ")
}

// commands are the words of a step without the key's name; of a script its name; of a long block the commands alone.
func (n keyNames) commands(commands [][]string) string {
	const long = 2 // commands whose arguments still fit
	texts := make([]string, len(commands))
	for i, words := range commands {
		texts[i] = n.command(words)
		if len(commands) > long {
			texts[i] = strings.ToUpper(words[0])
		}
	}
	if len(commands) == 1 {
		return texts[0]
	}
	return "MULTI, " + strings.Join(texts, ", ") + ", EXEC"
}

func (n keyNames) command(words []string) string {
	name := strings.ToUpper(words[0])
	if name == "EVALSHA" && len(words) > 1 {
		return name + " " + scriptName(words[1])
	}
	texts := []string{name}
	for _, w := range words[1:] {
		if n.common != "" {
			w = strings.TrimPrefix(w, n.common)
		}
		if w != "" {
			texts = append(texts, w)
		}
	}
	return strings.Join(texts, " ")
}

// scriptName is the file of one of our scripts, or the beginning of another's SHA1.
func scriptName(sha string) string {
	for _, name := range scripts.Names() {
		if source, _ := scripts.Source(name); scripts.SHA1(source) == sha {
			return name + ".lua"
		}
	}
	return sha[:min(8, len(sha))]
}
