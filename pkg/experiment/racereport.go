package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// Document shows the race: the answer, a row a limiter, and how hard it was pressed.
func (r *RaceResult) Document() report.Document {
	d := report.Document{Data: r, Head: []report.Line{r.answer(), r.setting()}, Table: r.table(), Foot: r.foot(), Charts: r.charts(), Made: r.Env.line()}
	for _, row := range r.Results {
		d.Records = append(d.Records, raceRecord{
			Limiter: row.Limiter, Atomic: row.Atomic, BrokenBy: row.BrokenBy, Counts: row.Counts, Verdict: row.Verdict,
			Reason: row.Reason, Expected: row.Expected,
		})
	}
	return d
}

// raceRecord is a RaceRow without what does not fit on a line.
type raceRecord struct {
	Limiter  string          `json:"limiter"`
	Atomic   bool            `json:"atomic"`
	BrokenBy target.BrokenBy `json:"broken_by"`
	Counts
	Verdict  replay.Verdict `json:"verdict"`
	Reason   string         `json:"reason"`
	Expected bool           `json:"expected"`
}

// answer says in one line what came out, of each kind of limiter apart.
func (r *RaceResult) answer() report.Line {
	var line report.Line
	say := func(tone report.Tone, format string, args ...any) {
		if len(line) > 0 {
			line = append(line, report.Plain("   "))
		}
		line = append(line, report.Cell{Text: fmt.Sprintf(format, args...), Tone: tone})
	}
	for _, kind := range []struct {
		is        func(RaceRow) bool
		one, many string
		did       string
	}{
		{func(row RaceRow) bool { return row.BrokenBy == target.Race }, "racy limiter", "racy limiters", "went over the limit"},
		{func(row RaceRow) bool { return row.Atomic }, "atomic limiter", "atomic limiters", "held"},
		{func(row RaceRow) bool { return !row.Atomic && row.BrokenBy != target.Race }, "other", "others", "did as they may"},
	} {
		if all, good := r.count(kind.is); all > 0 {
			say(tone(good == all), "%d of %s %s", good, report.Count(all, kind.one, kind.many), kind.did)
		}
	}
	if n, _ := r.count(func(row RaceRow) bool { return row.Verdict == replay.Inconclusive }); n > 0 {
		say(report.Warn, "%d inconclusive", n)
	}
	if n, _ := r.count(func(row RaceRow) bool { return row.Headers != nil && !row.Headers.Honest() }); n > 0 {
		say(report.Bad, "%d with dishonest headers", n)
	}
	if r.Partial {
		say(report.Warn, "partial: interrupted in %d of %d", len(r.Results), r.Planned)
	}
	return line
}

// count returns how many rows there are of a kind, and how many of them came out as expected.
func (r *RaceResult) count(is func(RaceRow) bool) (all, good int64) {
	for _, row := range r.Results {
		if is(row) {
			all++
			if row.Expected {
				good++
			}
		}
	}
	return all, good
}

func tone(good bool) report.Tone {
	if good {
		return report.Good
	}
	return report.Warn // what broke is red in its own row
}

func (r *RaceResult) setting() report.Line {
	who := report.Count(int64(r.Procs), "process", "processes")
	switch {
	case r.GoroutinesOnly:
		who = report.Count(int64(r.Procs*r.Clients), "goroutine", "goroutines") + " of one process"
	case r.Clients > 1:
		who += " of " + report.Int(int64(r.Clients)) + " clients"
	}
	at := r.Redis.where()
	if r.RTTUS > 0 {
		at += ", " + (time.Duration(r.RTTUS) * time.Microsecond).String() + " there and back"
	}
	if r.Failover {
		at += ", whose master dies"
		if r.LagUS > 0 {
			at += " " + (time.Duration(r.LagUS) * time.Microsecond).String() + " after its replica heard from it last"
		}
	}
	return report.Text("redis %s (%s)   %s, one key, released together   limit %s per %s", r.Redis.Version, at, who,
		report.Int(r.Limit), report.Duration(time.Duration(r.WindowUS)*time.Microsecond))
}

