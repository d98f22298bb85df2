package experiment

import (
	"fmt"
	"strings"

	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/scripts"
)

// Document shows what was covered and what came out, a row a limiter and start; or, to explain, of each one order of
// commands as a table with a column a client.
func (r *ProveResult) Document() report.Document {
	var d report.Document
	switch {
	case r.stressed():
		d.Head, d.Table, d.Foot = []report.Line{r.answer(), r.stressSetting()}, r.stressTable(), r.stressFoot()
	case r.Explain:
		d = r.explanations()
	default:
		d.Head, d.Table, d.Foot = []report.Line{r.answer(), r.covered()}, r.table(), r.foot()
	}
	d.Data, d.Made = r, r.Env.line()
	for _, row := range r.Results {
		if r.stressed() {
			d.Records = append(d.Records, row.stressRecord())
		} else {
			d.Records = append(d.Records, row.record())
		}
	}
	return d
}

// proveRecord is a ProveRow without what does not fit on a line.
type proveRecord struct {
	Limiter   string          `json:"limiter"`
	Atomic    bool            `json:"atomic"`
	BrokenBy  target.BrokenBy `json:"broken_by"`
	Clients   int             `json:"clients"`
	Calls     int             `json:"calls"`
	Start     explore.Start   `json:"start"`
	Skew      bool            `json:"skew"`
	Release   bool            `json:"release"`
	Slots     int64           `json:"slots"`
	Orders    int64           `json:"orders"`
	States    int64           `json:"states"`
	Crashes   int64           `json:"crashes"`
	Violating int64           `json:"violating"`
	Verdict   replay.Verdict  `json:"verdict"`
	Reason    string          `json:"reason"`
	Expected  bool            `json:"expected"`
	Kind      explore.Kind    `json:"kind"`
	Schedule  string          `json:"schedule"`
}

func (row ProveRow) record() proveRecord {
	return proveRecord{
		row.Limiter, row.Atomic, row.BrokenBy, row.Clients, row.Calls, row.Start, row.Skew, row.Release, row.Slots, row.Orders, row.States,
		row.Crashes, row.Violating, row.Verdict, row.Reason, row.Expected, row.First.Kind, row.First.Schedule,
	}
}

// answer says in one line how many limiters came out as they must, of each kind apart.
func (r *ProveResult) answer() report.Line {
	var line report.Line
	say := func(tone report.Tone, format string, args ...any) {
		if len(line) > 0 {
			line = append(line, report.Plain("   "))
		}
		line = append(line, report.Cell{Text: fmt.Sprintf(format, args...), Tone: tone})
	}
	for _, kind := range []struct {
		breaks    bool
		one, many string
		did       string
	}{
		{true, "broken limiter", "broken limiters", "seen to break"},
		{false, "sound limiter", "sound limiters", "held"},
	} {
		all, good := r.count(kind.breaks)
		if all > 0 {
			say(tone(good == all), "%d of %s %s", good, report.Count(all, kind.one, kind.many), kind.did)
		}
	}
	if r.Partial {
		say(report.Warn, "partial: interrupted")
	}
	return line
}

// count returns how many limiters there are that something breaks, or nothing, and how many of them came out as expected
// in all rows.
func (r *ProveResult) count(breaks bool) (all, good int64) {
	as := map[string]bool{}
	for _, row := range r.Results {
		if (row.BrokenBy != target.Nothing) == breaks {
			before, known := as[row.Limiter]
			as[row.Limiter] = row.Expected && (before || !known)
		}
	}
	for _, is := range as {
		all++
		if is {
			good++
		}
	}
	return all, good
}

// covered says what the answer holds for.
func (r *ProveResult) covered() report.Line {
	dies := "nobody dies"
	if r.Crash {
		dies = "at most one dies, after any command"
	}
	return report.Text("redis %s (private, its clock stands still)   every order of %s x %s; %s", r.Redis.Version,
		report.Count(int64(r.Clients), "client", "clients"), report.Count(int64(r.Calls), "call", "calls"), dies)
}

func (r *ProveResult) table() report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: "LIMITER", Wrap: longestName}, {Title: "START", Wrap: 8}, {Title: "ORDERS", Right: true}, {Title: "STATES", Right: true, Wide: true},
		{Title: "DEATHS", Right: true, Wide: true}, {Title: "BROKEN", Right: true}, {Title: "VERDICT", Wrap: 24},
	}}
	for _, row := range r.Results {
		start := row.start()
		if row.Calls != r.Calls {
			start += ", " + report.Count(int64(row.Calls), "call", "calls") + " each"
		}
		t.Add(report.Plain(row.Limiter), report.Plain(start), number(row.Orders), number(row.States), number(row.Crashes),
			number(row.Violating), row.verdict())
	}
	return t
}

