package report

import (
	"strings"
	"testing"
	"time"
)

func TestStrips(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
	many := make([]int64, 200)
	many[0], many[199] = 1, 1000
	for name, c := range map[string]struct {
		strips Strips
		style  Style
		want   string
	}{
		"two scales": {Strips{"refused", from, time.Minute, []Strip{{"all", []int64{10, 20, 0, 80}, true}, {"a", []int64{0, 1, 0, 4}, false}, {"µb", []int64{0, 8, 1, 0}, false}}},
			Style{}, `
refused per 1m0s
all  |▁▂ █|  most 80
a    | ▁ ▄|  most 4
µb   | █▁ |  most 8
      06:00:00  06:04:00 UTC
`},
		"ascii": {Strips{"refused", from, 24 * time.Hour, []Strip{{"a", []int64{1, 2, 3, 8}, false}}}, Style{ASCII: true}, `
refused per 1d
a  |.:-@|  most 8
    2026-11-30  2026-12-04 UTC
`},
		"nothing": {Strips{"refused", from, time.Minute, []Strip{{"a", []int64{0, 0}, false}}}, Style{}, `
refused per 1m0s
a  |  |  most 0
    06:00:00  06:02:00 UTC
`},
		"put together": {Strips{"refused", from, 20 * time.Second, []Strip{{"a", many, false}}}, Style{Width: 60}, `
refused per 2m0s
a  |▁                                █|  most 1,000
    06:00:00                  07:08:00 UTC
`},
		"no steps": {Strips{"refused", from, time.Minute, []Strip{{"a", nil, false}}}, Style{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.style.lines(c.strips.lines(c.style)); got != c.want {
				t.Errorf("%s\nwant\n%s", got, c.want)
			}
			for line := range strings.Lines(c.style.lines(c.strips.lines(c.style))) {
				if c.style.Width > 0 && len([]rune(line)) > c.style.Width+1 {
					t.Errorf("wider than %d: %q", c.style.Width, line)
				}
			}
		})
	}
}

// Strips stand between the table and the foot, in Markdown as they look on a terminal.
func TestStripsOfADocument(t *testing.T) {
	t.Parallel()
	d := Document{
		Head: []Line{Text("head")}, Foot: []Line{Text("foot")},
		Strips: Strips{"x", time.Unix(0, 0), time.Second, []Strip{{"a", []int64{1}, false}}},
	}
	for format, want := range map[Format]string{
		TableFormat:    "head\n\nx per 1s\na  |█|  most 1\n    00:00:00  00:00:01 UTC\n\nfoot\n",
		MarkdownFormat: "head\n\n```text\nx per 1s\na  |█|  most 1\n    00:00:00  00:00:01 UTC\n```\n\nfoot\n",
	} {
		var b strings.Builder
		if err := d.Write(&b, format, Style{}); err != nil || b.String() != want {
			t.Errorf("%s: %v\n%q, want\n%q", format, err, b.String(), want)
		}
	}
}