// explorable tells whether a limiter from outside can be put behind the explorer's proxy: not a service, and not several
// that share a key.
func (row RaceRow) explorable() bool {
	outside := strings.HasPrefix(row.Limiter, "exec:") || strings.HasPrefix(row.Limiter, "lua:")
	return outside && !strings.Contains(row.Limiter, mixedWith)
}

// longestName is as wide as the name of a limiter in the catalogue, with its indent: those from outside may be longer, and
// are broken where a terminal is narrow.
const longestName = 17

// table has each atomic limiter under those that imitate it.
func (r *RaceResult) table() report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: "LIMITER", Wrap: longestName}, {Title: "ATTEMPTS", Right: true, Last: true}, {Title: "ALLOWED", Right: true}, {Title: "RULE", Right: true},
		{Title: "OVER", Right: true}, {Title: "UNDER", Right: true}, {Title: "ERRORS", Right: true, Wide: true},
		{Title: "UNKNOWN", Right: true, Wide: true}, {Title: "RETRIES", Right: true, Wide: true}, {Title: "VERDICT", Wrap: 24},
	}}
	for _, group := range r.groups() {
		for _, row := range group {
			name := row.Limiter
			if row.Twin == "" && len(group) > 1 {
				name = "  " + name
			}
			t.Add(report.Plain(name), number(row.Attempts), number(row.Allowed), number(row.Allowance),
				difference(row.Overshoot), difference(row.Undershoot), number(row.Errors), number(row.Unknown), number(row.Retries),
				row.verdict())
		}
	}
	return t
}

// groups puts those with one rule together, the one whose rule it is last.
func (r *RaceResult) groups() [][]RaceRow {
	var order []string
	groups := map[string][]RaceRow{}
	for _, row := range r.Results {
		rule := cmp.Or(row.Twin, row.Limiter)
		if groups[rule] == nil {
			order = append(order, rule)
		}
		groups[rule] = append(groups[rule], row)
	}
	var out [][]RaceRow
	for _, rule := range order {
		group := groups[rule]
		slices.SortStableFunc(group, func(a, b RaceRow) int { return rank(a) - rank(b) })
		out = append(out, group)
	}
	return out
}

func rank(row RaceRow) int {
	switch {
	case row.Twin == "":
		return 2
	case row.Atomic:
		return 1
	}
	return 0
}

func number(n int64) report.Cell     { return report.Plain(report.Int(n)) }
func difference(n int64) report.Cell { return report.Plain(report.Signed(n)) }

func (row RaceRow) verdict() report.Cell {
	switch {
	case row.Verdict == replay.Inconclusive:
		return report.Cell{Text: "inconclusive: " + row.Reason, Tone: report.Warn}
	case row.Verdict == replay.Broken && !row.Expected:
		return report.Cell{Text: "BROKEN: " + row.Reason, Tone: report.Bad}
	case row.Verdict == replay.Held && !row.Expected:
		return report.Cell{Text: "not caught: held " + row.Reason, Tone: report.Bad}
	case row.Verdict == replay.Broken && row.BrokenBy == target.Race:
		return report.Cell{Text: "over, as it must be: " + row.Flaw, Tone: report.Good}
	case row.Verdict == replay.Broken:
		return report.Cell{Text: "over, as it may be: " + row.Flaw, Tone: report.Good}
	case row.flawElsewhere():
		return report.Cell{Text: fmt.Sprintf("held; %s breaks it", row.BrokenBy), Tone: report.Good}
	case row.Replayed > 0:
		return report.Cell{Text: "held   " + compared(row.Replayed, row.Recalled), Tone: report.Good}
	}
	return report.Cell{Text: "held   " + row.Reason, Tone: report.Good}
}

