package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/report"
)

// Document shows what was measured: the answer, a row a limit, and what follows for the choice of a limiter.
func (r *MemResult) Document() report.Document {
	d := report.Document{Data: r, Head: []report.Line{r.answer(), r.setting()}, Table: r.table(), Foot: r.foot(), Charts: r.charts(), Made: r.Env.line()}
	for _, row := range r.Results {
		d.Records = append(d.Records, row)
	}
	return d
}

// answer says whether every key has an end, and whether the figures can be trusted.
func (r *MemResult) answer() report.Line {
	line := report.Line{{Text: "every key has a TTL", Tone: report.Good}}
	if n := r.noTTL(); n > 0 {
		line[0] = report.Cell{Text: "BROKEN: " + report.Count(n, "key has no TTL", "keys have no TTL"), Tone: report.Bad}
	}
	if len(r.Results) == 0 {
		line[0] = report.Cell{Text: "nothing was measured", Tone: report.Warn}
	}
	say := func(tone report.Tone, format string, args ...any) {
		line = append(line, report.Plain("   "), report.Cell{Text: fmt.Sprintf(format, args...), Tone: tone})
	}
	switch worst, measured := r.worst(); {
	case r.apart() != "":
		say(report.Warn, "inconclusive: %s", r.apart())
	case measured:
		say(report.Good, "both measures agree within %.1f %%", 100*worst)
	}
	if len(r.Unmeasured) > 0 {
		say(report.Warn, "%s not measured", report.Count(int64(len(r.Unmeasured)), "limiter", "limiters"))
	}
	if r.Partial {
		say(report.Warn, "partial: %s of %s", report.Int(int64(len(r.Results)+len(r.Million))), report.Count(int64(r.Config.Rows), "row", "rows"))
	}
	return line
}

// worst is how far the two measures lie apart at most, if both were taken of enough keys to tell.
func (r *MemResult) worst() (worst float64, measured bool) {
	for _, row := range r.Results {
		if row.Apart != nil && (*row.Apart <= agreement || !row.tiny()) {
			worst, measured = max(worst, *row.Apart), true
		}
	}
	return worst, measured
}

func (r *MemResult) setting() report.Line {
	return report.Text("redis %s (%s)   %s a row, as far as %s hold them   window %s", r.Env.Redis.Version, r.Env.Redis.where(),
		report.Count(r.Config.Keys, "client", "clients"), size(r.Config.RowBytes), wholeWindow(r.Config.WindowUS))
}

func wholeWindow(n int64) string { return report.Duration(time.Duration(n) * time.Microsecond) }

// table has a row a limit. A limiter that takes the same at all limits has one.
func (r *MemResult) table() report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: "LIMITER"}, {Title: "LIMIT", Right: true}, {Title: "USAGE", Right: true}, {Title: "TABLES", Right: true},
		{Title: "USED", Right: true}, {Title: "APART", Right: true}, {Title: "ENTRY", Right: true},
		{Title: "1 M CLIENTS", Right: true}, {Title: "1 G CLIENTS", Right: true, Wide: true}, {Title: "STATE", Wide: true},
		{Title: "MEASURED", Right: true, Wide: true},
	}}
	for _, rows := range r.groups() {
		limit := func(row MemRow) string { return report.Int(row.Limit) }
		if len(rows) > 1 && same(rows) {
			limit = func(MemRow) string { return "any" }
			rows = rows[len(rows)-1:]
		}
		for _, row := range rows {
			t.Add(report.Plain(row.Limiter), report.Plain(limit(row)), figure(&row.BytesPerKey), figure(&row.TableBytesPerKey),
				figure(row.BytesPerKeyDelta), percent(row.Apart), figure(row.BytesPerEntry), report.Plain(size(row.Million)),
				report.Plain(size(row.Billion)), report.Plain(row.Encoding), number(row.Keys))
		}
	}
	return t
}

// groups are the rows of each limiter.
func (r *MemResult) groups() (groups [][]MemRow) {
	for i, row := range r.Results {
		if i == 0 || row.Limiter != r.Results[i-1].Limiter {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], row)
	}
	return groups
}

// same tells whether rows take the same, but for what two measures may differ by.
func same(rows []MemRow) bool {
	sum := func(row MemRow) float64 { return row.BytesPerKey + row.TableBytesPerKey }
	least, most := sum(rows[0]), sum(rows[0])
	for _, row := range rows {
		least, most = min(least, sum(row)), max(most, sum(row))
	}
	return most-least <= agreement*least
}

