package experiment

import (
	"slices"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
)

// Document shows what caught each spoiled limiter, and that no sound one was accused.
func (r *ZooResult) Document() report.Document {
	d := report.Document{
		Data: r, Head: []report.Line{r.answer(), r.setting()}, Table: r.table(), Foot: []report.Line{r.foot()}, Made: r.Env.line(),
	}
	for _, row := range r.Results {
		for _, t := range row.Trials {
			d.Records = append(d.Records, zooRecord{row.Limiter, row.Of, slices.Contains(row.By, t.Experiment), row.Expected, t})
		}
	}
	return d
}

// zooRecord is one trial.
type zooRecord struct {
	Limiter  string `json:"limiter"`
	Of       string `json:"of"`
	Must     bool   `json:"must"` // this experiment must catch it
	Expected bool   `json:"expected"`
	ZooTrial
}

func (r *ZooResult) answer() report.Line {
	var spoiled, caught, sound, accused int64
	for _, row := range r.Results {
		switch {
		case row.Of == "":
			sound++
			if slices.ContainsFunc(row.Trials, func(t ZooTrial) bool { return t.Verdict == replay.Broken }) {
				accused++
			}
		default:
			spoiled++
			if row.Expected {
				caught++
			}
		}
	}
	return report.Line{
		{Text: report.Int(caught) + " of " + report.Count(spoiled, "spoiled limiter", "spoiled limiters") + " caught", Tone: tone(caught == spoiled)},
		report.Plain("   "),
		{Text: report.Int(accused) + " of " + report.Count(sound, "sound one", "sound ones") + " accused", Tone: tone(accused == 0)},
	}
}

func (r *ZooResult) setting() report.Line {
	return report.Text("redis %s (%s)   one line wrong in each; all went through %s", r.Redis.Version, r.Redis.where(),
		strings.Join(r.Experiments, ", "))
}

// table has a row a limiter and a column an experiment; what must catch it is marked.
func (r *ZooResult) table() report.Table {
	t := report.Table{Columns: []report.Column{{Title: "LIMITER"}, {Title: "OF"}}}
	for _, e := range r.Experiments {
		t.Columns = append(t.Columns, report.Column{Title: strings.ToUpper(e), Right: true})
	}
	t.Columns = append(t.Columns, report.Column{Title: "WRONG", Wrap: 24}, report.Column{Title: "CAUGHT", Wrap: 24, Wide: true})
	for _, row := range r.Results {
		cells := []report.Cell{report.Plain(row.Limiter), report.Plain(row.Of)}
		for _, e := range r.Experiments {
			cells = append(cells, row.cell(e))
		}
		t.Add(append(cells, report.Plain(row.Wrong), report.Plain(row.how()))...)
	}
	return t
}

// cell is what one experiment said and how long it took.
func (row ZooRow) cell(experiment string) report.Cell {
	t, must := row.trial(experiment), slices.Contains(row.By, experiment)
	switch {
	case t == nil && must:
		return report.Cell{Text: "not asked", Tone: report.Bad}
	case t == nil:
		return report.Plain("")
	}
	took := report.Millis(time.Duration(t.ElapsedUS) * time.Microsecond)
	switch {
	case t.Verdict == replay.Broken && row.Of == "":
		return report.Cell{Text: "ACCUSED " + took, Tone: report.Bad}
	case t.Verdict == replay.Broken && must:
		return report.Cell{Text: "caught " + took, Tone: report.Good}
	case t.Verdict == replay.Broken:
		return report.Plain("also " + took)
	case must:
		return report.Cell{Text: "MISSED " + took, Tone: report.Bad}
	case row.Of == "" && t.Verdict == replay.Held:
		return report.Cell{Text: "held " + took, Tone: report.Good}
	case t.Verdict == replay.Held:
		return report.Plain("–")
	}
	return report.Cell{Text: "inconclusive", Tone: report.Warn}
}

// how is what gave a spoiled limiter away, or what was said of a sound one.
func (row ZooRow) how() string {
	if t := row.caught(); t != nil {
		return t.said()
	}
	for _, t := range row.Trials {
		if row.Of == "" && t.Verdict != replay.Held {
			return t.said()
		}
	}
	return ""
}

// said is how a trial ended, cut to what fits into a table.
func (t ZooTrial) said() string {
	const most = 80
	text := []rune(t.Experiment + ": " + t.How)
	if len(text) > most {
		text = append(text[:most-1], '…')
	}
	return string(text)
}

func (r *ZooResult) foot() report.Line {
	return report.Text("caught: by an experiment that must; also: by one that need not; held is what a sound limiter does   %.1f s",
		float64(r.ElapsedUS)/1e6)
}
