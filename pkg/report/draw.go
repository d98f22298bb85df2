package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The size of a picture in pixels, and of what surrounds its axes.
const (
	pictureWidth  = 860
	pictureHeight = 460
	legendWidth   = 175
	rightMargin   = 20 // of a chart without a legend
	labelHeight   = 26 // of the axes, to the left and below
)

// palette is Okabe and Ito's, which the colour-blind can tell apart, without its black and its yellow, which vanish on
// a dark and on a white page.
var palette = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff}, // blue
	color.RGBA{0xd5, 0x5e, 0x00, 0xff}, // vermilion
	color.RGBA{0x00, 0x9e, 0x73, 0xff}, // bluish green
	color.RGBA{0xcc, 0x79, 0xa7, 0xff}, // reddish purple
	color.RGBA{0xe6, 0x9f, 0x00, 0xff}, // orange
	color.RGBA{0x56, 0xb4, 0xe9, 0xff}, // sky blue
}

// shapes tell apart what colour does not; there is one more than colours, so that no pair of both comes twice soon.
var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{}, polygon{4, 0.5}, polygon{3, 0.5}, polygon{4, 0}, star{4, 0.5}, polygon{3, 0}, star{4, 0},
}

// polygon is a filled shape of that many corners, turned by a share of the angle between two of them; a corner of an
// unturned one points down.
type polygon struct {
	corners int
	turn    float64
}

func (p polygon) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	var path vg.Path
	for _, corner := range p.around(at, style.Radius*1.2) {
		if path == nil {
			path.Move(corner)
		} else {
			path.Line(corner)
		}
	}
	path.Close()
	c.SetColor(style.Color)
	c.Fill(path)
}

func (p polygon) around(at vg.Point, radius vg.Length) (corners []vg.Point) {
	for n := range p.corners {
		angle := 2 * math.Pi * (float64(n) + p.turn) / float64(p.corners)
		corners = append(corners, vg.Point{X: at.X + radius*vg.Length(math.Sin(angle)), Y: at.Y - radius*vg.Length(math.Cos(angle))})
	}
	return corners
}

// star is strokes from a point to where a polygon would have its corners.
type star polygon

func (s star) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	for _, corner := range polygon(s).around(at, style.Radius*1.3) {
		c.StrokeLine2(draw.LineStyle{Color: style.Color, Width: vg.Points(2)}, at.X, at.Y, corner.X, corner.Y)
	}
}

func glyph(n int) draw.GlyphStyle {
	return draw.GlyphStyle{Color: palette[n%len(palette)], Radius: vg.Points(3.5), Shape: shapes[n%len(shapes)]}
}

func line(n int) draw.LineStyle {
	return draw.LineStyle{Color: palette[n%len(palette)], Width: vg.Points(1.5)}
}

// paint draws the chart's series, axes and legend, but not the labels of the axes: the library takes the middle of a log
// axis for its arithmetic mean, and would make room for them there.
func (c Chart) paint(on draw.Canvas, looks map[string]int) error {
	series := c.drawable()
	p := plot.New()
	p.BackgroundColor = nil // the page's
	style := p.Legend.TextStyle
	style.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: 12}
	for axis, a := range map[*plot.Axis]Axis{&p.X: c.X, &p.Y: c.Y} {
		axis.Tick.Label.Font = style.Font
		axis.Tick.Label.Font.Size = 11
		axis.Padding = 0
		axis.Min, axis.Max = a.span(coordinates(series, axis == &p.X))
		axis.Scale = scales[a.Scale]
		axis.Tick.Marker = ticks(a.marks(axis.Min, axis.Max))
	}
	p.Add(grid())
	if c.Dots {
		p.Add(labelledDots{series, style, looks})
		p.Draw(draw.Crop(on, labelHeight, -rightMargin, labelHeight, -6))
		return nil
	}
	legend := plot.NewLegend()
	legend.TextStyle, legend.Top, legend.Left, legend.Padding = style, true, true, vg.Points(3)
	for _, s := range series {
		lines, points, err := plotter.NewLinePoints(xys(s.Points))
		if err != nil {
			return fmt.Errorf("draw %s: %w", s.Name, err)
		}
		lines.LineStyle, points.GlyphStyle = line(looks[s.Name]), glyph(looks[s.Name])
		p.Add(unpadded{lines}, unpadded{points})
		legend.Add(s.Name, lines, points)
	}
	p.Draw(draw.Crop(on, labelHeight, -legendWidth, labelHeight, -6))
	legend.Draw(draw.Crop(on, pictureWidth-legendWidth+12, 0, 0, -6))
	return nil
}

