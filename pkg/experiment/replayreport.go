package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/report"
)

// Document shows the answer, what each limit refuses, when, and whom most.
func (r *ReplayResult) Document() report.Document {
	d := report.Document{
		Data: r, Head: append([]report.Line{r.answer()}, r.setting()...), Strips: r.strips(), Charts: r.charts(),
		Made: report.Text("%s   rlctl %s", r.Command, r.Version),
	}
	if r.Log.Requests > 0 {
		d.Table = r.table()
	}
	for _, row := range r.Results {
		d.Records = append(d.Records, row)
	}
	if len(r.Most) == 0 {
		d.Foot = r.foot()
		return d
	}
	d.More = []report.Document{{Table: r.clients(), Foot: r.foot()}}
	return d
}

// answer is what is refused, from the mildest limit to the strictest.
func (r *ReplayResult) answer() report.Line {
	switch {
	case r.Log.Requests == 0 && r.leftOut() == 0 && !r.Partial:
		return report.Line{{Text: "inconclusive: the log has no requests", Tone: report.Warn}}
	case r.Log.Requests == 0 || len(r.Results) == 0:
		return report.Line{{Text: "no request could be read", Tone: report.Warn}}
	}
	line := report.Line{{Text: r.refuses()}}
	switch {
	case r.Partial:
		line = append(line, report.Cell{Text: "   partial: only the beginning was read", Tone: report.Warn})
	case !r.Complete:
		line = append(line, report.Cell{Text: fmt.Sprintf("   inconclusive: %s of %s left out",
			report.Int(r.leftOut()), report.Count(r.Log.Lines-r.Log.Blank, "line", "lines")), Tone: report.Warn})
	}
	return line
}

// refuses is the answer in words.
func (r *ReplayResult) refuses() string {
	mildest, strictest := r.mildest(), slices.MaxFunc(r.Results, byRefused)
	switch {
	case len(r.Results) == 1:
		return r.would(strictest)
	case strictest.Refused == 0:
		return "none of the limits would refuse anything"
	case mildest.Refused == strictest.Refused:
		return fmt.Sprintf("each of the limits would refuse %s of the requests", percentage(strictest.RefusedShare))
	}
	return fmt.Sprintf("from %s (%s) to %s (%s) of the requests would be refused",
		percentage(mildest.RefusedShare), r.named(mildest), percentage(strictest.RefusedShare), r.named(strictest))
}

func byRefused(a, b ReplayRow) int { return cmp.Compare(a.Refused, b.Refused) }

func (r *ReplayResult) mildest() ReplayRow { return slices.MinFunc(r.Results, byRefused) }

// would is what one limit does.
func (r *ReplayResult) would(row ReplayRow) string {
	if row.Refused == 0 {
		return "nothing would be refused"
	}
	return fmt.Sprintf("%s of the requests would be refused, and %s of %s at least once", percentage(row.RefusedShare),
		report.Int(row.ClientsRefused), report.Count(row.Clients, "client", "clients"))
}

// percentage has three digits that count, and more near to all. It never says 0 of what is not nothing, nor 100 of what
// is not all.
func percentage(share float64) string {
	const least = 1e-6
	switch {
	case share > 0 && share < least:
		return "< 0.0001 %"
	case share < 1 && share > 1-least:
		return "> 99.9999 %"
	case share < 1 && share >= 0.9995:
		return strconv.FormatFloat(math.Floor(share*1e6)/1e4, 'f', -1, 64) + " %"
	}
	return report.Figure(math.Round(share*1e6)/1e4) + " %"
}

// named is a row as the others need it told apart.
func (r *ReplayResult) named(row ReplayRow) string {
	name := row.rate()
	if r.limiters() > 1 {
		name = row.Limiter + " " + name
	}
	return name
}

// limiters is how many there are, each with all limits.
func (r *ReplayResult) limiters() (n int) {
	for i, row := range r.Results {
		if i == 0 || row.Limiter != r.Results[i-1].Limiter {
			n++
		}
	}
	return n
}

// rate is the limit as it is typed: 100/1m, with the burst of a bucket.
func (row ReplayRow) rate() string {
	text := fmt.Sprintf("%s/%s", report.Int(row.Limit), typedWindow(row.WindowUS))
	if row.Burst > 0 {
		text += " burst " + report.Int(row.Burst)
	}
	return text
}

// typedWindow is a window as people type it: 1m for 1m0s, 1h for 1h0m0s.
func typedWindow(us int64) string {
	text := wholeWindow(us)
	for _, nothing := range []string{"m0s", "h0m"} {
		if short, ok := strings.CutSuffix(text, nothing); ok {
			text = short + nothing[:1]
		}
	}
	return text
}

