package report

import (
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// Column is one column of a table.
type Column struct {
	Title string
	Right bool // numbers stand right
	Wrap  int  // prose may be broken at spaces down to this many columns when the terminal is narrow; 0 never breaks
	Wide  bool // left out, from the right on, when the terminal is too narrow for all columns
	Last  bool // left out only when it is too narrow for the others, too, with prose broken down to narrowProse
}

// narrowProse is how narrow prose may become, whatever its Wrap, when nothing is left to leave out.
const narrowProse = 12

// Table is rows of cells under titles. A table without columns shows nothing.
type Table struct {
	Columns []Column
	Rows    [][]Cell
}

// Add appends one row, a cell for each column.
func (t *Table) Add(cells ...Cell) { t.Rows = append(t.Rows, cells) }

const gap = 2 // spaces between two columns

// text lays the table out without borders: two spaces between columns, numbers right, prose broken where the
// terminal ends.
func (t Table) text(s Style) (string, error) {
	if len(t.Columns) == 0 {
		return "", nil
	}
	t = t.fit(s.Width)
	limits := t.limits(s.Width)
	cell := func(c Cell, col int) string {
		lines := wrap(Escape(c.Text), limits[col])
		for i, line := range lines {
			lines[i] = s.Paint(Cell{Text: line, Tone: c.Tone})
		}
		return strings.Join(lines, "\n")
	}
	return t.render(cell, renderer.NewBlueprint(tw.Rendition{
		Borders:  tw.BorderNone,
		Settings: tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.LinesNone},
	}), tw.Padding{Right: strings.Repeat(" ", gap), Overwrite: true})
}

// markdown lays the table out for GitHub.
func (t Table) markdown() (string, error) {
	if len(t.Columns) == 0 {
		return "", nil
	}
	cell := func(c Cell, _ int) string {
		return escapeMarkdown(strings.TrimSpace(Escape(c.Text)))
	}
	return t.render(cell, renderer.NewMarkdown(), tw.Padding{Left: " ", Right: " ", Overwrite: true})
}

func (t Table) render(cell func(Cell, int) string, r tw.Renderer, pad tw.Padding) (string, error) {
	align := make([]tw.Align, len(t.Columns))
	titles := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i], align[i] = c.Title, tw.AlignLeft
		if c.Right {
			align[i] = tw.AlignRight
		}
	}
	section := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Padding:    tw.CellPadding{Global: pad},
		Alignment:  tw.CellAlignment{PerColumn: align},
	}
	var b strings.Builder
	out := tablewriter.NewTable(&b, tablewriter.WithRenderer(r), tablewriter.WithConfig(tablewriter.Config{
		Header: section, Row: section,
		Behavior: tw.Behavior{TrimSpace: tw.Off, TrimLine: tw.Off, TrimTab: tw.Off},
	}))
	out.Header(titles)
	for _, row := range t.Rows {
		texts := make([]string, len(t.Columns))
		for i := range t.Columns {
			texts[i] = cell(row[i], i)
		}
		if err := out.Append(texts); err != nil {
			return "", err
		}
	}
	if err := out.Render(); err != nil {
		return "", err
	}
	return trimLines(b.String()), nil
}

// fit leaves out wide columns, the rightmost first, until the rest fits. Then it lets prose become narrower, and leaves out
// what may go last.
func (t Table) fit(width int) Table {
	if width <= 0 {
		return t
	}
	t = t.shed(width, func(c Column) bool { return c.Wide })
	if t.least() <= width {
		return t
	}
	narrow := Table{Columns: slices.Clone(t.Columns), Rows: t.Rows}
	for i := range narrow.Columns {
		narrow.Columns[i].Wrap = min(narrow.Columns[i].Wrap, narrowProse)
	}
	return narrow.shed(width, func(c Column) bool { return c.Last })
}

// shed leaves out columns of a kind, the rightmost first, until the rest fits or none is left.
func (t Table) shed(width int, may func(Column) bool) Table {
	for t.least() > width {
		last := -1
		for i, c := range t.Columns {
			if may(c) {
				last = i
			}
		}
		if last < 0 {
			return t
		}
		t = t.without(last)
	}
	return t
}

func (t Table) without(col int) Table {
	drop := Table{Columns: append(append([]Column{}, t.Columns[:col]...), t.Columns[col+1:]...)}
	for _, row := range t.Rows {
		drop.Add(append(append([]Cell{}, row[:col]...), row[col+1:]...)...)
	}
	return drop
}

// least is the width of the table when all prose is broken as far as it may.
func (t Table) least() int {
	sum := -gap
	for i, natural := range t.widths() {
		if t.Columns[i].Wrap > 0 {
			natural = min(natural, t.floor(i))
		}
		sum += natural + gap
	}
	return sum
}

// floor is how narrow a column of prose may become: its longest piece stays whole.
func (t Table) floor(col int) int {
	floor := t.Columns[col].Wrap
	for _, row := range t.Rows {
		for _, word := range strings.Fields(Escape(row[col].Text)) {
			for _, piece := range strings.SplitAfter(word, "/") {
				floor = max(floor, twwidth.Width(piece))
			}
		}
	}
	return floor
}

func (t Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = twwidth.Width(c.Title)
		for _, row := range t.Rows {
			widths[i] = max(widths[i], twwidth.Width(Escape(row[i].Text)))
		}
	}
	return widths
}

// limits gives each column its width: what it needs, less for the widest prose, column by column, until the
// table fits.
func (t Table) limits(width int) []int {
	limits := t.widths()
	if width <= 0 {
		return limits
	}
	floors := make([]int, len(limits))
	for i := range floors {
		floors[i] = t.floor(i)
	}
	sum := -gap
	for _, w := range limits {
		sum += w + gap
	}
	for ; sum > width; sum-- {
		widest := -1
		for i, c := range t.Columns {
			if c.Wrap > 0 && limits[i] > floors[i] && (widest < 0 || limits[i] > limits[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		limits[widest]--
	}
	return limits
}

// wrap breaks text at spaces into lines of at most width columns; a longer word is broken behind a slash, and stays whole
// without one. Runs of spaces inside a line are kept.
func wrap(text string, width int) []string {
	var lines []string
	for twwidth.Width(text) > width {
		cut := -1
		for i := range text {
			if text[i] != ' ' || strings.TrimSpace(text[:i]) == "" {
				continue
			}
			if cut >= 0 && twwidth.Width(text[:i]) > width {
				break
			}
			cut = i
		}
		if slash := lastSlash(text, width); slash > 0 && (cut < 0 || twwidth.Width(text[:cut]) > width) {
			cut = slash
		}
		if cut < 0 {
			break
		}
		lines = append(lines, strings.TrimRight(text[:cut], " "))
		text = strings.TrimLeft(text[cut:], " ")
	}
	return append(lines, text)
}

// lastSlash is the place behind the last slash in the first width columns; 0 if there is none.
func lastSlash(text string, width int) (end int) {
	for i := range text {
		if text[i] == '/' && twwidth.Width(text[:i+1]) <= width {
			end = i + 1
		}
	}
	return end
}

// trimLines takes away the padding after the last cell, which the renderer may have put behind a colour reset.
func trimLines(text string) string {
	const reset = "\x1b[0m"
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		l = strings.TrimRight(l, " ")
		bare := l
		for strings.HasSuffix(bare, reset) {
			bare = strings.TrimRight(strings.TrimSuffix(bare, reset), " ")
		}
		if bare != l {
			bare += reset
		}
		lines[i] = bare
	}
	return strings.Join(lines, "\n")
}
