package experiment

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchmath"

	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// assertion is what must hold of one figure: of one row, of one limiter's rows, or of those of all limiters, the floors
// left out. The figure is held against a number, or against a multiple of what another row of the same bench has: then
// round by round, so that what slowed a round down slowed both.
type assertion struct {
	text              string
	limiter, path     string // empty is any
	figure            string
	op                string
	bound             float64
	against, withPath string // the other row, if there is one; no path is that of the row itself
}

var assertionForm = regexp.MustCompile(`^(?:(.+):)?\s*([a-z0-9_]+)\s*(<=|>=|<|>)\s*([0-9.eE+-]+)(?:\s*\*\s*(.+))?$`)

// parseAssertion reads what --assert gives, such as gcra/denied:script_us<6. An error does not name the flag.
func parseAssertion(text string) (assertion, error) {
	m := assertionForm.FindStringSubmatch(text)
	if m == nil {
		return assertion{}, fmt.Errorf("%q: want [LIMITER[/PATH]:]FIGURE<NUMBER[*LIMITER[/PATH]], with <, <=, > or >=", text)
	}
	a := assertion{text: text, figure: m[2], op: m[3]}
	a.limiter, a.path, _ = strings.Cut(strings.TrimSpace(m[1]), "/")
	a.against, a.withPath, _ = strings.Cut(strings.TrimSpace(m[5]), "/")
	var err error
	if a.bound, err = strconv.ParseFloat(m[4], 64); err != nil || known(a.bound) == nil {
		return assertion{}, fmt.Errorf("%q: %q is not a number", text, m[4])
	}
	if names := assertable(); !slices.Contains(names, a.figure) {
		return assertion{}, fmt.Errorf("%q: no figure has that name; there are %s", text, strings.Join(names, ", "))
	}
	return a, nil
}

// assertable are the figures of a row that may be asserted about.
func assertable() (names []string) {
	for name := range new(BenchFigures).fields() {
		names = append(names, name)
	}
	return append(names, "floor_ratio", "empty_ratio", "incr_ratio", "ops", "errors")
}

// value is a figure of a row, nil if it was not measured.
func (row *BenchRow) value(name string) *float64 {
	switch {
	case row.Unmeasured != "":
		return nil
	case name == "ops":
		return known(float64(row.Ops))
	case name == "errors":
		return known(float64(row.Errors))
	}
	for n, v := range map[string]*float64{"floor_ratio": row.FloorRatio, "empty_ratio": row.EmptyRatio, "incr_ratio": row.IncrRatio} {
		if n == name {
			return v
		}
	}
	for n, v := range row.BenchFigures.fields() {
		if n == name {
			return *v
		}
	}
	return nil
}

// assertions reads what must hold and refuses what this plan does not measure.
func (p Bench) assertions(rows []target.Entry) ([]assertion, error) {
	var all []assertion
	for _, text := range p.Asserts {
		a, err := parseAssertion(text)
		if err != nil {
			return nil, fmt.Errorf("--assert: %w", err)
		}
		measured := append(target.Names(rows), target.Names(target.Floors())...)
		switch {
		case a.limiter != "" && !slices.Contains(measured, a.limiter):
			return nil, fmt.Errorf("--assert: %q: %s is not measured here", text, a.limiter)
		case a.against != "" && !slices.Contains(measured, a.against):
			return nil, fmt.Errorf("--assert: %q: %s is not measured here", text, a.against)
		case a.path != "" && !slices.Contains(p.paths(), a.path):
			return nil, fmt.Errorf("--assert: %q: the %s path is not measured here", text, a.path)
		case a.withPath != "" && !slices.Contains(p.paths(), a.withPath):
			return nil, fmt.Errorf("--assert: %q: the %s path is not measured here", text, a.withPath)
		case a.figure == "lag_p99_us" && p.Rate == 0:
			return nil, fmt.Errorf("--assert: %q: only a load with a --rate has a lag", text)
		}
		all = append(all, a)
	}
	return all, nil
}

// check says what came of an assertion. It is broken by one row that breaks it, and else inconclusive if a row that it
// names has no such figure, or there is no such row. Where all rows hold, the one nearest to the bound is told.
func (a assertion) check(rows []BenchRow) BenchCheck {
	c := BenchCheck{Assert: a.text, Verdict: replay.Inconclusive, Reason: "no row was measured"}
	nearest, first := 0.0, true
	for i := range rows {
		if !a.names(&rows[i]) {
			continue
		}
		verdict, v, reason := a.judge(rows, &rows[i])
		if first || verdict == replay.Broken || c.Verdict == replay.Held && (verdict != replay.Held || a.nearer(v, nearest)) {
			c.Verdict, c.Reason, nearest = verdict, reason, v
		}
		if first = false; verdict == replay.Broken {
			break
		}
	}
	return c
}

