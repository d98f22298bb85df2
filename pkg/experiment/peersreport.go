package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
)

// Document shows what each limiter promises, whether it keeps that, and what it costs.
func (r *PeersResult) Document() report.Document {
	d := report.Document{
		Data: r, Head: []report.Line{r.answer(), r.setting()}, Table: r.kept(), Foot: r.notes(), Made: r.Env.line(),
		More: []report.Document{
			{Head: []report.Line{r.priceSetting()}, Table: r.prices()},
			{Head: []report.Line{report.Text("each is judged by the rule that it claims, and used as its documentation says:")}, Table: r.claims()},
		},
	}
	for _, row := range r.Results {
		d.Records = append(d.Records, row.record())
	}
	return d
}

// peerRecord is a PeerRow without what does not fit on a line.
type peerRecord struct {
	Limiter    string   `json:"limiter"`
	Module     string   `json:"module"`
	Version    string   `json:"version"`
	Allowed    int64    `json:"allowed"`
	Allowance  int64    `json:"allowance"`
	Overshoot  int64    `json:"overshoot"`
	Undershoot int64    `json:"undershoot"`
	Errors     int64    `json:"errors"`
	Unknown    int64    `json:"unknown"`
	Found      string   `json:"found"`
	Generous   int64    `json:"most_generous_us"`
	Strictest  int64    `json:"strictest_us"`
	Shortest   int64    `json:"shortest_us"`
	Longest    int64    `json:"longest_us"`
	DiesEarly  int64    `json:"dies_early_us"`
	DiesLate   int64    `json:"dies_late_us"`
	AllowRate  *float64 `json:"allow_ops_per_sec"`
	DenyRate   *float64 `json:"deny_ops_per_sec"`
}

func (row PeerRow) record() peerRecord {
	w := row.Walk
	return peerRecord{
		row.Limiter, row.Module, row.Version, row.Race.Allowed, row.Race.Allowance, row.Race.Overshoot, row.Race.Undershoot,
		row.Race.Errors, row.Race.Unknown, row.kinds(), w.MostGenerousUS, w.StrictestUS, w.ShortestUS, w.LongestUS, w.DiesEarlyUS,
		w.DiesLateUS, row.figure(fleet.Allowed).OpsPerSec, row.figure(fleet.Denied).OpsPerSec,
	}
}

func (r *PeersResult) answer() report.Line {
	rivals, clean := int64(0), int64(0)
	for _, row := range r.Results {
		if row.Module != "" {
			rivals++
			if row.Race.Overshoot == 0 {
				clean++
			}
		}
	}
	return report.Text("%d of %s never over in a race of %d callers   beside %s of this module", clean,
		report.Count(rivals, "limiter of other libraries", "limiters of other libraries"), r.Race.Callers,
		report.Int(int64(len(r.Results))-rivals))
}

func (r *PeersResult) setting() report.Line {
	return report.Text("redis %s (%s)   race: %d callers, one key, limit %s per %s", r.Redis.Version, r.Redis.where(),
		r.Race.Callers, report.Int(r.Race.Limit), report.Duration(time.Duration(r.Race.WindowUS)*time.Microsecond))
}

// kept is whether each keeps its rule.
func (r *PeersResult) kept() report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: "LIMITER"}, {Title: "ALLOWED", Right: true}, {Title: "RULE", Right: true}, {Title: "OVER", Right: true},
		{Title: "UNDER", Right: true}, {Title: "ERRORS", Right: true}, {Title: "EVERY ORDER", Wrap: 16},
		{Title: "ALONE, BESIDE ITS RULE", Wrap: 16}, {Title: "WAIT TOLD", Wrap: 14}, {Title: "KEY LIVES", Wrap: 14},
	}}
	for _, row := range r.Results {
		t.Add(report.Plain(row.Limiter), report.Plain(report.Int(row.Race.Allowed)), report.Plain(report.Int(row.Race.Allowance)),
			wrongIf(row.Race.Overshoot), wrongIf(row.Race.Undershoot), wrongIf(row.Race.Errors+row.Race.Unknown),
			row.explored(), row.Walk.decisions(), row.waits(), row.Walk.lifetimes())
	}
	return t
}

func wrongIf(n int64) report.Cell {
	if n > 0 {
		return report.Cell{Text: report.Int(n), Tone: report.Bad}
	}
	return report.Plain("0")
}

// explored is what was found in any order of commands, each kind with its shortest schedule.
func (row PeerRow) explored() report.Cell {
	orders := int64(0)
	for _, e := range row.Explored {
		orders += e.Orders
		if e.Verdict == replay.Inconclusive {
			return report.Cell{Text: "inconclusive: " + e.Reason, Tone: report.Warn}
		}
	}
	if kinds := row.kinds(); kinds != "" {
		return report.Cell{Text: kinds, Tone: report.Bad}
	}
	return report.Cell{Text: "held in " + report.Int(orders), Tone: report.Good}
}

func (row PeerRow) kinds() string {
	shortest := map[explore.Kind]string{}
	for _, e := range row.Explored {
		for _, f := range e.Found {
			order := f.Schedule[strings.LastIndexByte(f.Schedule, ':')+1:]
			if known, ok := shortest[f.Kind]; !ok || len(order) < len(known) {
				shortest[f.Kind] = order
			}
		}
	}
	var texts []string
	for _, kind := range slices.SortedFunc(maps.Keys(shortest), func(a, b explore.Kind) int {
		return cmp.Or(len(shortest[a])-len(shortest[b]), strings.Compare(string(a), string(b)))
	}) {
		texts = append(texts, string(kind)+" "+shortest[kind])
	}
	return strings.Join(texts, ", ")
}

