package report

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

type row struct {
	Name  string   `json:"name"`
	Count int64    `json:"count"`
	Rate  *float64 `json:"rate"`
	Tags  []string `json:"tags"`
}

func sample() Document {
	half := 0.5
	rows := []row{{"a\nb", 2000, &half, []string{"x"}}, {"c,d", -1, nil, nil}}
	d := Document{
		Data: struct {
			Schema  string `json:"schema"`
			Results []row  `json:"results"`
		}{"test/v1", rows},
		Head: []Line{Text("head %d", 1)},
		Table: Table{Columns: []Column{
			{Title: "NAME"}, {Title: "COUNT", Right: true}, {Title: "PROSE", Wrap: 9}, {Title: "EXTRA", Wide: true},
		}},
		Foot: []Line{{Plain("next: "), {Text: "more  ", Tone: Faint}}},
	}
	for _, r := range rows {
		d.Records = append(d.Records, r)
		d.Table.Add(Plain("  "+r.Name), Plain(Int(r.Count)), Cell{Text: "one two  three|four", Tone: Good}, Plain("0123456789"))
	}
	return d
}

func written(t *testing.T, f Format, s Style) string {
	t.Helper()
	var b bytes.Buffer
	if err := sample().Write(&b, f, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDocument(t *testing.T) {
	for _, c := range []struct {
		name   string
		format Format
		style  Style
		want   string
	}{{
		"as wide as needed", TableFormat, Style{},
		"head 1\n\n" +
			"NAME    COUNT  PROSE                EXTRA\n" +
			"  a\\nb  2,000  one two  three|four  0123456789\n" +
			"  c,d      -1  one two  three|four  0123456789\n" +
			"next: more\n",
	}, {
		"wide columns go first", TableFormat, Style{Width: 34},
		"head 1\n\n" +
			"NAME    COUNT  PROSE\n" +
			"  a\\nb  2,000  one two  three|four\n" +
			"  c,d      -1  one two  three|four\n" +
			"next: more\n",
	}, {
		"then prose is broken, and no number", TableFormat, Style{Width: 10},
		"head 1\n\n" +
			"NAME    COUNT  PROSE\n" +
			"  a\\nb  2,000  one two\n" +
			"               three|four\n" +
			"  c,d      -1  one two\n" +
			"               three|four\n" +
			"next: more\n",
	}, {
		"colour", TableFormat, Style{Color: true, Width: 34},
		"head 1\n\n" +
			"NAME    COUNT  PROSE\n" +
			"  a\\nb  2,000  \x1b[32mone two  three|four\x1b[0m\n" +
			"  c,d      -1  \x1b[32mone two  three|four\x1b[0m\n" +
			"next: \x1b[2mmore\x1b[0m\n",
	}, {
		"Markdown", MarkdownFormat, Style{Color: true, Width: 34},
		"head 1\n\n" +
			"| NAME  | COUNT | PROSE                | EXTRA      |\n" +
			"|:------|------:|:---------------------|:-----------|\n" +
			"| a\\\\nb | 2,000 | one two  three\\|four | 0123456789 |\n" +
			"| c,d   |    -1 | one two  three\\|four | 0123456789 |\n\n" +
			"next: more\n",
	}, {
		"JSON", JSONFormat, Style{Color: true},
		"{\n  \"schema\": \"test/v1\",\n  \"results\": [\n" +
			"    {\n      \"name\": \"a\\nb\",\n      \"count\": 2000,\n      \"rate\": 0.5,\n      \"tags\": [\n        \"x\"\n      ]\n    },\n" +
			"    {\n      \"name\": \"c,d\",\n      \"count\": -1,\n      \"rate\": null,\n      \"tags\": null\n    }\n  ]\n}\n",
	}, {
		"CSV", CSVFormat, Style{Color: true},
		"name,count,rate,tags\na\\nb,2000,0.5,\"[\"\"x\"\"]\"\n\"c,d\",-1,,\n",
	}} {
		if got := written(t, c.format, c.style); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// Prose is broken between words, in its colours; a word and what is typed stay whole; a wide character takes two columns.
func TestProseIsBrokenWhereTheTerminalIsNarrow(t *testing.T) {
	line := Line{Plain("1 of 2 "), {Text: "limiters held", Tone: Good}, Plain(", a\nb   漢字漢 then: "), Typed("rlctl prove a/b c"), Plain(" it.")}
	for width, want := range map[int]string{
		0:  "1 of 2 \x1b[32mlimiters held\x1b[0m, a\\nb   漢字漢 then: rlctl prove a/b c it.\n",
		12: "1 of 2\n\x1b[32mlimiters\x1b[0m\n\x1b[32mheld\x1b[0m, a\\nb\n漢字漢 then:\nrlctl prove a/b c\nit.\n",
		1:  "1\nof\n2\n\x1b[32mlimiters\x1b[0m\n\x1b[32mheld\x1b[0m,\na\\nb\n漢字漢\nthen:\nrlctl prove a/b c\nit.\n",
	} {
		var b bytes.Buffer
		if err := (Document{Foot: []Line{line}}).Write(&b, TableFormat, Style{Color: true, Width: width}); err != nil || b.String() != want {
			t.Errorf("%d columns: %v, %q; want %q", width, err, b.String(), want)
		}
	}
}

// A table of numbers alone keeps its width whatever the terminal's.
func TestNumbersAreNeverBroken(t *testing.T) {
	table := Table{Columns: []Column{{Title: "A", Right: true}, {Title: "B", Right: true}}}
	table.Add(Plain("1 000 000"), Plain("-1"))
	got, err := table.text(Style{Width: 3})
	if want := "        A   B\n1 000 000  -1\n"; got != want || err != nil {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestEmptyDocument(t *testing.T) {
	for _, f := range []Format{TableFormat, MarkdownFormat, CSVFormat} {
		var b bytes.Buffer
		if err := (Document{}).Write(&b, f, Style{}); err != nil || b.Len() > 0 {
			t.Errorf("%s: %q, %v", f, b.String(), err)
		}
	}
}

func TestNothingIsWrittenOfNaN(t *testing.T) {
	var b bytes.Buffer
	bad := struct {
		A int     `json:"a"`
		P float64 `json:"p"`
	}{1, math.NaN()}
	if WriteJSON(&b, bad) == nil || WriteJSONLine(&b, bad) == nil || NewCSV(&b).Write(bad) == nil || b.Len() > 0 {
		t.Errorf("NaN was written: %q", b.String())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestFailedWrites(t *testing.T) {
	for _, name := range Formats() {
		if err := sample().Write(full{}, Format(name), Style{}); err == nil {
			t.Errorf("%s: a failed write is no error", name)
		}
	}
}

func TestEscapeMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"plain, 1.5 x (a-b)": "plain, 1.5 x (a-b)", "retry_us": "retry_us", "1 < 2 <= 3": "1 < 2 <= 3",
		"<img src=x>": `\<img src=x>`, "</b>": `\</b>`, "&lt;": `\&lt;`, "[a](http://b)": `\[a\](http://b)`,
		"*b* `c` _d_": "\\*b\\* \\`c\\` \\_d\\_", "a|b": `a\|b`, `a\|b`: `a\\\|b`, "__": `\_\_`, "é_é_": `é_é\_`,
	} {
		if got := escapeMarkdown(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"client-1":        "client-1",
		`C:\new`:          `C:\new`,
		"naïve – 客户 €":    "naïve – 客户 €",
		"a\x1b[31mb":      `a\x1b[31mb`,
		"a\nb\tc\r\x00":   `a\nb\tc\r\x00`,
		"\x7f\u009b1m":    `\x7f\u009b1m`,
		"ab\xff\xfec":     `ab\xff\xfec`,
		"user\u202egnp":   `user\u202egnp`,
		"zero\u200bwidth": `zero\u200bwidth`,
		"\u2028":          `\u2028`,
	} {
		if got := Escape(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for want, got := range map[string]string{
		"0": Int(0), "999": Int(999), "1,000": Int(1000), "-1,234,567": Int(-1234567), "-999": Int(-999),
		"9,223,372,036,854,775,807": Int(math.MaxInt64), "-9,223,372,036,854,775,808": Int(math.MinInt64),
		"+17": Signed(17), "-3": Signed(-3), "+1,000": Signed(1000),
		"1m0s": Duration(time.Minute), "41.207s": Duration(41206001 * time.Microsecond), "1ms": Duration(1),
		"0s": Duration(0), "366d": Duration(366 * 24 * time.Hour), "1d12h0m0.5s": Duration(36*time.Hour + 500*time.Millisecond),
		"789": Figure(789), "12,345": Figure(12345.4), "4.56": Figure(4.561), "10": Figure(9.999), "0.0123": Figure(0.01234),
		"5": Figure(5), "100": Figure(99.96), "99.9": Figure(99.94), "-0.5": Figure(-0.5), "1.23e-07": Figure(1.2345e-7), "0.000": Figure(0) + ".000",
		"NaN": Figure(math.NaN()), "+Inf": Figure(math.Inf(1)),
		"1d": Duration(24*time.Hour - 1), "0.2 ms": Millis(213 * time.Microsecond), "14 ms": Millis(14 * time.Millisecond),
		"1,500 ms": Millis(1500 * time.Millisecond), "1 process": Count(1, "process", "processes"), "2,000 processes": Count(2000, "process", "processes"),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestColor(t *testing.T) {
	for _, c := range []struct {
		mode, env string
		terminal  bool
		want      bool
	}{
		{"auto", "", true, true},
		{"auto", "", false, false},
		{"", "", true, true},
		{"auto", "TERM=dumb", true, false},
		{"auto", "NO_COLOR=1", true, false},
		{"auto", "NO_COLOR=", true, true},
		{"auto", "CLICOLOR_FORCE=1", false, true},
		{"auto", "CLICOLOR_FORCE=0", false, false},
		{"auto", "NO_COLOR=1 CLICOLOR_FORCE=1", true, false},
		{"always", "NO_COLOR=1", false, true},
		{"never", "CLICOLOR_FORCE=1", true, false},
	} {
		getenv := func(name string) string {
			for _, pair := range strings.Fields(c.env) {
				if n, v, _ := strings.Cut(pair, "="); n == name {
					return v
				}
			}
			return ""
		}
		if got := Color(c.mode, getenv, c.terminal); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(0, 0)
	p := NewProgress(&b, 30)
	p.now, p.start = func() time.Time { return now }, now
	p.Update(0, 4, "gcra")
	now = now.Add(99 * time.Millisecond)
	p.Update(1, 4, "too soon")
	now = now.Add(1901 * time.Millisecond)
	p.Update(1, 4, "naive-counter\n")
	now = now.Add(time.Second)
	p.Update(4, 4, "a name that is longer than the terminal")
	p.Clear()
	p.Clear()
	want := "\r0/4  gcra\x1b[K" +
		"\r1/4  naive-counter\\n   6s lef\x1b[K" +
		"\r4/4  a name that is longer th\x1b[K" +
		"\r\x1b[K"
	if b.String() != want {
		t.Errorf("%q\nwant\n%q", b.String(), want)
	}
}

func TestNoProgressWithoutATerminal(*testing.T) {
	var p *Progress
	p.Update(1, 2, "x")
	p.Clear()
}

func TestFurtherPartsFollowTheFirst(t *testing.T) {
	part := func(name string) Document {
		table := Table{Columns: []Column{{Title: "N"}}}
		table.Add(Plain(name))
		return Document{Head: []Line{Text("head %s", name)}, Table: table, Foot: []Line{Text("foot %s", name)}}
	}
	d := part("1")
	d.More = []Document{part("2")}
	for format, want := range map[Format]string{
		TableFormat:    "head 1\n\nN\n1\nfoot 1\n\nhead 2\n\nN\n2\nfoot 2\n",
		MarkdownFormat: "head 1\n\n| N |\n|:--|\n| 1 |\n\nfoot 1\n\nhead 2\n\n| N |\n|:--|\n| 2 |\n\nfoot 2\n",
	} {
		var b strings.Builder
		if err := d.Write(&b, format, Style{}); err != nil || b.String() != want {
			t.Errorf("%s: %v\n%q\n%q", format, err, b.String(), want)
		}
	}
}

// TestANarrowTerminal: first goes what is only for wide ones, then prose gives way, and last what can be done without. No
// word is broken.
func TestANarrowTerminal(t *testing.T) {
	table := Table{Columns: []Column{
		{Title: "NAME", Wrap: 8}, {Title: "TRIES", Right: true, Last: true}, {Title: "EXTRA", Right: true, Wide: true}, {Title: "VERDICT", Wrap: 20},
	}}
	table.Add(Plain("a long name"), Plain("1,000"), Plain("2,000"), Plain("over, as it must be: AAAABBCBBCCCDD"))
	for _, want := range []struct {
		width  int
		titles string
	}{{80, "NAME TRIES EXTRA VERDICT"}, {43, "NAME TRIES VERDICT"}, {31, "NAME TRIES VERDICT"}, {30, "NAME VERDICT"}, {24, "NAME VERDICT"}} {
		var b strings.Builder
		if err := (Document{Table: table}).Write(&b, TableFormat, Style{Width: want.width}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(b.String(), "\n")
		if got := strings.Join(strings.Fields(lines[0]), " "); got != want.titles || !strings.Contains(b.String(), "AAAABBCBBCCCDD") {
			t.Errorf("%d columns: %s\n%s", want.width, got, b.String())
		}
		for _, line := range lines {
			if len(line) > want.width {
				t.Errorf("%d columns: %q is longer", want.width, line)
			}
		}
	}
}

func TestALongNameIsBrokenBehindASlash(t *testing.T) {
	t.Parallel()
	table := Table{Columns: []Column{{Title: "LIMITER", Wrap: 17}, {Title: "N", Right: true}}}
	table.Add(Plain("exec:python3 examples/workers/worker.py"), Plain("100"))
	table.Add(Plain("one_word_that_has_no_slash"), Plain("2"))
	var out strings.Builder
	if err := (Document{Table: table}).Write(&out, TableFormat, Style{Width: 30}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"exec:python3 ", "examples/workers/", "worker.py", "one_word_that_has_no_slash"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, out.String())
		}
	}
}
