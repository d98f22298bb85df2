package cmd

import (
	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/scripts"
)

// listResult is the catalogue as JSON shows it.
type listResult struct {
	Schema  string       `json:"schema"`
	Results []listRecord `json:"results"`
}

type listRecord struct {
	Limiter    string  `json:"limiter"`
	Kind       string  `json:"kind"` // atomic or naive
	Summary    string  `json:"summary"`
	Twin       *string `json:"twin"` // of a naive limiter, whom it imitates
	Flaw       *string `json:"flaw"`
	BrokenBy   string  `json:"broken_by"`
	Worst      string  `json:"worst"`
	State      string  `json:"state"`
	ScriptSHA1 *string `json:"script_sha1"`
}

func newList(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List the limiters: rule or flaw, what breaks them, what they keep",
		Args:  arguments(),
	}
	format := formatFlag(c)
	c.RunE = func(*cobra.Command, []string) error { return e.show(format, listing(e.catalogue)) }
	return c
}

func listing(catalogue []target.Entry) report.Document {
	result := listResult{Schema: "rlctl.list/v1", Results: []listRecord{}}
	d := report.Document{Table: report.Table{Columns: []report.Column{
		{Title: "LIMITER"}, {Title: "KIND", Wide: true}, {Title: "RULE, OR FLAW", Wrap: 30}, {Title: "BROKEN BY"},
		{Title: "WORST", Wrap: 9}, {Title: "STATE", Wrap: 20, Wide: true}, {Title: "SCRIPT", Wide: true},
	}}}
	for _, entry := range catalogue {
		r := newListRecord(entry)
		result.Results = append(result.Results, r)
		d.Records = append(d.Records, r)
		d.Table.Add(listRow(entry, r)...)
	}
	d.Data = result
	d.Foot = []report.Line{{report.Typed("next: rlctl check client-1 --limiter NAME"), report.Plain("    all fields: --format json")}}
	return d
}

func newListRecord(entry target.Entry) listRecord {
	r := listRecord{
		Limiter: entry.Name, Kind: "atomic", Summary: entry.Summary,
		BrokenBy: string(entry.BrokenBy), Worst: entry.Worst, State: entry.State,
	}
	if !entry.Atomic() {
		r.Kind, r.Twin, r.Flaw = "naive", &entry.Twin, &entry.Flaw
	}
	for _, script := range []string{entry.Name, entry.Name + "_acquire"} { // of the semaphore's three the one that decides
		if source, ok := scripts.Source(script); ok {
			r.ScriptSHA1 = new(scripts.SHA1(source))
		}
	}
	return r
}

// listRow indents a naive limiter under its twin and tells its flaw instead of a rule.
func listRow(entry target.Entry, r listRecord) []report.Cell {
	name, rule, sha := entry.Name, entry.Summary, ""
	broken := report.Cell{Text: r.BrokenBy, Tone: report.Bad}
	if !entry.Atomic() {
		name, rule = "  "+entry.Name, entry.Flaw
	}
	if entry.BrokenBy == target.Nothing {
		broken = report.Cell{Text: "none known", Tone: report.Good}
	}
	if r.ScriptSHA1 != nil {
		sha = (*r.ScriptSHA1)[:8]
	}
	return []report.Cell{
		report.Plain(name), report.Plain(r.Kind), report.Plain(rule), broken,
		report.Plain(entry.Worst), report.Plain(entry.State), report.Plain(sha),
	}
}