// decisions are how far a single client's decisions are from the rule's.
func (w PeerWalk) decisions() report.Cell {
	var texts []string
	if w.Generous > 0 {
		texts = append(texts, "admits "+micros(w.MostGenerousUS)+" early")
	}
	if w.Strict > 0 {
		texts = append(texts, "refuses "+micros(w.StrictestUS)+" longer")
	}
	if w.WrongRemaining > 0 {
		texts = append(texts, fmt.Sprintf("remaining off in %s of %s", report.Int(w.WrongRemaining), report.Int(w.Moves)))
	}
	return agrees(texts, "as the rule")
}

// waits are how true the waits are that were told.
func (row PeerRow) waits() report.Cell {
	var texts []string
	w := row.Walk
	if w.TooShort > 0 {
		texts = append(texts, fmt.Sprintf("%s of %s up to %s short", report.Int(w.TooShort), report.Int(w.Waits), micros(w.ShortestUS)))
	}
	if w.TooLong > 0 {
		texts = append(texts, fmt.Sprintf("%s of %s up to %s long", report.Int(w.TooLong), report.Int(w.Waits), micros(w.LongestUS)))
	}
	if row.TellsWait && !w.NeverTold {
		texts = append(texts, "a wait where it is never")
	}
	return agrees(texts, "true to the us")
}

// lifetimes are how long keys live, against what the rule needs.
func (w PeerWalk) lifetimes() report.Cell {
	var texts []string
	if w.Immortal > 0 {
		texts = append(texts, fmt.Sprintf("without an end, %s times", report.Int(w.Immortal)))
	}
	if w.DiesEarlyUS > 0 {
		texts = append(texts, "up to "+micros(w.DiesEarlyUS)+" too short")
	}
	if w.DiesLateUS > 0 {
		texts = append(texts, "up to "+micros(w.DiesLateUS)+" longer")
	}
	return agrees(texts, "as needed")
}

func agrees(differences []string, otherwise string) report.Cell {
	if len(differences) > 0 {
		return report.Cell{Text: strings.Join(differences, ", "), Tone: report.Warn}
	}
	return report.Cell{Text: otherwise, Tone: report.Good}
}

// micros is a time of few digits.
func micros(us int64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%d us", us)
	case us < 1_000_000:
		return fmt.Sprintf("%d ms", (us+500)/1000)
	}
	return fmt.Sprintf("%.1f s", float64(us)/1e6)
}

func (r *PeersResult) priceSetting() report.Line {
	return report.Text("what a decision costs: %d callers on %s, all rounds in one run", r.Bench.Callers,
		report.Count(int64(r.Bench.Keys), "key", "keys"))
}

// prices are what a decision costs, allowed and denied.
func (r *PeersResult) prices() report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: "LIMITER"}, {Title: "PATH"}, {Title: "CALLS/S", Right: true}, {Title: "SERVER us", Right: true},
		{Title: "CPU us", Right: true}, {Title: "p99 us", Right: true}, {Title: "ROUND TRIPS", Right: true}, {Title: "COMMANDS", Right: true},
		{Title: "ALLOCS", Right: true}, {Title: "BYTES", Right: true}, {Title: "ERRORS", Right: true},
	}}
	for _, row := range r.Results {
		for i, path := range []fleet.Path{fleet.Allowed, fleet.Denied} {
			f := row.figure(path)
			cell := func(v *float64, digits int) report.Cell {
				if v == nil {
					return report.Plain("–")
				}
				if digits == 0 {
					return report.Plain(report.Int(int64(*v + 0.5)))
				}
				return report.Plain(fmt.Sprintf("%.*f", digits, *v))
			}
			t.Add(report.Plain(row.Limiter), report.Plain(string(path)), cell(f.OpsPerSec, 0), cell(f.Script, 1), cell(f.CPU, 1),
				cell(f.P99, 0), report.Plain(fmt.Sprintf("%.1f", row.RoundTrips[i])), cell(f.Commands, 1), cell(f.Allocs, 1),
				cell(f.WireBytes, 0), wrongIf(f.Errors))
		}
	}
	return t
}

// figure is that of a path, or an empty one.
func (row PeerRow) figure(path fleet.Path) PeerFigure {
	for _, f := range row.Bench {
		if f.Path == string(path) {
			return f
		}
	}
	return PeerFigure{}
}

// claims are the rules, the versions and the settings.
func (r *PeersResult) claims() report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: "LIMITER"}, {Title: "MODULE"}, {Title: "RULE", Wrap: 24}, {Title: "TELLS", Wrap: 16}, {Title: "USED AS", Wrap: 24},
	}}
	for _, row := range r.Results {
		if row.Module != "" {
			t.Add(report.Plain(row.Limiter), report.Plain(row.Module+" "+row.Version), report.Plain(row.Rule), report.Plain(row.Tells),
				report.Plain(row.Settings))
		}
	}
	return t
}

// notes say how to read what is not plain.
func (r *PeersResult) notes() []report.Line {
	var lines []report.Line
	for _, row := range r.Results {
		for _, class := range slices.Sorted(maps.Keys(row.Race.Classes)) {
			lines = append(lines, report.Text("%s: %s of %s calls of the race not decided: %s", row.Limiter,
				report.Int(row.Race.Classes[class]), report.Int(row.Race.Attempts), class))
		}
	}
	return append(lines,
		report.Text("EVERY ORDER: what the explorer found, and its shortest schedule; in lower case a client dies there (rlctl prove)"),
		report.Text("ALONE: one client on a clock that is set, to the first decision that differs, in each of %s lives", report.Int(r.lives())),
		report.Text("%.1f s", float64(r.ElapsedUS)/1e6))
}

func (r *PeersResult) lives() int64 {
	if len(r.Results) == 0 {
		return 0
	}
	return r.Results[0].Walk.Lives
}
