package report

import (
	"fmt"
	"slices"
	"strings"
)

// Tone is what a cell means. Words carry the meaning, colour only helps.
type Tone int

// The tones.
const (
	Neutral Tone = iota
	Good
	Bad
	Warn
	Faint
)

// Cell is one piece of text. It is escaped when it is shown.
type Cell struct {
	Text  string
	Tone  Tone
	Typed bool // it has a command for typing again: prose is not broken in it
}

// Plain is a cell without a tone.
func Plain(text string) Cell { return Cell{Text: text} }

// Typed is a cell with a command.
func Typed(format string, args ...any) Cell {
	return Cell{Text: fmt.Sprintf(format, args...), Typed: true}
}

// Style is what one output stream can show.
type Style struct {
	Color bool
	Width int  // columns of the terminal; 0 means as wide as needed, nothing wraps
	ASCII bool // the locale has no more characters than that
}

func (t Tone) code() string {
	switch t {
	case Good:
		return "32"
	case Bad:
		return "31"
	case Warn:
		return "33"
	case Faint:
		return "2"
	default:
		return ""
	}
}

// Paint returns the cell's text, escaped, and coloured where the stream shows colour.
func (s Style) Paint(c Cell) string {
	text := Escape(c.Text)
	if code := c.Tone.code(); s.Color && code != "" && text != "" {
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	return text
}

// Line returns the line with its newline and without trailing spaces.
func (s Style) Line(l Line) string {
	var b strings.Builder
	for _, c := range l {
		b.WriteString(s.Paint(c))
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

func (s Style) lines(ls []Line) string {
	var b strings.Builder
	for _, l := range ls {
		b.WriteString(s.Line(l))
	}
	return b.String()
}

// prose is lines that are broken where the stream is narrower than they are.
func (s Style) prose(ls []Line) string {
	if s.Width == 0 {
		return s.lines(ls)
	}
	var broken []Line
	for _, l := range ls {
		broken = append(broken, l.broken(s.Width)...)
	}
	return s.lines(broken)
}

// broken returns a line as several of at most width columns, as wrap breaks text. What is typed stays whole.
func (l Line) broken(width int) (lines []Line) {
	var text strings.Builder
	l = slices.Clone(l)
	for i, c := range l {
		l[i].Text = Escape(c.Text)
		if c.Typed { // neither a space nor a slash in it is a place to break
			text.WriteString(strings.Map(solid, l[i].Text))
		} else {
			text.WriteString(l[i].Text)
		}
	}
	rest := text.String()
	for _, line := range wrap(strings.TrimRight(rest, " "), width) {
		from := text.Len() - len(rest)
		lines = append(lines, l.between(from, from+len(line)))
		rest = strings.TrimLeft(rest[len(line):], " ")
	}
	return lines
}

func solid(r rune) rune {
	if r == ' ' || r == '/' {
		return '_'
	}
	return r
}

// between returns what stands between two places in the text of a line.
func (l Line) between(from, to int) (part Line) {
	for _, c := range l {
		if lo, hi := max(from, 0), min(to, len(c.Text)); lo < hi {
			part = append(part, Cell{c.Text[lo:hi], c.Tone, c.Typed})
		}
		from, to = from-len(c.Text), to-len(c.Text)
	}
	return part
}

// Color decides whether a stream shows colour: the mode of --color first (always or never), then NO_COLOR, then
// CLICOLOR_FORCE, and last whether the stream is a terminal that is not dumb.
func Color(mode string, getenv func(string) string, terminal bool) bool {
	force := getenv("CLICOLOR_FORCE")
	switch {
	case mode == "always":
		return true
	case mode == "never" || getenv("NO_COLOR") != "":
		return false
	case force != "" && force != "0":
		return true
	}
	return terminal && getenv("TERM") != "dumb"
}

// ColorModes lists the values of --color.
func ColorModes() []string { return []string{"auto", "always", "never"} }
