package report

import (
	"math"
	"slices"
)

// Chart is one picture: lines that are told apart by colour and marker under a legend, or labelled dots.
type Chart struct {
	Title  string
	Note   string // one line under it: what was measured, and how
	X, Y   Axis
	Series []Series // in the order of the legend
	Dots   bool     // every point has its series' name beside it, and no line joins them
}

// Axis is one axis of a chart.
type Axis struct {
	Label string // with its unit
	Scale Scale
	Text  func(value float64) string // of a mark; nil writes a plain number
	Marks []Mark                     // where the marks are; none chooses them
}

// Mark is a place on an axis.
type Mark struct {
	Value float64
	Text  string
}

// Scale is how values lie along an axis.
type Scale int

// The scales. A log scale has no place for values that are not above 0; LogFromZero has one for 0, at its start.
const (
	Linear Scale = iota // from 0
	Log
	LogFromZero
)

// Series is the points of one thing, in the order in which a line joins them.
type Series struct {
	Name   string
	Points []Point
}

// Point is one value.
type Point struct{ X, Y float64 }

// has tells whether the axis has a place for a value.
func (a Axis) has(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (v > 0 || v == 0 && a.Scale != Log)
}

// text is what a mark at the value says.
func (a Axis) text(v float64) string {
	if a.Text != nil {
		return Escape(a.Text(v))
	}
	return Figure(v)
}

// span is the range of the axis: round numbers around the values, and around its marks if it has some.
func (a Axis) span(values []float64) (least, most float64) {
	for _, m := range a.Marks {
		values = append(values, m.Value)
	}
	least, most = slices.Min(values), slices.Max(values)
	switch a.Scale {
	case Log:
		least, most = roundDown(least), roundUp(most)
		if least == most {
			least, most = least/10, most*10
		}
		return least, most
	case LogFromZero:
		return -0.4, max(10, most*1.3) // room on both sides
	}
	if most == 0 {
		return 0, 1
	}
	return 0, most * 1.05
}

// roundDown and roundUp find the next 1, 2 or 5 of a decade.
func roundDown(v float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)))
	for _, digit := range []float64{5, 2, 1} {
		if digit*decade <= v*(1+1e-9) {
			return digit * decade
		}
	}
	return decade
}

func roundUp(v float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)))
	for _, digit := range []float64{1, 2, 5} {
		if digit*decade >= v*(1-1e-9) {
			return digit * decade
		}
	}
	return 10 * decade
}

// marks are the places that a reader finds along the axis: those that were given, else round numbers. One without a
// text is a small one.
func (a Axis) marks(least, most float64) (marks []Mark) {
	switch {
	case len(a.Marks) > 0:
		return a.Marks
	case a.Scale == Log:
		return a.decades(least, most, most/least <= 200)
	case a.Scale == LogFromZero:
		return append([]Mark{{0, a.text(0)}}, a.decades(1, most, false)...)
	}
	step := roundUp(most / 8)
	for n := range int(most/step) + 1 {
		marks = append(marks, Mark{float64(n) * step, a.text(float64(n) * step)})
	}
	return marks
}

// decades marks powers of ten, and what lies between them, with a text on 2 and 5 where there is room for it.
func (a Axis) decades(least, most float64, room bool) (marks []Mark) {
	first, last := math.Floor(math.Log10(least)+1e-9), math.Ceil(math.Log10(most)-1e-9)
	for power := first; power <= last; power++ {
		for digit := 1.0; digit < 10; digit++ {
			v := digit * math.Pow(10, power)
			if v < least*(1-1e-9) || v > most*(1+1e-9) {
				continue
			}
			mark := Mark{Value: v}
			if digit == 1 || room && (digit == 2 || digit == 5) {
				mark.Text = a.text(v)
			}
			marks = append(marks, mark)
		}
	}
	return marks
}

// drawable leaves out points that an axis has no place for, and series without any point.
func (c Chart) drawable() (all []Series) {
	for _, s := range c.Series {
		s.Name = Escape(s.Name)
		s.Points = slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool { return !c.X.has(p.X) || !c.Y.has(p.Y) })
		if len(s.Points) > 0 {
			all = append(all, s)
		}
	}
	return all
}