func (r *ReplayResult) setting() []report.Line {
	log := r.Log
	if log.Requests == 0 {
		return r.faults()
	}
	from, to := utcMicro(log.FromUS), utcMicro(log.ToUS)
	end := time.RFC3339
	if from.Format(time.DateOnly) == to.Format(time.DateOnly) {
		end = "15:04:05Z07:00"
	}
	lines := []report.Line{report.Text("%s of %s in %s   %s to %s", report.Count(log.Requests, "request", "requests"),
		report.Count(log.Clients, "client", "clients"), report.Duration(to.Sub(from)), from.Format(time.RFC3339), to.Format(end))}
	return append(lines, r.faults()...)
}

// faults say what was left out, and how to do better.
func (r *ReplayResult) faults() (lines []report.Line) {
	warn := func(format string, args ...any) {
		lines = append(lines, report.Line{{Text: fmt.Sprintf(format, args...), Tone: report.Warn}})
	}
	if n := r.Log.Unsorted; n > 0 && !r.Log.Sorted {
		warn("%s earlier than a line before, left out: --sort takes all in the order of their times", report.Count(n, "line is", "lines are"))
	}
	for _, reason := range r.Log.Reasons {
		warn("%s, left out: %s (line%s)", report.Count(reason.Lines, "broken line", "broken lines"), reason.Reason, r.firstOf(reason))
	}
	return lines
}

// firstOf are the first lines that are broken for that reason, as far as they are known.
func (r *ReplayResult) firstOf(reason ReplayReason) string {
	var numbers []string
	for _, f := range r.Log.Faults {
		if f.Reason == reason.Reason {
			numbers = append(numbers, report.Int(f.Line))
		}
	}
	text := " " + strings.Join(numbers, ", ")
	if int64(len(numbers)) < reason.Lines {
		text += ", ..."
	}
	if reason.Lines > 1 {
		text = "s" + text
	}
	return text
}

func (r *ReplayResult) table() report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: "LIMITER"}, {Title: "LIMIT", Right: true}, {Title: "REFUSED", Right: true}, {Title: "SHARE", Right: true},
		{Title: "CLIENTS", Right: true, Wide: true}, {Title: "SHARE", Right: true, Wide: true}, {Title: "FIRST", Wide: true},
	}}
	for _, row := range r.Results {
		first := "–"
		if row.FirstUS != nil {
			first = utcMicro(*row.FirstUS).Format(time.RFC3339)
		}
		t.Add(report.Plain(row.Limiter), report.Plain(row.rate()), number(row.Refused), report.Plain(percentage(row.RefusedShare)),
			number(row.ClientsRefused), report.Plain(percentage(row.ClientsShare)), report.Plain(first))
	}
	return t
}

// strips show all requests, and below them on one scale what each limit refuses.
func (r *ReplayResult) strips() report.Strips {
	s := report.Strips{
		Title: "requests, and of them refused,", From: utcMicro(r.Over.FromUS), Step: time.Duration(r.Over.StepUS) * time.Microsecond,
	}
	if len(r.Over.Requests) == 0 {
		return s
	}
	s.Of = append(s.Of, report.Strip{Label: "all requests", Counts: r.Over.Requests, Own: true})
	for i, row := range r.Results {
		if row.Refused > 0 && i < len(r.Over.Refused) && len(r.Over.Refused[i]) == len(r.Over.Requests) {
			s.Of = append(s.Of, report.Strip{Label: r.named(row), Counts: r.Over.Refused[i]})
		}
	}
	return s
}

// charts draw the same.
func (r *ReplayResult) charts() []report.Chart {
	unit, in := r.chartUnit()
	step := float64(r.Over.StepUS) / float64(unit.Microseconds())
	c := report.Chart{
		Title: "Requests refused over time",
		Note:  report.Count(r.Log.Requests, "request", "requests") + " in all",
		X:     report.Axis{Label: fmt.Sprintf("%s from %s on", in, utcMicro(r.Over.FromUS).Format(time.RFC3339Nano))},
		Y:     report.Axis{Label: "refused per " + wholeWindow(r.Over.StepUS)},
	}
	for i, counts := range r.Over.Refused {
		if i >= len(r.Results) {
			break
		}
		s := report.Series{Name: r.named(r.Results[i])}
		for n, count := range counts {
			s.Points = append(s.Points, report.Point{X: float64(n) * step, Y: float64(count)})
		}
		c.Series = append(c.Series, s)
	}
	return []report.Chart{c}
}