func (r *MemResult) foot() []report.Line {
	lines := []report.Line{
		report.Text("bytes of a client at its limit: USAGE is MEMORY USAGE, TABLES what that leaves"),
		report.Text("out, USED by how much used_memory grew, ENTRY one event more; 1 M is projected"),
	}
	for _, why := range r.Unmeasured {
		lines = append(lines, report.Line{{Text: "not measured: " + why, Tone: report.Warn}})
	}
	lines = append(lines, r.encodings()...)
	lines = append(lines, r.extremes()...)
	lines = append(lines, r.choices()...)
	for _, m := range r.Million {
		lines = append(lines, report.Text("a real %s of %s take %s, projected were %s: %.1f %% apart", report.Count(m.Keys, "client", "clients"),
			m.Limiter, size(m.Bytes), size(m.Projected), 100*m.Apart))
	}
	return append(lines, report.Text("%.1f s", float64(r.ElapsedUS)/1e6))
}

// encodings tells where Redis changes how it keeps a log, once for all to which it does the same.
func (r *MemResult) encodings() (lines []report.Line) {
	var order []string
	names := map[string][]string{}
	for _, l := range r.Limiters {
		if !l.Log || len(l.Encodings) < 2 {
			continue
		}
		words := []string{l.Encodings[0].Encoding}
		for _, next := range l.Encodings[1:] {
			words = append(words, fmt.Sprintf("%s from %s events on", next.Encoding, report.Int(next.From)))
		}
		change := strings.Join(words, ", ")
		if !slices.Contains(order, change) {
			order = append(order, change)
		}
		names[change] = append(names[change], l.Limiter)
	}
	for _, change := range order {
		lines = append(lines, report.Text("%s: %s", strings.Join(names[change], ", "), change))
	}
	return lines
}

// extremes names what is no log and yet takes more on the way than when the whole limit is taken.
func (r *MemResult) extremes() (lines []report.Line) {
	for _, l := range r.Limiters {
		last := r.last(l.Limiter)
		if l.Log || last == nil || float64(l.MostBytes) <= (1+agreement)*last.BytesPerKey {
			continue
		}
		lines = append(lines, report.Text("%s: a USAGE of up to %s before the whole limit is taken", l.Limiter, report.Int(l.MostBytes)))
	}
	return lines
}

// choices says of each atomic log from where on a bucket takes less, and how much less at the largest limit.
func (r *MemResult) choices() (lines []report.Line) {
	for _, l := range r.Limiters {
		if !l.Atomic || len(l.Passes) == 0 {
			continue
		}
		var words []string
		for _, pass := range l.Passes {
			words = append(words, fmt.Sprintf("%s from %s on%s", pass.Limiter, report.Count(pass.From, "event", "events"),
				r.share(pass.Limiter, l.Limiter)))
		}
		lines = append(lines, report.Text("for memory a bucket is the better choice than %s: %s", l.Limiter, strings.Join(words, ", ")))
	}
	return lines
}

// share says which part of a log's memory the bucket takes at the largest limit that both were measured at.
func (r *MemResult) share(bucket, log string) string {
	a, b := r.last(log), r.last(bucket)
	if a == nil || b == nil || a.Limit != b.Limit || b.bytes() <= 0 {
		return ""
	}
	return fmt.Sprintf(" (1/%s at %s)", report.Int(int64(a.bytes()/b.bytes()+0.5)), report.Int(a.Limit))
}

func figure(f *float64) report.Cell {
	switch {
	case f == nil:
		return report.Plain("–")
	case *f < 1000:
		return report.Plain(fmt.Sprintf("%.1f", *f))
	}
	return report.Plain(report.Int(int64(*f + 0.5)))
}

func percent(f *float64) report.Cell {
	if f == nil {
		return report.Plain("–")
	}
	return report.Plain(fmt.Sprintf("%.1f %%", 100**f))
}

// size writes bytes with the unit that leaves up to three digits: 4.0 KiB, 139 MiB.
func size(bytes int64) string {
	value, unit := float64(bytes), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if value < 1000 {
			break
		}
		value, unit = value/1024, next
	}
	if value < 10 && unit != "B" {
		return fmt.Sprintf("%.1f %s", value, unit)
	}
	return fmt.Sprintf("%.0f %s", value, unit)
}