// judge holds one row, and tells what the bound is held against.
func (a assertion) judge(rows []BenchRow, row *BenchRow) (verdict replay.Verdict, v float64, reason string) {
	if a.against != "" {
		return a.compare(rows, row)
	}
	measured := row.value(a.figure)
	if measured == nil {
		return replay.Inconclusive, 0, fmt.Sprintf("%s, %s: %s was not measured", row.Limiter, row.Path, a.figure)
	}
	verdict = replay.Broken
	if a.holds(*measured) {
		verdict = replay.Held
	}
	return verdict, *measured, fmt.Sprintf("%s, %s: %s is %.4g", row.Limiter, row.Path, a.figure, *measured)
}

// nearer tells whether one of two values that hold is nearer to the bound.
func (a assertion) nearer(v, than float64) bool {
	if strings.HasPrefix(a.op, "<") {
		return v > than
	}
	return v < than
}

// compare holds a row against another, by the 95 % interval of the median of the ratios of their rounds.
func (a assertion) compare(rows []BenchRow, row *BenchRow) (replay.Verdict, float64, string) {
	path := cmp.Or(a.withPath, row.Path)
	i := slices.IndexFunc(rows, func(r BenchRow) bool { return r.Limiter == a.against && (r.Path == path || floor(r.Limiter)) })
	if i < 0 {
		return replay.Inconclusive, 0, fmt.Sprintf("%s, %s was not measured", a.against, path)
	}
	ours, theirs := row.samples(a.figure), rows[i].samples(a.figure)
	if len(ours) == 0 || len(ours) != len(theirs) {
		return replay.Inconclusive, 0, fmt.Sprintf("%s, %s: %s was not measured in the rounds of both", row.Limiter, row.Path, a.figure)
	}
	for i := range ours {
		ours[i] /= theirs[i]
	}
	s := benchmath.AssumeNothing.Summary(sample(ours), confidence)
	text := fmt.Sprintf("%s, %s: %s is %.3f of that of %s, %.3f to %.3f", row.Limiter, row.Path, a.figure, s.Center, a.against, s.Lo, s.Hi)
	switch {
	case unbounded(s):
		return replay.Inconclusive, s.Center, text + ": too few rounds for an interval"
	case a.holds(s.Lo) && a.holds(s.Hi):
		return replay.Held, s.Center, text
	case !a.holds(s.Lo) && !a.holds(s.Hi):
		return replay.Broken, s.Center, text
	}
	return replay.Inconclusive, s.Center, text
}

func (a assertion) names(row *BenchRow) bool {
	return (a.limiter == row.Limiter || a.limiter == "" && !floor(row.Limiter)) && (a.path == "" || a.path == row.Path)
}

func (a assertion) holds(v float64) bool {
	switch a.op {
	case "<":
		return v < a.bound
	case "<=":
		return v <= a.bound
	case ">":
		return v > a.bound
	}
	return v >= a.bound
}

// Verdict is that of all assertions together: broken by one that is broken, and held if there is none.
func (r *BenchResult) Verdict() replay.Verdict {
	verdict := replay.Held
	for _, c := range r.Checks {
		switch c.Verdict {
		case replay.Broken:
			return replay.Broken
		case replay.Inconclusive:
			verdict = replay.Inconclusive
		}
	}
	return verdict
}

// Checks are the assertions of several benches and what came of them.
func Checks(benches []*BenchResult) report.Document {
	d := report.Document{Table: report.Table{Columns: []report.Column{{Title: "WHAT IS TO HOLD"}, {Title: "MEASURED", Wrap: 24}, {Title: "VERDICT"}}}}
	for _, r := range benches {
		for _, c := range r.Checks {
			d.Table.Add(report.Plain(c.Assert), report.Plain(c.Reason), report.Plain(string(c.Verdict)))
		}
		d.Made = r.Env.line()
	}
	return d
}

// checks shows what came of the assertions.
func (r *BenchResult) checks() (lines []report.Line) {
	for _, c := range r.Checks {
		text, tone := "assert "+c.Assert+": "+string(c.Verdict), report.Good
		if c.Reason != "" {
			text += ": " + c.Reason
		}
		if c.Verdict != replay.Held {
			tone = report.Warn
		}
		if c.Verdict == replay.Broken {
			tone = report.Bad
		}
		lines = append(lines, report.Line{{Text: text, Tone: tone}})
	}
	return lines
}