// compared tells how many decisions were held against the rule's.
func compared(replayed, recalled int64) string {
	text := report.Int(replayed) + " replayed"
	if recalled > 0 {
		text += ", " + report.Int(recalled) + " from memory"
	}
	return text
}

// foot has what is to be known of single limiters, then how hard all were pressed.
func (r *RaceResult) foot() []report.Line {
	var sum Counts
	var lines []report.Line
	for _, row := range r.Results {
		sum.add(row.Counts)
		lines = append(lines, row.notes()...)
	}
	if r.GoroutinesOnly && slices.ContainsFunc(r.Results, func(row RaceRow) bool { return row.Limiter == "local-bucket" }) {
		lines = append(lines, report.Text("local-bucket: one bucket a client here, since all clients are in one process"))
	}
	if slices.ContainsFunc(r.Results, RaceRow.flawElsewhere) {
		lines = append(lines, report.Line{report.Plain("what denial, skew or crash breaks, a race does not show; what it is: "), report.Typed("rlctl list")})
	}
	callers := int64(r.Procs) * int64(r.Clients)
	demand := "without limit"
	switch {
	case len(r.Results) == 0:
		demand = "none"
	case r.Limit > 0:
		demand = fmt.Sprintf("%s times the limit", report.Int(r.demand()))
	}
	lines = append(lines,
		report.Text("demand %s, %s; %s, %s unknown, %s; %.1f s", demand, report.Count(callers, "caller", "callers"),
			report.Count(sum.Errors, "error", "errors"), report.Int(sum.Unknown),
			report.Count(sum.Retries, "retry", "retries"), float64(r.ElapsedUS)/1e6),
		report.Text("seed %s: it gives the request ids again, not the interleaving", r.Seed))
	for _, row := range r.Results {
		if row.Headers != nil { // what is behind it cannot be explained
			continue
		}
		if row.Verdict == replay.Broken && (row.BrokenBy == target.Race || row.explorable()) {
			return append(lines, report.Line{report.Typed("next: rlctl race %s --explain", typedName(row.Limiter, row.Atomic, row.Twin))})
		}
	}
	return lines
}

// demand is how many times the limit was asked for in the round that asked for the least.
func (r *RaceResult) demand() int64 {
	least := math.Inf(1)
	for _, row := range r.Results {
		for _, round := range row.Rounds {
			least = min(least, float64(round.Attempts)*float64(r.Cost)/float64(r.Limit))
		}
	}
	if least > math.MaxInt64/2 {
		return math.MaxInt64 / 2
	}
	return int64(least)
}

// flawElsewhere tells whether the row held because a race is not what breaks it.
func (row RaceRow) flawElsewhere() bool {
	return row.Verdict == replay.Held && row.BrokenBy != target.Nothing && row.BrokenBy != target.Race
}

func (row RaceRow) notes() []report.Line {
	var lines []report.Line
	if n := len(row.Rounds); n > 1 {
		lines = append(lines, report.Text("%s: sums of %d rounds on fresh keys", row.Limiter, n))
	}
	sum := map[limiter.Class]int64{}
	for _, round := range row.Rounds {
		for class, n := range round.Classes {
			sum[class] += n
		}
		for _, death := range round.Deaths {
			lines = append(lines, report.Line{{Text: fmt.Sprintf("%s: worker %d died (%s); its open call counts as unknown",
				row.Limiter, death.Proc, death.Cause), Tone: report.Bad}})
		}
	}
	for _, class := range slices.Sorted(maps.Keys(sum)) {
		lines = append(lines, report.Line{{Text: fmt.Sprintf("%s: %s not decided: %s", row.Limiter,
			report.Count(sum[class], "call", "calls"), class), Tone: report.Warn}})
	}
	lines = append(lines, row.failoverNote()...)
	return append(lines, headerNotes(row.Limiter, row.Headers)...)
}