// unpadded is a plotter for which no room is made at the edges of the axes: its markers may lie on them.
type unpadded struct{ plot.Plotter }

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	style := draw.LineStyle{Color: color.NRGBA{0x80, 0x80, 0x80, 0x50}, Width: vg.Points(0.5)}
	g.Vertical, g.Horizontal = style, style
	return g
}

func xys(points []Point) (out plotter.XYs) {
	for _, p := range points {
		out = append(out, plotter.XY(p))
	}
	return out
}

func coordinates(series []Series, x bool) (all []float64) {
	for _, s := range series {
		for _, p := range s.Points {
			if x {
				all = append(all, p.X)
			} else {
				all = append(all, p.Y)
			}
		}
	}
	return all
}

// ticks are marks as the library wants them.
func ticks(marks []Mark) plot.ConstantTicks {
	var out plot.ConstantTicks
	for _, m := range marks {
		out = append(out, plot.Tick{Value: m.Value, Label: m.Text})
	}
	return out
}

var scales = map[Scale]plot.Normalizer{Linear: plot.LinearScale{}, Log: plot.LogScale{}, LogFromZero: logFromZero{}}

// logFromZero is a log scale of one more than the value.
type logFromZero struct{}

func (logFromZero) Normalize(least, most, x float64) float64 {
	return (math.Log1p(x) - math.Log1p(least)) / (math.Log1p(most) - math.Log1p(least))
}

// labelledDots is a dot a point with its series' name to the right of it. Where names would lie on each other they are
// moved apart, and a thin line leads from each to its dot.
type labelledDots struct {
	series []Series
	style  text.Style
	looks  map[string]int
}

type label struct {
	name string
	dot  vg.Point
	at   vg.Point // left end, half way up
}

// Plot is the library's.
func (d labelledDots) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var labels []label
	for _, s := range d.series {
		for _, p := range s.Points {
			dot := vg.Point{X: x(p.X), Y: y(p.Y)}
			labels = append(labels, label{s.Name, dot, dot.Add(vg.Point{X: 12})})
		}
	}
	style := d.style
	style.YAlign = draw.YCenter
	style.Font.Size = 11
	d.spread(labels, style, c.Rectangle)
	for _, l := range labels {
		if l.at.Y != l.dot.Y {
			end := l.at.X - 1
			if end < l.dot.X {
				end += style.Width(l.name) + 2
			}
			c.StrokeLine2(draw.LineStyle{Color: color.NRGBA{0x80, 0x80, 0x80, 0xff}, Width: vg.Points(0.5)}, l.dot.X, l.dot.Y, end, l.at.Y)
		}
		c.DrawGlyph(glyph(d.looks[l.name]), l.dot)
		c.FillText(style, l.at, l.name)
	}
}

// spread moves labels down, and up again from the lower edge, until each has its height for itself within the width
// that it takes. A label that would pass the right edge goes to the left of its dot.
func (d labelledDots) spread(labels []label, style text.Style, area vg.Rectangle) {
	height := style.FontExtents().Height
	for i := range labels {
		if l := &labels[i]; l.at.X+style.Width(l.name) > area.Max.X+18 {
			l.at.X = l.dot.X - 12 - style.Width(l.name)
		}
	}
	slices.SortStableFunc(labels, func(a, b label) int { return int(math.Copysign(1, float64(b.dot.Y-a.dot.Y))) })
	beside := func(a, b label) bool {
		return a.at.X > b.at.X+style.Width(b.name) || b.at.X > a.at.X+style.Width(a.name)
	}
	for i := range labels {
		for j := range i {
			if !beside(labels[i], labels[j]) {
				labels[i].at.Y = min(labels[i].at.Y, labels[j].at.Y-height)
			}
		}
	}
	for i := range slices.Backward(labels) {
		labels[i].at.Y = max(labels[i].at.Y, area.Min.Y+height/2)
		for j := i + 1; j < len(labels); j++ {
			if !beside(labels[i], labels[j]) {
				labels[i].at.Y = max(labels[i].at.Y, labels[j].at.Y+height)
			}
		}
	}
}
