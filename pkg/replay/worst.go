package replay

import (
	"fmt"
	"sort"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/model"
)

// Interval is a stretch of the server's clock with what was certainly admitted in it.
type Interval struct {
	From, To time.Time // both included
	Admitted int64     // events
	Most     int64     // that the rule admits in it
	In       []Admission
}

// Admission is a call that was admitted in an interval, with the span of the server's clock in which it was.
type Admission struct {
	From, To time.Time
	history.Op
}

// Over is by how much the interval breaks the rule, in events; 0 or less if it keeps it.
func (i Interval) Over() int64 { return i.Admitted - i.Most }

// placed is an admission with the span of the server's clock in which it was made.
type placed struct {
	least, most int64 // µs
	*history.Op
}

// byWorst judges by the interval of the server's clock in which the rule is broken by most. An admission without a time
// lies in an interval if its whole call does.
func byWorst(ops []history.Op, rule model.Rule, eras []era) Judgement {
	until := untilSet(eras)
	j := tally(ops, rule, until)
	worst, allowance := worstIn(ops, rule, eras)
	j.Allowance, j.Overshoot = allowance, max(0, worst.Over())
	if rule.AtOnce {
		j.hold(ops, rule, eras, allowance)
	}
	j.Undershoot = max(j.Undershoot, starved(ops, rule, until))
	switch {
	case rule.AtOnce && j.Overshoot > 0:
		return j.because(Broken, j.tooMany(ops[0].Request.Limit))
	case j.Overshoot > 0:
		j.Worst = &worst
		return j.because(Broken, fmt.Sprintf("%d events admitted in %v where the rule has room for %d",
			worst.Admitted, worst.To.Sub(worst.From)+time.Microsecond, worst.Most))
	}
	return j.pressed(byCall(ops, func(history.Op) bool { return true }), rule, "by the worst interval")
}

// worstIn is the interval of any era in which the rule is broken by most, and what the rule admits in all of them. Of a
// rule of how many at once there is none: what is given back makes room in any interval.
func worstIn(ops []history.Op, rule model.Rule, eras []era) (worst Interval, allowance int64) {
	for _, e := range eras {
		in := admissions(ops, e)
		if len(in) == 0 {
			continue
		}
		allowance = plus(allowance, rule.Most(in[0].Request.Limit, time.UnixMicro(in[0].least), time.UnixMicro(latest(in))))
		if rule.AtOnce {
			continue
		}
		if i, ok := worstOf(in, rule); ok && i.Over() > worst.Over() {
			worst = i
		}
	}
	return worst, allowance
}

// admissions are those of an era, by when they can have been made first.
func admissions(ops []history.Op, e era) (in []placed) {
	for i := range ops {
		op := &ops[i]
		if !op.Admitted() || op.Request.Cost == 0 || !e.holds(op) {
			continue
		}
		if at := op.Decision.At; !at.IsZero() {
			in = append(in, placed{at.UnixMicro(), at.UnixMicro(), op})
			continue
		}
		least, _ := e.bounds(op.Call)
		_, most := e.bounds(op.Return)
		in = append(in, placed{least.UnixMicro(), most.UnixMicro(), op})
	}
	sort.Slice(in, func(i, j int) bool { return in[i].least < in[j].least })
	return in
}

func latest(in []placed) int64 {
	at := in[0].most
	for _, p := range in {
		at = max(at, p.most)
	}
	return at
}

// spans answers how much was certainly admitted from one time to another: what ended by then, less what had not begun.
type spans struct {
	begins, ends       []int64 // µs, each in order
	costBegun, costEnd []int64 // of the first i
}

func newSpans(in []placed) spans {
	byEnd := append([]placed(nil), in...)
	sort.Slice(byEnd, func(i, j int) bool { return byEnd[i].most < byEnd[j].most })
	s := spans{costBegun: []int64{0}, costEnd: []int64{0}}
	for i := range in {
		s.begins, s.ends = append(s.begins, in[i].least), append(s.ends, byEnd[i].most)
		s.costBegun = append(s.costBegun, plus(s.costBegun[i], in[i].Request.Cost))
		s.costEnd = append(s.costEnd, plus(s.costEnd[i], byEnd[i].Request.Cost))
	}
	return s
}

// within is never more than what was admitted: a call that spans the whole of it is taken off.
func (s spans) within(from, to int64) int64 {
	ended := sort.Search(len(s.ends), func(i int) bool { return s.ends[i] > to })
	before := sort.Search(len(s.begins), func(i int) bool { return s.begins[i] >= from })
	return s.costEnd[ended] - s.costBegun[before]
}

// worstOf looks at the windows that trail from each admission, and at stretches of aligned windows.
func worstOf(in []placed, rule model.Rule) (worst Interval, found bool) {
	l, s := in[0].Request.Limit, newSpans(in)
	w := l.Window.Microseconds()
	try := func(from, to int64) {
		i := Interval{From: time.UnixMicro(from), To: time.UnixMicro(to), Admitted: s.within(from, to)}
		if i.Admitted <= 0 {
			return
		}
		i.Most = rule.Most(l, i.From, i.To)
		if !found || i.Over() > worst.Over() {
			worst, found = i, true
		}
	}
	first, last := in[0].least, latest(in)
	try(first, last)
	for _, p := range in {
		try(p.least, p.least+w-1)
	}
	for windows := int64(1); windows <= (last-first)/w+1; windows = max(windows+1, windows*5/4) {
		for edge := first / w * w; edge <= last; edge += w {
			try(edge, min(edge+windows*w-1, last))
		}
	}
	if found {
		for _, p := range in {
			if p.least >= worst.From.UnixMicro() && p.most <= worst.To.UnixMicro() {
				worst.In = append(worst.In, Admission{time.UnixMicro(p.least), time.UnixMicro(p.most), *p.Op})
			}
		}
	}
	return worst, found
}
