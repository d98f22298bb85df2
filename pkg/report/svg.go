package report

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// ErrNothingToDraw is what drawing a result without a picture ends with.
var ErrNothingToDraw = errors.New("there is nothing to draw in this result")

const headHeight = 52 // above each picture, for its title and note

// look makes a picture follow the reader's choice of a light or a dark page. It brings its own background along, since
// a page that shows it as an image may have chosen otherwise.
const look = `<style>
svg{--page:#fff;--ink:#222;color:var(--ink);fill:var(--ink);font-family:'Liberation Sans',Arial,Helvetica,sans-serif}
@media (prefers-color-scheme:dark){svg{--page:#181a1b;--ink:#ddd}}
.page{fill:var(--page)}.title{font-size:16px;font-weight:bold}.note,.axis{font-size:12px}.axis{text-anchor:middle}
</style>
`

// WriteSVG draws the charts one under the other into one SVG that needs nothing else.
func WriteSVG(w io.Writer, charts []Chart) error {
	var b bytes.Buffer
	n, looks := 0, looks(charts)
	for _, c := range charts {
		if len(c.drawable()) == 0 {
			continue
		}
		picture, err := c.picture(looks)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, `<g transform="translate(0,%d)">%s</g>`+"\n", n*(headHeight+pictureHeight), picture)
		n++
	}
	if n == 0 {
		return ErrNothingToDraw
	}
	height := n * (headHeight + pictureHeight)
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`+"\n"+
		`<title>%s</title>`+"\n"+`%s<rect class="page" width="100%%" height="100%%"/>`+"\n%s</svg>\n",
		pictureWidth, height, html.EscapeString(titles(charts)), look, b.Bytes())
	return err
}

// looks numbers the names of all series, so that each looks the same in all pictures.
func looks(charts []Chart) map[string]int {
	numbers := map[string]int{}
	for _, c := range charts {
		for _, s := range c.drawable() {
			numbers[s.Name] = 0
		}
	}
	for n, name := range slices.Sorted(maps.Keys(numbers)) {
		numbers[name] = n
	}
	return numbers
}

func titles(charts []Chart) string {
	var all []string
	for _, c := range charts {
		if len(c.drawable()) > 0 {
			all = append(all, Escape(c.Title))
		}
	}
	return strings.Join(all, "; ")
}

// picture is a chart under its title, as the inside of an SVG. The library's black is what it paints axes and text
// with; here they take the page's ink instead, and the fonts are the page's.
func (c Chart) picture(looks map[string]int) (string, error) {
	canvas := vgsvg.New(pictureWidth, pictureHeight)
	if err := c.paint(draw.New(canvas), looks); err != nil {
		return "", err
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", fmt.Errorf("draw %s: %w", c.Title, err)
	}
	_, inside, _ := strings.Cut(b.String(), "<svg")
	_, inside, _ = strings.Cut(inside, ">")
	inside, _, _ = strings.Cut(inside, "</svg>")
	inside = strings.NewReplacer(
		"stroke:#000000", "stroke:currentColor",
		"font-family:Liberation Sans;font-variant:normal;font-weight:normal;font-style:normal;", "",
	).Replace(inside)
	say := func(class, transform, words string) string {
		return fmt.Sprintf(`<text class="%s" transform="%s">%s</text>`+"\n", class, transform, html.EscapeString(Escape(words)))
	}
	right := legendWidth
	if c.Dots {
		right = rightMargin
	}
	return say("title", "translate(10,24)", c.Title) + say("note", "translate(10,42)", c.Note) +
		say("axis", fmt.Sprintf("translate(18,%d) rotate(-90)", headHeight+(pictureHeight-labelHeight)/2), c.Y.Label) +
		say("axis", fmt.Sprintf("translate(%d,%d)", (pictureWidth-right+3*labelHeight)/2, headHeight+pictureHeight-10), c.X.Label) +
		fmt.Sprintf(`<g transform="translate(0,%d)">%s</g>`, headHeight, inside), nil
}
