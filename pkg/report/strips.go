package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// Strips are counts over time: a row of characters a thing, a character a step, the higher the more. All strips have one
// scale, which is told at the end of each row by its highest, unless one has its own. What is not 0 never looks like it.
type Strips struct {
	Title string // what is counted, such as "refused"
	From  time.Time
	Step  time.Duration
	Of    []Strip
}

// Strip is one row.
type Strip struct {
	Label  string
	Counts []int64 // one a step, 0 or more, and as many as the first row has
	Own    bool    // its scale is its own
}

// defaultWidth is what strips take to be there where the stream has no width.
const defaultWidth = 80

// lines draws the strips under a title with the length of a character.
func (s Strips) lines(style Style) []Line {
	if len(s.Of) == 0 || len(s.Of[0].Counts) == 0 || s.Step <= 0 {
		return nil
	}
	label, most := 0, 0
	for _, strip := range s.Of {
		label = max(label, twwidth.Width(Escape(strip.Label)))
		most = max(most, len(Int(slices.Max(strip.Counts)))) // before they are put together, which adds a digit or two
	}
	width := style.Width
	if width == 0 {
		width = defaultWidth
	}
	columns := min(mostColumns, max(leastColumns, width-label-len("  ||  most ,")-most-2))
	s = s.merged(s.together(columns))
	scale := s.scale()
	lines := []Line{nil, Text("%s per %s", s.Title, Duration(s.Step))}
	for _, strip := range s.Of {
		highest := slices.Max(strip.Counts)
		of := scale
		if strip.Own {
			of = highest
		}
		pad := strings.Repeat(" ", label-twwidth.Width(Escape(strip.Label)))
		lines = append(lines, Text("%s%s  |%s|  most %s", strip.Label, pad, heights(strip.Counts, of, style.ASCII), Int(highest)))
	}
	return append(lines, s.ends(label))
}

// together is how many steps are put together so that the columns are enough: as few as make a round time of them.
func (s Strips) together(columns int) int {
	least := (len(s.Of[0].Counts) + columns - 1) / columns
	for _, round := range RoundTimes() {
		if n := int(round / s.Step); least > 1 && n >= least && n < 3*least && round%s.Step == 0 {
			return n
		}
	}
	return least
}

// RoundTimes are the lengths of time that people count in, from 1 ms to 4 weeks.
func RoundTimes() []time.Duration {
	return slices.Concat(
		multiples(time.Millisecond, 1, 2, 5, 10, 20, 50, 100, 200, 500), multiples(time.Second, 1, 2, 5, 10, 15, 20, 30),
		multiples(time.Minute, 1, 2, 5, 10, 15, 20, 30), multiples(time.Hour, 1, 2, 3, 6, 12), multiples(day, 1, 2, 7, 14, 28),
	)
}

func multiples(of time.Duration, times ...int) (all []time.Duration) {
	for _, n := range times {
		all = append(all, time.Duration(n)*of)
	}
	return all
}

// merged puts so many steps together.
func (s Strips) merged(n int) Strips {
	s.Step *= time.Duration(n)
	s.Of = slices.Clone(s.Of)
	for i := range s.Of {
		var counts []int64
		for chunk := range slices.Chunk(s.Of[i].Counts, n) {
			sum := int64(0)
			for _, c := range chunk {
				sum += c
			}
			counts = append(counts, sum)
		}
		s.Of[i].Counts = counts
	}
	return s
}

// scale is the highest count of all that share one.
func (s Strips) scale() (highest int64) {
	for _, strip := range s.Of {
		if !strip.Own {
			highest = max(highest, slices.Max(strip.Counts))
		}
	}
	return highest
}

// ends is the line with the time at which the first step begins and the one at which the last ends.
func (s Strips) ends(label int) Line {
	from, columns := s.From.UTC(), len(s.Of[0].Counts)
	to := from.Add(s.Step * time.Duration(columns))
	format := "2006-01-02 15:04:05"
	switch {
	case s.Step < time.Second:
		format = "15:04:05.000"
	case from.Format(time.DateOnly) == to.Format(time.DateOnly):
		format = time.TimeOnly
	case s.Step >= 24*time.Hour:
		format = time.DateOnly
	}
	first, last := from.Format(format), to.Format(format)
	return Text("%*s   %s%*s UTC", label, "", first, max(2+len(last), columns-len(first)), last)
}

// heights is a character a count.
func heights(counts []int64, highest int64, ascii bool) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	if ascii {
		levels = []rune(".:-=+*#@")
	}
	var b strings.Builder
	for _, c := range counts {
		if c <= 0 {
			b.WriteByte(' ')
			continue
		}
		level := math.Ceil(float64(c) / float64(highest) * float64(len(levels)))
		b.WriteRune(levels[min(max(int(level), 1), len(levels))-1])
	}
	return b.String()
}

// markdown is the strips as they look on a terminal.
func (s Strips) markdown() string {
	lines := s.lines(Style{})
	if len(lines) == 0 {
		return ""
	}
	return fmt.Sprintf("```text\n%s```\n", Style{}.lines(lines[1:]))
}
