package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
)

// Document shows a row a server.
func (r *MatrixResult) Document() report.Document {
	d := report.Document{Data: r, Head: []report.Line{r.answer()}, Made: r.Env.line(), Table: report.Table{Columns: []report.Column{
		{Title: "SERVER"}, {Title: "DEBIAN SUITE"}, {Title: "TESTS", Wrap: 24}, {Title: "RACE", Wrap: 24}, {Title: "VERDICT"},
	}}}
	for _, row := range r.Results {
		d.Records = append(d.Records, row.record())
		d.Table.Add(report.Plain(strings.TrimSpace(row.Server+" "+row.Version)), report.Plain(row.Suite),
			report.Plain(row.tests()), report.Plain(row.raced()), row.verdict())
	}
	return d
}

func (r *MatrixResult) answer() report.Line {
	n := map[replay.Verdict]int64{}
	for _, row := range r.Results {
		n[row.Verdict]++
	}
	all := int64(len(r.Results))
	line := report.Line{{
		Text: fmt.Sprintf("all tests and the race held on %s of %s", report.Int(n[replay.Held]), report.Count(all, "server", "servers")),
		Tone: tone(n[replay.Held] == all),
	}}
	if n[replay.Broken] > 0 {
		line = append(line, report.Plain("   "), report.Cell{Text: "broken on " + report.Int(n[replay.Broken]), Tone: report.Bad})
	}
	if n[replay.Inconclusive] > 0 {
		line = append(line, report.Plain("   "),
			report.Cell{Text: "not all was run on " + report.Int(n[replay.Inconclusive]), Tone: report.Warn})
	}
	return line
}

// tests says what passed, what failed, and what was not run and why.
func (row MatrixRow) tests() string {
	t := row.Tests
	if t.Passed+t.Failed == 0 {
		return row.notRun()
	}
	parts := []string{fmt.Sprintf("%d passed", t.Passed)}
	if t.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed: %s", t.Failed, strings.Join(t.Failures, " ")))
	}
	if t.Skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", t.Skipped))
	}
	if t.NotRun != "" {
		parts = append(parts, "not run: "+t.NotRun)
	}
	return strings.Join(parts, ", ")
}

func (row MatrixRow) raced() string {
	if row.Race == nil {
		return row.notRun()
	}
	return fmt.Sprintf("%d of %d atomic held, %d of %d racy went over", row.Race.AtomicHeld, row.Race.Atomic, row.Race.RacyOver, row.Race.Racy)
}

func (row MatrixRow) notRun() string {
	why, _, _ := strings.Cut(row.NotRun, "\n")
	return "not run: " + why
}

func (row MatrixRow) verdict() report.Cell {
	tones := map[replay.Verdict]report.Tone{replay.Held: report.Good, replay.Broken: report.Bad, replay.Inconclusive: report.Warn}
	return report.Cell{Text: string(row.Verdict), Tone: tones[row.Verdict]}
}

// matrixRecord is a row of a CSV.
type matrixRecord struct {
	Server         string         `json:"server"`
	Version        string         `json:"version"`
	Suite          string         `json:"suite"`
	PackageVersion string         `json:"package_version"`
	NotRun         string         `json:"not_run"`
	Clock          bool           `json:"clock"`
	Passed         int            `json:"passed"`
	Failed         int            `json:"failed"`
	Skipped        int            `json:"skipped"`
	AtomicHeld     *int           `json:"atomic_held"`
	RacyOver       *int           `json:"racy_over"`
	Verdict        replay.Verdict `json:"verdict"`
}

func (row MatrixRow) record() matrixRecord {
	reasons := slices.DeleteFunc([]string{row.NotRun, row.Tests.NotRun}, func(why string) bool { return why == "" })
	r := matrixRecord{
		Server: row.Server, Version: row.Version, Suite: row.Suite, PackageVersion: row.PackageVersion, NotRun: strings.Join(reasons, "; "),
		Clock: row.Clock, Passed: row.Tests.Passed, Failed: row.Tests.Failed, Skipped: row.Tests.Skipped, Verdict: row.Verdict,
	}
	if row.Race != nil {
		r.AtomicHeld, r.RacyOver = &row.Race.AtomicHeld, &row.Race.RacyOver
	}
	return r
}
