package report

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"strings"
)

// page is the head of every page. It loads nothing.
const page = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>%s</title>
<style>
:root{color-scheme:light dark}
body{font:15px/1.45 'Liberation Sans',Arial,Helvetica,sans-serif;max-width:72em;margin:2em auto;padding:0 1em;background:#fff;color:#222}
table{border-collapse:collapse;margin:1em 0;display:block;overflow-x:auto;font-variant-numeric:tabular-nums}
th,td{padding:.2em .7em;border-bottom:1px solid #8886;text-align:left;white-space:pre}.right{text-align:right}
p{margin:.3em 0;white-space:pre-wrap}.good{color:#00734f}.bad{color:#b03a00;font-weight:bold}.warn{color:#8a5a00}.faint{opacity:.7}
svg{max-width:100%%;height:auto}footer{margin-top:2em;font-size:12px;opacity:.8}
@media (prefers-color-scheme:dark){body{background:#181a1b;color:#ddd}.good{color:#4cc9a0}.bad{color:#ff8a50}.warn{color:#e6b04d}}
</style></head><body>
`

// WriteHTML writes the documents as one page that needs nothing else: each with its text, its table and its pictures.
func WriteHTML(w io.Writer, title string, documents ...Document) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, page, html.EscapeString(Escape(title)))
	for _, d := range documents {
		b.WriteString("<section>\n")
		d.html(&b)
		if err := WriteSVG(&b, d.Charts); err != nil && !errors.Is(err, ErrNothingToDraw) {
			return err
		}
		fmt.Fprintf(&b, "<footer>%s</footer>\n</section>\n", htmlLine(d.Made))
	}
	b.WriteString("</body></html>\n")
	_, err := w.Write(b.Bytes())
	return err
}

func (d Document) html(b *bytes.Buffer) {
	htmlLines(b, d.Head)
	d.Table.html(b)
	htmlLines(b, d.Foot)
	for _, part := range d.More {
		part.html(b)
	}
}

func htmlLines(b *bytes.Buffer, lines []Line) {
	for _, l := range lines {
		fmt.Fprintf(b, "<p>%s</p>\n", htmlLine(l))
	}
}

func htmlLine(l Line) string {
	var b strings.Builder
	for _, c := range l {
		b.WriteString(c.html())
	}
	return b.String()
}

func (c Cell) html() string {
	text := html.EscapeString(Escape(c.Text))
	if class := c.Tone.class(); class != "" {
		return `<span class="` + class + `">` + text + "</span>"
	}
	return text
}

func (t Tone) class() string {
	return [...]string{Neutral: "", Good: "good", Bad: "bad", Warn: "warn", Faint: "faint"}[t]
}

func (t Table) html(b *bytes.Buffer) {
	if len(t.Columns) == 0 {
		return
	}
	row := func(tag string, content func(col int) string) {
		b.WriteString("<tr>")
		for i, c := range t.Columns {
			class := ""
			if c.Right {
				class = ` class="right"`
			}
			fmt.Fprintf(b, "<%s%s>%s</%[1]s>", tag, class, content(i))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("<table>\n")
	row("th", func(col int) string { return html.EscapeString(t.Columns[col].Title) })
	for _, cells := range t.Rows {
		row("td", func(col int) string { return cells[col].html() })
	}
	b.WriteString("</table>\n")
}
