// Package replay judges a recorded history.
//
// An exact replay is for limiters that report the server's time: their decisions are sorted by it and must be, field by
// field, those of the rule's model. The times must also agree with real time, so that a limiter cannot sort itself valid: a
// call that returned before another was made has the earlier time, and each time is one that the server's clock showed
// while the call was under way. Two decisions in one microsecond may stand either way round. A call whose reply was lost
// may have come in at any time, or never, as long as something of it explains every later reply.
//
// A bound is for the others: it compares what was admitted with the most that the rule admits over the time that
// passed, which is weaker: a limiter can break its rule by less than that and not be caught.
//
// A history in which nothing pressed the limiter is inconclusive, whatever it shows; only what is broken needs no
// pressure.
package replay

import (
	"fmt"
	"slices"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// Verdict is what a history says of a limiter.
type Verdict string

// The verdicts.
const (
	Held         Verdict = "held"
	Broken       Verdict = "broken"
	Inconclusive Verdict = "inconclusive" // never a success
)

// Judgement is a verdict with what it rests on. Allowed to Undershoot are in events, the others in requests.
type Judgement struct {
	Verdict    Verdict
	Reason     string // why not held; of a held one, how it was judged
	Allowed    int64
	Allowance  int64 // the most that the rule admits over the time that passed
	Overshoot  int64 // Allowed beyond Allowance, or, if that is more, where an exact replay denies
	Undershoot int64 // denied although the rule, whatever the order, had room, or, if that is more, where a replay admits
	Attempts   int64
	Denied     int64
	Failed     int64
	Unknown    int64
	Released   int64       // given back by who held it; such calls are no attempts
	Holders    int64       // the most that certainly held at one instant, by a rule of how many at once
	Replayed   int64       // decisions that the model was asked about, in an exact replay
	Settled    int64       // lost calls of which later replies tell that they had counted
	Recalled   int64       // refusals from memory that agree with the rule
	Loose      int64       // decisions that a lost call kept from being compared, and that are no more generous than the rule
	Difference *Difference // the first decision that the model does not make, in an exact replay
	Worst      *Interval   // by which the rule is broken most; nil if it is not, or was not looked for
	Apart      bool        // inconclusive only because no two clients overlapped, which another run may mend

	undecided limiter.Class // of the first call that was not decided
}

// Difference is a decision beside the one that the rule makes there.
type Difference struct {
	Op   history.Op
	Want limiter.Decision
}

func (d Difference) String() string {
	return fmt.Sprintf("process %d client %d call %d at %d: %s where the rule says %s", d.Op.Proc, d.Op.Client, d.Op.Seq,
		d.Op.Decision.At.UnixMicro(), describe(d.Op.Decision), describe(d.Want))
}

func describe(d limiter.Decision) string {
	word := "denied"
	if d.Allowed {
		word = "allowed"
	}
	return fmt.Sprintf("%s (remaining %d, retry %v, reset %v)", word, d.Remaining, d.RetryAfter, d.ResetAfter)
}

// Judge judges the calls on one fresh key: exactly if every decision bears the server's time, by a bound if none does.
// The two readings of the server's clock lie before the first call and after the last return. Across a step of that
// clock nothing can be judged.
func Judge(ops []history.Op, rule model.Rule, first, last history.Reading) Judgement {
	c := clock{first, last}
	if step := c.stepped(); step != 0 {
		return tally(ops, rule, ever).because(Inconclusive, fmt.Sprintf("the server's clock stepped by %v", step))
	}
	if op := c.misplaced(ops); op != nil {
		return byBound(ops, rule, c).because(Broken, fmt.Sprintf(
			"%s bears %d, a time that the server's clock did not show while it was under way", name(op), op.Decision.At.UnixMicro()))
	}
	timed, untimed := countTimed(ops)
	if untimed == 0 || rule.Recalls && timed > 0 {
		return exactIn(ops, rule, Course{}.eras(), c.inOne)
	}
	j := byBound(ops, rule, c)
	if timed > 0 && j.Verdict == Held { // else it would get away with a bound
		return j.because(Inconclusive, fmt.Sprintf("%d of %d decisions bear no server time", untimed, timed+untimed))
	}
	return j
}

// exact judges the calls on one fresh key by replaying them against the rule's model.
func exact(ops []history.Op, rule model.Rule) Judgement {
	eras := Course{}.eras()
	return exactIn(ops, rule, eras, inEras(eras))
}

// exactIn judges them on a clock that was set at times.
func exactIn(ops []history.Op, rule model.Rule, eras []era, where spanned) Judgement {
	absurd := incoherent(ops, rule)
	ops, rule = told(ops, rule.Untold), rule.Told()
	j := tally(ops, rule, untilSet(eras))
	if absurd != nil {
		return j.because(Broken, fmt.Sprintf("%s was told what no state explains: %s", name(absurd), describe(absurd.Decision)))
	}
	others, recalled := fromMemory(ops, rule)
	decided, lost, impossible := sorted(others, eras)
	if impossible != nil {
		return j.because(Broken, fmt.Sprintf("%s bears %d, a time that the server's clock did not show while it was under way",
			name(impossible), impossible.Decision.At.UnixMicro()))
	}
	j.bound(most(decided, rule))
	if rule.AtOnce {
		j.hold(ops, rule, eras, j.Allowance)
	}
	if a, b, ok := outOfOrder(decided); ok {
		return j.because(Broken, fmt.Sprintf(
			"server time runs against real time: %s returned before %s was called, and bears a later time", name(a), name(b)))
	}
	found := replay(decided, lost, rule, eras)
	j.Replayed, j.Settled, j.Loose = found.replayed, found.settledN, found.loose
	misremembered, pressing, held := "", decided, "every decision replayed"
	if len(recalled) > 0 {
		misremembered = j.recall(recalled, recollect(decided, rule.Fresh, found.marks, where))
		pressing = byCall(ops, func(history.Op) bool { return true })
		held = fmt.Sprintf("%d decisions replayed, %d refusals from memory", j.Replayed, j.Recalled)
	}
	switch {
	case found.difference != nil:
		j.Difference = found.difference
		j.Overshoot, j.Undershoot = max(j.Overshoot, found.over), max(j.Undershoot, found.under)
		return j.because(Broken, found.difference.String())
	case misremembered != "":
		return j.because(Broken, misremembered)
	case rule.AtOnce && j.Overshoot > 0:
		return j.because(Broken, j.tooMany(ops[0].Request.Limit))
	case found.excused && j.Overshoot == 0 && j.Undershoot == 0:
		return j.because(Inconclusive, fmt.Sprintf(
			"%d lost replies, or the order within a microsecond, may explain %v", len(lost), found.open))
	case found.open != nil && (j.Overshoot > 0 || j.Undershoot > 0):
		j.Difference = found.open
		return j.because(Broken, found.open.String())
	case found.open != nil:
		return j.pressed(pressing, rule, fmt.Sprintf("%d decisions replayed, %d beside lost calls bounded", j.Replayed+j.Recalled, j.Loose))
	}
	return j.pressed(pressing, rule, held)
}

// incoherent is the first decision that contradicts itself, whatever the state: a lost call excuses none of those.
func incoherent(ops []history.Op, rule model.Rule) *history.Op {
	if rule.Untold != 0 {
		return nil
	}
	for i := range ops {
		d, r := ops[i].Decision, ops[i].Request
		if ops[i].Outcome != history.Decided {
			continue
		}
		if d.Allowed != (d.RetryAfter == 0) || d.Remaining < 0 || d.Remaining > rule.Capacity(r.Limit) || d.ResetAfter < 0 {
			return &ops[i]
		}
	}
	return nil
}

// told are the calls with what is compared of their decisions.
func told(ops []history.Op, untold model.Fields) []history.Op {
	if untold == 0 {
		return ops
	}
	ops = slices.Clone(ops)
	for i := range ops {
		ops[i].Decision = untold.Blank(ops[i].Decision)
	}
	return ops
}

// most is the most that the rule admits in the time that decisions span, of each era as if it began afresh.
func most(decided []timed, rule model.Rule) int64 {
	sum := int64(0)
	for from := 0; from < len(decided); {
		to := from
		for to+1 < len(decided) && decided[to+1].era() == decided[from].era() {
			to++
		}
		sum = plus(sum, rule.Most(decided[from].Request.Limit, decided[from].Decision.At, decided[to].Decision.At))
		from = to + 1
	}
	return sum
}

// JudgeCourse judges the calls on one key that was fresh at first, on a clock that was read often and set at times:
// exactly if every decision bears the server's time, by the worst interval if none does. A script that fails of itself,
// or whose reply says nothing, is broken whatever else it decides: no fault of a server does that.
func JudgeCourse(ops []history.Op, rule model.Rule, course Course) Judgement {
	j := judgeCourse(ops, rule, course)
	failed := slices.IndexFunc(ops, func(op history.Op) bool { return op.Class == limiter.ClassScript })
	if failed >= 0 && j.Verdict != Broken {
		return j.because(Broken, fmt.Sprintf("%s: the script failed, or its reply is none", name(&ops[failed])))
	}
	return j
}

func judgeCourse(ops []history.Op, rule model.Rule, course Course) Judgement {
	eras := course.eras()
	for _, e := range eras {
		if by, yes := e.contradicted(); yes {
			return tally(ops, rule, untilSet(eras)).because(Inconclusive, fmt.Sprintf("the server's clock stepped by %v", by))
		}
	}
	timed, untimed := countTimed(ops)
	if untimed == 0 || rule.Recalls && timed > 0 {
		j := exactIn(ops, rule, eras, inEras(eras))
		if worst, _ := worstIn(ops, rule, eras); worst.Over() > 0 {
			j.Worst, j.Overshoot = &worst, max(j.Overshoot, worst.Over())
			if j.Verdict != Broken { // a replay cannot miss it: one of the two is wrong
				j = j.because(Broken, fmt.Sprintf("%d events admitted where the rule has room for %d", worst.Admitted, worst.Most))
			}
		}
		return j
	}
	eras, rule = supposed(eras, rule, ops)
	j := byWorst(ops, rule, eras)
	if timed > 0 && j.Verdict == Held {
		return j.because(Inconclusive, fmt.Sprintf("%d of %d decisions bear no server time", untimed, timed+untimed))
	}
	return j
}

// byBound judges the calls on one fresh key by the most that the rule admits over the time that passed.
func byBound(ops []history.Op, rule model.Rule, c clock) Judgement {
	j := tally(ops, rule, ever)
	if len(ops) > 0 {
		from, to := c.bracket(ops)
		j.bound(rule.Most(ops[0].Request.Limit, from, to))
	}
	if rule.AtOnce {
		j.hold(ops, rule, nil, j.Allowance)
	}
	switch {
	case rule.AtOnce && j.Overshoot > 0:
		return j.because(Broken, j.tooMany(ops[0].Request.Limit))
	case j.Overshoot > 0:
		return j.because(Broken, fmt.Sprintf("%d events admitted where the rule has room for %d", j.Allowed, j.Allowance))
	}
	return j.pressed(byCall(ops, func(history.Op) bool { return true }), rule, "by bound")
}

func (j Judgement) because(v Verdict, reason string) Judgement {
	j.Verdict, j.Reason = v, reason
	return j
}

func (j *Judgement) bound(most int64) {
	j.Allowance = most
	j.Overshoot = max(0, j.Allowed-most)
}

// tally counts outcomes, and what of the denials up to an instant is wrong in every order.
func tally(ops []history.Op, rule model.Rule, until int64) Judgement {
	var j Judgement
	for _, op := range ops {
		if !op.Asked() && op.Outcome == history.Decided {
			if op.Released() && op.Decision.Allowed {
				j.Released++
			}
			continue
		}
		j.Attempts++
		switch {
		case op.Admitted():
			j.Allowed += op.Request.Cost
		case op.Denied():
			j.Denied++
		case op.Outcome == history.Failed:
			j.Failed++
		default:
			j.Unknown++
		}
		if op.Outcome != history.Decided && j.undecided == "" {
			j.undecided = op.Class
		}
	}
	j.Undershoot = undershoot(ops, rule, until)
	return j
}

// undershootOf is the cost of a request that was denied where the model allows it.
func undershootOf(d Difference) int64 {
	if d.Want.Allowed && !d.Op.Decision.Allowed {
		return d.Op.Request.Cost
	}
	return 0
}

func name(op *history.Op) string {
	return fmt.Sprintf("process %d client %d call %d", op.Proc, op.Client, op.Seq)
}
