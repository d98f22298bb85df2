package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func drawn(t *testing.T, charts ...Chart) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteSVG(&b, charts); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return b.String()
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
	}
}

// lines is a chart of n lines on log axes, from 1 to 1000.
func lines(n int) Chart {
	c := Chart{
		Title: "A <title>", Note: "a note & more", X: Axis{Label: "x in µs", Scale: Log, Text: func(v float64) string { return Figure(v) + " µs" }},
		Y: Axis{Label: "y", Scale: Log},
	}
	for i := range n {
		c.Series = append(c.Series, Series{fmt.Sprintf("series %d\x1b", i), []Point{{1, 1 + float64(i)}, {1000, 10 + float64(i)}}})
	}
	return c
}

func TestAPictureSaysWhatItShows(t *testing.T) {
	svg := drawn(t, lines(3))
	for _, want := range []string{
		">A &lt;title&gt;<", ">a note &amp; more<", ">x in µs<", ">y<", `>series 2\x1b<`, ">1 µs<", ">1,000 µs<", "prefers-color-scheme:dark", "currentColor",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(svg, "#000000") || strings.Contains(svg, "#FFFFFF") {
		t.Error("something is black or white on every page")
	}
	if again := drawn(t, lines(3)); again != svg {
		t.Error("it is drawn another way each time")
	}
}

// A page and a picture load nothing.
func TestNothingIsLoaded(t *testing.T) {
	var b bytes.Buffer
	d := sample()
	d.Charts, d.Made = []Chart{lines(2)}, Text("made by <me>")
	if err := WriteHTML(&b, "a <page>", d, d); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	links := regexp.MustCompile(`(?i)(src|href|url|import|@font-face|<script|<link)`)
	if found := links.FindAllString(page, -1); found != nil {
		t.Errorf("%q", found)
	}
	for _, uri := range regexp.MustCompile(`https?://[^"]*`).FindAllString(page, -1) {
		if uri != "http://www.w3.org/2000/svg" {
			t.Errorf("it names %s", uri)
		}
	}
	for want, n := range map[string]int{
		"a &lt;page&gt;": 1, "made by &lt;me&gt;": 2, "<svg ": 2, "<table>": 2, `a\nb`: 2, `<td class="right">2,000</td>`: 2,
		`<span class="good">one two  three|four</span>`: 4, "prefers-color-scheme:dark": 3,
	} {
		if got := strings.Count(page, want); got != n {
			t.Errorf("%s: %d times, want %d", want, got, n)
		}
	}
}

func TestPointsWithoutAPlaceAreLeftOut(t *testing.T) {
	c := lines(1)
	c.Series[0].Points = []Point{{1, 0}, {0, 1}, {-1, 1}, {math.NaN(), 1}, {1, math.Inf(1)}}
	var b bytes.Buffer
	if err := WriteSVG(&b, []Chart{c, {}}); !errors.Is(err, ErrNothingToDraw) || b.Len() > 0 {
		t.Errorf("%v, %q", err, b.String())
	}
	c.Y.Scale, c.Series[0].Points = LogFromZero, append(c.Series[0].Points, Point{5, 0})
	if got := c.drawable(); len(got) != 1 || len(got[0].Points) != 2 {
		t.Errorf("%+v", got)
	}
	drawn(t, c)
	c.Y.Scale, c.Series[0].Points = Linear, []Point{{5, 0}}
	drawn(t, c)
}

// No two of as many lines as a catalogue has look alike, and neighbours differ in colour and in shape.
func TestLinesAreToldApart(t *testing.T) {
	seen := map[string]bool{}
	for n := range 24 {
		look := fmt.Sprintf("%v %T %[2]v", glyph(n).Color, glyph(n).Shape)
		if seen[look] {
			t.Errorf("line %d looks like another", n)
		}
		seen[look] = true
		if next := glyph(n + 1); next.Color == glyph(n).Color || next.Shape == glyph(n).Shape {
			t.Errorf("lines %d and %d are alike", n, n+1)
		}
	}
}

// A series has the same colour in all pictures of a file, wherever it stands in their legends.
func TestASeriesLooksTheSameInAllPictures(t *testing.T) {
	a, b := lines(3), lines(3)
	b.Series = b.Series[1:]
	svg := drawn(t, a, b)
	thumbnails := regexp.MustCompile(`stroke:(#[0-9A-F]{6});stroke-width:1.5" />\n[^<]*(?:<path[^>]*>\s*)*<text [^>]*>(series \d)`)
	colors := map[string]map[string]bool{}
	for _, m := range thumbnails.FindAllStringSubmatch(svg, -1) {
		if colors[m[2]] == nil {
			colors[m[2]] = map[string]bool{}
		}
		colors[m[2]][m[1]] = true
	}
	if len(colors) != 3 {
		t.Fatalf("%v in\n%s", colors, svg)
	}
	for name, of := range colors {
		if len(of) != 1 {
			t.Errorf("%s is drawn in %v", name, of)
		}
	}
}

// Names of dots that lie on each other, in a corner even, do not.
func TestNamesOfDotsDoNotOverlap(t *testing.T) {
	for name, at := range map[string]Point{"low left": {0, 1}, "high right": {1000, 50}, "middle": {10, 20}} {
		c := Chart{X: Axis{Scale: LogFromZero}, Dots: true}
		c.Series = []Series{{"one", []Point{{0, 0}}}, {"two", []Point{{1000, 50}}}}
		for i := range 12 {
			c.Series = append(c.Series, Series{fmt.Sprintf("name %d", i), []Point{at}})
		}
		text := regexp.MustCompile(`<text x="([-0-9.]+)" y="([-0-9.]+)" [^>]*>name`)
		var heights []float64
		for _, m := range text.FindAllStringSubmatch(drawn(t, c), -1) {
			y, _ := strconv.ParseFloat(m[2], 64)
			for _, other := range heights {
				if math.Abs(y-other) < 10 {
					t.Errorf("%s: two names at %v and %v", name, y, other)
				}
			}
			if heights = append(heights, y); -y < labelHeight || -y > pictureHeight {
				t.Errorf("%s: a name at %v is outside", name, y)
			}
		}
		if len(heights) != 12 {
			t.Errorf("%s: %d names", name, len(heights))
		}
	}
}

func TestAxesHaveRoundMarks(t *testing.T) {
	for _, c := range []struct {
		axis   Axis
		values []float64
		want   string
	}{
		{Axis{}, []float64{3, 95_000}, "0 20,000 40,000 60,000 80,000"},
		{Axis{}, []float64{0}, "0 0.2 0.4 0.6 0.8 1"},
		{Axis{Scale: Log}, []float64{30, 700}, "20 50 100 200 500 1,000"},
		{Axis{Scale: Log}, []float64{30, 70_000}, "100 1,000 10,000 100,000"},
		{Axis{Scale: Log}, []float64{10}, "1 2 5 10 20 50 100"},
		{Axis{Scale: LogFromZero}, []float64{0, 1900}, "0 1 10 100 1,000"},
		{Axis{Scale: Log, Marks: []Mark{{2, "50"}, {10, "90"}}}, []float64{4}, "50 90"},
	} {
		least, most := c.axis.span(c.values)
		var got []string
		for _, m := range c.axis.marks(least, most) {
			if m.Text != "" {
				got = append(got, m.Text)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
	}
}

func TestBars(t *testing.T) {
	b := Bars{"response", []Bar{{"50%", 21 * time.Microsecond}, {"99.9%", 2 * time.Millisecond}, {"max", 10 * time.Millisecond}, {"none", 0}}}
	d := Document{Head: []Line{Text("head")}, Bars: []Bars{b, {"more", []Bar{{"1", 95 * time.Millisecond}}}}, Foot: []Line{Text("foot")}}
	for style, want := range map[Style]string{
		{}: "head\n\nresponse\n" +
			"50%    ███▉ 21 µs\n" +
			"99.9%  ███████████████████████████▋ 2 ms\n" +
			"max    ████████████████████████████████████ 10 ms\n" +
			"none    0 ns\n\nmore\n" +
			"1      ███████████████████████████████████████████████▊ 95 ms\n" +
			"       log scale, 10 µs to 100 ms\n\nfoot\n",
		{Width: 40, ASCII: true}: "head\n\nresponse\n" +
			"50%    ## 21 us\n" +
			"99.9%  ############## 2 ms\n" +
			"max    ################## 10 ms\n" +
			"none    0 ns\n\nmore\n" +
			"1      ######################## 95 ms\n" +
			"       log scale, 10 us to 100 ms\n\nfoot\n",
		{Width: 3}: "head\n\nresponse\n" +
			"50%    ▋ 21 µs\n" +
			"99.9%  ████▋ 2 ms\n" +
			"max    ██████ 10 ms\n" +
			"none    0 ns\n\nmore\n" +
			"1      ████████ 95 ms\n" +
			"       log scale, 10 µs to 100 ms\n\nfoot\n",
	} {
		var out bytes.Buffer
		if err := d.Write(&out, TableFormat, style); err != nil || out.String() != want {
			t.Errorf("%+v: %v\n%s\nwant\n%s", style, err, out.String(), want)
		}
	}
}

func TestTime(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0 ns": 0, "340 ns": 340, "2.41 µs": 2410, "999 µs": 999 * time.Microsecond, "12.3 ms": 12345 * time.Microsecond, "1.5 s": 1500 * time.Millisecond,
	} {
		if got := Time(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