// start is where the clients began.
func (row ProveRow) start() string {
	text := report.Count(row.Slots, "slot", "slots") + " left"
	if row.Start == explore.Empty {
		text = fmt.Sprintf("empty, limit %d", row.Slots)
	}
	if row.Skew {
		text += ", clocks differ"
	}
	if row.Release {
		text += ", given back"
	}
	return text
}

func (row ProveRow) verdict() report.Cell {
	switch {
	case row.Verdict == replay.Inconclusive:
		return report.Cell{Text: "inconclusive: " + row.Reason, Tone: report.Warn}
	case row.Verdict == replay.Broken && row.Expected:
		return report.Cell{Text: fmt.Sprintf("%s, as it must be: %s", row.First.Kind, row.First.Order), Tone: report.Good}
	case row.Verdict == replay.Broken:
		return report.Cell{Text: fmt.Sprintf("BROKEN (%s): %s: %s", row.First.Kind, row.First.Order, row.Reason), Tone: report.Bad}
	case !row.Expected:
		return report.Cell{Text: "not caught: held", Tone: report.Bad}
	case row.Retries > 0:
		return report.Cell{Text: fmt.Sprintf("held   up to %s", report.Count(row.Retries, "retry", "retries")), Tone: report.Good}
	}
	return report.Cell{Text: "held", Tone: report.Good}
}

func (r *ProveResult) foot() []report.Line {
	lines := []report.Line{report.Text("one clock, which stands still: what needs time to pass between two commands is not in it   %.1f s",
		float64(r.ElapsedUS)/1e6)}
	for _, row := range r.Results {
		if row.Verdict == replay.Broken {
			if between := row.First.between(); between != "" {
				lines = append(lines, report.Text("%s: %s", row.Limiter, between))
			}
			return append(lines, report.Line{report.Typed("next: rlctl prove --schedule %s", row.typed(row.First.Schedule))})
		}
	}
	return lines
}

// explanations are one part a row.
func (r *ProveResult) explanations() (d report.Document) {
	for _, row := range r.Results {
		part := report.Document{Head: []report.Line{row.answer()}, Table: row.First.table(min(row.Clients, explore.MaxClients)), Foot: row.foot()}
		if len(d.Head) == 0 {
			d.Head, d.Table, d.Foot = part.Head, part.Table, part.Foot
			continue
		}
		d.More = append(d.More, part)
	}
	last := &d.Foot
	if len(d.More) > 0 {
		last = &d.More[len(d.More)-1].Foot
	}
	if r.Partial {
		*last = append(*last, report.Line{{Text: "partial: interrupted", Tone: report.Warn}})
	}
	*last = append(*last, report.Text("redis %s (private, its clock stands still)   %.1f s", r.Redis.Version, float64(r.ElapsedUS)/1e6))
	return d
}

// answer is the row's first line: whether any order broke the rule, and how many there are.
func (row ProveRow) answer() report.Line {
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
		explore.Lifetime: "the smallest order that leaves a key with a wrong TTL",
		explore.Charged:  "the smallest order in which a refusal changes the state",
		explore.Locked:   "the smallest order that locks somebody out",
	}[row.First.Kind]
	count := report.Count(row.Orders, "order", "orders") + ", none fails"
	switch {
	case row.States == 0: // one schedule was run
		what, count = "kept the rule", "one order"
		if row.Verdict == replay.Broken {
			what = "broke the rule: " + row.Reason
		}
	case row.Violating > 0:
		count = fmt.Sprintf("%s, %s of them broken", report.Count(row.Orders, "order", "orders"), report.Int(row.Violating))
	}
	return report.Line{
		{Text: row.Limiter + ": " + what, Tone: tone},
		report.Plain(fmt.Sprintf("   %s, %s: %s   order %s", report.Count(int64(row.Clients), "client", "clients"), row.start(),
			count, row.First.Order)),
	}
}

