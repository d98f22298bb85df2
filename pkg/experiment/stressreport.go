package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// stressed tells whether the result is of a stress run.
func (r *ProveResult) stressed() bool { return r.DurationUS > 0 }

// stressRecord is a ProveRow of a stress run without what does not fit on a line.
type stressRecord struct {
	Limiter  string          `json:"limiter"`
	Atomic   bool            `json:"atomic"`
	BrokenBy target.BrokenBy `json:"broken_by"`
	Clients  int             `json:"clients"`
	StressCounts
	Applied  int64          `json:"faults_applied"`
	Planned  int            `json:"faults_planned"`
	Verdict  replay.Verdict `json:"verdict"`
	Reason   string         `json:"reason"`
	Expected bool           `json:"expected"`
}

func (row ProveRow) stressRecord() stressRecord {
	return stressRecord{row.Limiter, row.Atomic, row.BrokenBy, row.Clients, row.StressCounts, row.applied(""), len(row.Faults),
		row.Verdict, row.Reason, row.Expected}
}

// stressSetting says under what the limiters were.
func (r *ProveResult) stressSetting() report.Line {
	at := "private, appendfsync always"
	if r.Redis.At != "unix socket" {
		at = r.Redis.where()
	}
	return report.Text("redis %s (%s)   %s x %s on %s, random costs and pauses, %s each   limit %s per %s",
		r.Redis.Version, at, report.Count(int64(r.Procs), "process", "processes"),
		report.Count(int64(r.Clients/max(1, r.Procs)), "client", "clients"), report.Count(int64(r.Keys), "key", "keys"),
		report.Duration(time.Duration(r.DurationUS)*time.Microsecond), report.Int(r.Limit),
		report.Duration(time.Duration(r.WindowUS)*time.Microsecond))
}

func (r *ProveResult) stressTable() report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: "LIMITER", Wrap: longestName}, {Title: "OPS", Right: true}, {Title: "DENIED", Right: true}, {Title: "ERRORS", Right: true, Wide: true},
		{Title: "UNKNOWN", Right: true}, {Title: "SETTLED", Right: true, Wide: true}, {Title: "AT ONCE", Right: true, Wide: true},
		{Title: "FAULTS", Right: true}, {Title: "OVER", Right: true}, {Title: "VERDICT", Wrap: 24},
	}}
	for _, row := range r.Results {
		t.Add(report.Plain(row.Limiter), number(row.Ops), number(row.Denied), number(row.Errors), number(row.Unknown),
			number(row.Settled), number(row.AtOnce), report.Plain(fmt.Sprintf("%d of %d", row.applied(""), len(row.Faults))),
			difference(row.Overshoot), row.stressVerdict())
	}
	return t
}

// applied counts the faults of a kind, or all, that met traffic.
func (row ProveRow) applied(kind string) (n int64) {
	for _, f := range row.Faults {
		if f.Applied && (kind == "" || f.Fault == kind) {
			n++
		}
	}
	return n
}

func (row ProveRow) stressVerdict() report.Cell {
	switch {
	case row.Verdict == replay.Inconclusive:
		return report.Cell{Text: "inconclusive: " + row.Reason, Tone: report.Warn}
	case row.Verdict == replay.Broken && row.Expected:
		return report.Cell{Text: "broken, as it must be: " + row.Reason, Tone: report.Good}
	case row.Verdict == replay.Broken:
		return report.Cell{Text: "BROKEN: " + row.Reason, Tone: report.Bad}
	case !row.Expected:
		return report.Cell{Text: "not caught: held " + row.Reason, Tone: report.Bad}
	case row.BrokenBy != target.Nothing:
		return report.Cell{Text: fmt.Sprintf("held; %s breaks it", row.BrokenBy), Tone: report.Good}
	case row.Replayed > 0:
		text := "held   " + compared(row.Replayed, row.Recalled)
		if row.Loose > 0 {
			text += ", " + report.Int(row.Loose) + " bounded"
		}
		return report.Cell{Text: text, Tone: report.Good}
	}
	return report.Cell{Text: "held   " + row.Reason, Tone: report.Good}
}

// stressFoot says what happened to them.
func (r *ProveResult) stressFoot() []report.Line {
	var kinds []string
	names := FaultNames(false)
	for _, name := range FaultNames(true) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		n := int64(0)
		for _, row := range r.Results {
			n += row.applied(name)
		}
		if n > 0 {
			kinds = append(kinds, name+" "+report.Int(n))
		}
	}
	faults := "none"
	if len(kinds) > 0 {
		faults = strings.Join(kinds, ", ")
	}
	var lines []report.Line
	for _, row := range r.Results {
		lines = append(lines, row.lossNote()...)
		lines = append(lines, row.leftOutNotes()...)
		lines = append(lines, headerNotes(row.Limiter, row.Headers)...)
	}
	return append(lines,
		report.Text("faults under traffic: %s", faults),
		report.Text("seed %s: it gives the costs, keys, pauses and faults again, not the interleaving   %.1f s", r.Seed, float64(r.ElapsedUS)/1e6),
	)
}

// lossNote says what a failover lost.
func (row ProveRow) lossNote() []report.Line {
	if row.applied(faultFailover) == 0 {
		return nil
	}
	return []report.Line{report.Text("%s: the failover lost %s that later decisions show", row.Limiter,
		report.Count(row.Lost, "event", "events"))}
}

// leftOutNotes says which faults did not happen to one from outside, and why; those for one reason together. Of those in
// the catalogue it is known.
func (row ProveRow) leftOutNotes() (lines []report.Line) {
	if !row.Atomic || row.Twin == "" {
		return nil
	}
	var reasons []string
	of := map[string][]string{}
	for _, f := range row.LeftOut {
		if of[f.Why] == nil {
			reasons = append(reasons, f.Why)
		}
		of[f.Why] = append(of[f.Why], f.Fault)
	}
	for _, why := range reasons {
		lines = append(lines, report.Text("%s: without %s: %s", row.Limiter, strings.Join(of[why], ", "), why))
	}
	return lines
}
