package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// Bars are durations as bars on a log scale, which shows microseconds and seconds in one picture: a bar twice as long
// is not twice the time. All bars of a document have one scale, from the power of ten below the shortest to the one above
// the longest, which is told under them. A bar's end is exact to an eighth of a column.
type Bars struct {
	Title string
	Of    []Bar
}

// Bar is one duration under its name, such as "99%". One that is not above 0 has no bar.
type Bar struct {
	Label string
	Time  time.Duration
}

// The columns of a bar: so many where the terminal has no end, and never fewer than the least.
const (
	mostColumns  = 48
	leastColumns = 8
)

// barLines draws all bars of a document for a stream.
func barLines(all []Bars, s Style) []Line {
	if len(all) == 0 {
		return nil
	}
	var every []Bar
	for _, b := range all {
		every = append(every, b.Of...)
	}
	least, most := span(every)
	label := 0
	for _, bar := range every {
		label = max(label, twwidth.Width(Escape(bar.Label)))
	}
	var lines []Line
	for _, b := range all {
		lines = append(append(lines, nil), b.lines(s, label, least, most)...)
	}
	return append(lines, Text("%*s  log scale, %s to %s", label, "", s.short(least), s.short(most)), nil)
}

// lines draws the bars behind labels of so many columns.
func (b Bars) lines(s Style, label int, least, most time.Duration) []Line {
	columns := mostColumns
	if s.Width > 0 {
		columns = min(columns, max(leastColumns, s.Width-label-len("  ")-len(" 1,000 ms")))
	}
	lines := []Line{Text("%s", b.Title)}
	for _, bar := range b.Of {
		share := 0.0
		if bar.Time > 0 {
			share = math.Log(float64(bar.Time)/float64(least)) / math.Log(float64(most)/float64(least))
		}
		pad := strings.Repeat(" ", label-twwidth.Width(Escape(bar.Label)))
		lines = append(lines, Text("%s%s  %s %s", bar.Label, pad, stroke(share*float64(columns), s.ASCII), s.short(bar.Time)))
	}
	return lines
}

// span is from the power of ten below the shortest bar to the one above the longest.
func span(bars []Bar) (least, most time.Duration) {
	least, most = math.MaxInt64, 0
	for _, bar := range bars {
		if bar.Time > 0 {
			least, most = min(least, bar.Time), max(most, bar.Time)
		}
	}
	if most == 0 {
		return time.Microsecond, time.Millisecond
	}
	low := math.Pow(10, math.Ceil(math.Log10(float64(least)))-1) // below, so that the shortest has a bar
	high := math.Pow(10, math.Floor(math.Log10(float64(most)))+1)
	return max(1, time.Duration(low)), time.Duration(min(high, math.MaxInt64/2))
}

// stroke is a bar of so many columns.
func stroke(columns float64, ascii bool) string {
	if ascii {
		return strings.Repeat("#", int(math.Round(columns)))
	}
	eighths := int(math.Round(columns * 8))
	bar := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		bar += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return bar
}

// short is the time with three digits that count, in ASCII if need be.
func (s Style) short(d time.Duration) string {
	text := Time(d)
	if s.ASCII {
		text = strings.ReplaceAll(text, "µs", "us")
	}
	return text
}

// Time writes a measured time in the unit that suits it: 340 ns, 2.41 µs, 12.3 ms, 1.5 s.
func Time(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d >= unit.of {
			return fmt.Sprintf("%s %s", Figure(float64(d)/float64(unit.of)), unit.name)
		}
	}
	return fmt.Sprintf("%d ns", d)
}