// chartUnit is the unit of time that suits the length of the log.
func (r *ReplayResult) chartUnit() (unit time.Duration, name string) {
	switch span := time.Duration(r.Log.ToUS-r.Log.FromUS) * time.Microsecond; {
	case span > 4*24*time.Hour:
		return 24 * time.Hour, "days"
	case span > 4*time.Hour:
		return time.Hour, "hours"
	case span > 4*time.Minute:
		return time.Minute, "minutes"
	}
	return time.Second, "seconds"
}

// clients are those refused most, with a column a limit as far as there is room.
func (r *ReplayResult) clients() report.Table {
	t := report.Table{Columns: []report.Column{{Title: "REFUSED MOST", Wrap: 16}, {Title: "REQUESTS", Right: true}}}
	for i, row := range r.Results {
		t.Columns = append(t.Columns, report.Column{Title: r.named(row), Right: true, Wide: i > 0})
	}
	for _, c := range r.Most {
		cells := []report.Cell{report.Plain(c.Client), number(c.Requests)}
		for i := range r.Results {
			refused := int64(0)
			if i < len(c.Refused) {
				refused = c.Refused[i]
			}
			cells = append(cells, number(refused))
		}
		t.Add(cells...)
	}
	return t
}

func (r *ReplayResult) foot() (lines []report.Line) {
	if len(r.Most) > 0 && !r.ShowKeys {
		lines = append(lines, report.Text("clients are named by digests of this run alone; by their keys: --show-keys"))
	}
	lines = append(lines, r.odd()...)
	if coarse := r.coarse(); coarse != "" {
		lines = append(lines, report.Line{{Text: coarse, Tone: report.Warn}})
	}
	speed := ""
	if r.ElapsedUS > 0 && r.Log.Requests > 0 {
		speed = fmt.Sprintf("   %s requests a second", report.Figure(float64(r.Log.Requests)/float64(r.ElapsedUS)*1e6))
	}
	lines = append(lines, report.Text("%s read and decided in %s%s", report.Count(r.Log.Lines, "line", "lines"),
		report.Time(time.Duration(r.ElapsedUS)*time.Microsecond), speed))
	return append(lines, r.next())
}

// next is how to try a limit on real requests: the mildest of those that refuse anything.
func (r *ReplayResult) next() report.Line {
	if len(r.Results) == 0 || r.Log.Requests == 0 {
		return nil
	}
	row := r.mildest()
	for _, other := range r.Results {
		if other.Refused > 0 && (row.Refused == 0 || other.Refused < row.Refused) {
			row = other
		}
	}
	text := fmt.Sprintf("next: rlctl serve --shadow --limiter %s --limit %d/%s", row.Limiter, row.Limit, typedWindow(row.WindowUS))
	if row.Burst > 0 {
		text += fmt.Sprintf(" --burst %d", row.Burst)
	}
	return report.Line{report.Typed("%s", text)}
}

// odd tells of requests that ask for too much, once where it is the same for all limits.
func (r *ReplayResult) odd() (lines []report.Line) {
	rows := r.Results
	same := !slices.ContainsFunc(rows, func(row ReplayRow) bool { return row.Never != rows[0].Never })
	for i, row := range rows {
		if row.Untaken > 0 {
			lines = append(lines, report.Line{{Text: fmt.Sprintf("%s takes at most %s events at once: %s not decided on", r.named(row),
				report.Int(limiter.MaxLogCost), report.Count(row.Untaken, "request was", "requests were")), Tone: report.Warn}})
		}
		if row.Never > 0 && (i == 0 || !same) {
			what := r.named(row) + " holds"
			if same {
				what = "any of the limits holds"
			}
			lines = append(lines, report.Text("%s can never pass: more than %s", report.Count(row.Never, "request", "requests"), what))
		}
	}
	return lines
}

// coarse says what the times of the log are too coarse for. Requests of one second that a log puts at its beginning look
// like one burst.
func (r *ReplayResult) coarse() string {
	const enough = 10
	shortest := int64(0)
	for _, row := range r.Results {
		if shortest == 0 || row.WindowUS < shortest {
			shortest = row.WindowUS
		}
	}
	if r.Log.Requests == 0 || r.Log.Precision == 1 || shortest >= enough*r.Log.Precision {
		return ""
	}
	return fmt.Sprintf("the log tells times to %s only: too coarse for a window of %s", wholeWindow(r.Log.Precision), wholeWindow(shortest))
}