// table has a row a step and a column a client.
func (s ProveSchedule) table(clients int) report.Table {
	if len(s.Steps) == 0 {
		return report.Table{}
	}
	t := report.Table{Columns: []report.Column{{Title: "STEP", Right: true}, {Title: "REDIS", Wrap: 16}}}
	for c := range clients {
		t.Columns = append(t.Columns, report.Column{Title: "CLIENT " + explore.Name(c), Wrap: 24})
	}
	names := s.names()
	t.Add(append([]report.Cell{report.Plain("0"), report.Plain(names.state(s.Before))}, make([]report.Cell, clients)...)...)
	for _, step := range s.Steps {
		cells := []report.Cell{report.Plain(fmt.Sprint(step.Step)), report.Plain(names.state(step.State))}
		for c := range clients {
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
func (s ProveSchedule) cell(step ProveStep, names keyNames) report.Cell {
	cell := report.Plain("asks nobody")
	if step.Reply != nil {
		cell.Text = names.commands(step.Commands) + " -> " + *step.Reply
	}
	switch {
	case step.Died:
		cell.Text, cell.Tone = cell.Text+"   <- it dies here", report.Warn
	case step.Over:
		cell.Text, cell.Tone = cell.Text+"   allowed   <- over the limit", report.Bad
	case step.Allowed != nil && *step.Allowed:
		cell.Text += "   allowed"
	case step.Allowed != nil:
		cell.Text += "   denied"
	}
	if g := s.Gap; g != nil && s.Kind != "" && step.Step == g.Read && !step.Died {
		cell.Text, cell.Tone = fmt.Sprintf("%s   <- stale from step %d on", cell.Text, g.Changed), report.Warn
	}
	return cell
}

// foot says what went wrong, or what was looked at, and what to type next.
func (row ProveRow) foot() []report.Line {
	s, lines := row.First, []report.Line{}
	switch {
	case row.Verdict == replay.Inconclusive:
		return nil
	case row.Verdict == replay.Held && row.States > 0:
		lines = append(lines, report.Text("every order of %s with %s each is covered, and nothing beyond",
			report.Count(int64(row.Clients), "client", "clients"), report.Count(int64(row.Calls), "call", "calls")))
		if row.BrokenBy != target.Nothing && row.Expected {
			lines = append(lines, append(report.Text("what breaks it is %s: ", row.BrokenBy), report.Typed("rlctl prove %s", row.typed(row.Limiter))))
		}
	case row.Verdict == replay.Broken && s.Gap != nil:
		lines = append(lines, report.Text("%s; what %s had read in step %d was no longer true from step %d on, and it acted on it up to step %d",
			row.Reason, s.Gap.Client, s.Gap.Read, s.Gap.Changed, s.Gap.Used))
	case row.Verdict == replay.Broken:
		lines = append(lines, report.Text("%s", row.Reason))
	}
	if s.Split {
		lines = append(lines, report.Text("it takes a pipeline apart, which Redis may do and seldom does"))
	}
	if row.States > 0 {
		lines = append(lines, report.Line{report.Typed("rerun: rlctl prove --schedule %s", row.typed(s.Schedule))})
	}
	if row.Verdict == replay.Broken && row.Twin != "" {
		lines = append(lines, report.Line{report.Typed("fixed: rlctl race %s --explain", row.Twin)})
	}
	return lines
}

// keyNames are the names of the keys in a schedule. What they all begin with is left out where they are shown.
type keyNames struct{ common string }

func (s ProveSchedule) names() keyNames {
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
func (n keyNames) state(keys []ProveKey) string {
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

// between names the two commands between which another client came; empty if that is not what went wrong.
func (s ProveSchedule) between() string {
	g := s.Gap
	if g == nil || g.Read < 1 || g.Used > len(s.Steps) {
		return ""
	}
	return fmt.Sprintf("another client came between %s's %s in step %d and its %s in step %d", g.Client, s.Steps[g.Read-1].names(), g.Read,
		s.Steps[g.Used-1].names(), g.Used)
}

// names are those of the step's commands.
func (s ProveStep) names() string {
	var names []string
	for _, words := range s.Commands {
		names = append(names, strings.ToUpper(words[0]))
	}
	return strings.Join(names, ", ")
}

// typed is a word of a command line that holds the limiter's name.
func (row ProveRow) typed(word string) string { return typedName(word, row.Atomic, row.Twin) }

// typedName is such a word in the command line of a limiter; of one from outside, with the rule that it claims to keep.
func typedName(word string, atomic bool, twin string) string {
	if !atomic || twin == "" {
		return word
	}
	return report.ShellWord(word) + " --as " + twin
}
