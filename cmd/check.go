package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// checkPlan is one run of check.
type checkPlan struct {
	key    string
	entry  target.Entry
	limit  limiter.Limit
	cost   int64
	count  int64
	peek   bool
	prefix string
}

// checkFlags are the flags of check as they were typed.
type checkFlags struct {
	limiter string
	limit   limitFlags
	cost    cost
	count   times
	peek    bool
}

func newCheck(e *env, conn *connFlags) *cobra.Command {
	f := checkFlags{cost: 1, count: 1}
	c := &cobra.Command{
		Use:   "check KEY",
		Short: "Ask a limiter whether a client may pass",
		Long: "check takes one request of the client KEY from a limiter and says what it answered.\n" +
			"It exits with 0 if the request was allowed, with 1 if it (with --count: any) was denied.\n" +
			"With --format json each decision is one line of rlctl.check/v1, so --count N writes N lines.",
		Example: "  rlctl check client-1 --limit 100/1m\n" +
			"  rlctl check client-1 --limiter gcra --limit 10/1s --burst 20 --cost 3\n" +
			"  rlctl check client-1 --peek --format json",
		Args:              arguments("KEY"),
		ValidArgsFunction: cobra.NoFileCompletions,
		Annotations:       online(),
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&f.limiter, "limiter", "sliding-log", "which limiter to ask: rlctl list")
	f.limit.register(c, 100)
	c.Flags().Var(&f.cost, "cost", "events that the request takes")
	c.Flags().Var(&f.count, "count", "requests, one after the other")
	c.Flags().BoolVar(&f.peek, "peek", false, "take nothing, only say what would be")
	format := formatFlag(c)
	completeWords(c, "limiter", target.Names(e.catalogue))
	completeWords(c, "limit", nil)
	c.RunE = func(c *cobra.Command, args []string) error {
		plan, err := f.plan(e, c, args[0])
		if err != nil {
			return err
		}
		where, err := conn.service(c.Context(), e, c.Flags())
		if err != nil {
			return err
		}
		plan.prefix = conn.prefix
		if plan.limit.Burst > 0 && plan.capacity() != plan.limit.Capacity() {
			e.note("--burst is ignored: %s is no bucket", plan.entry.Name)
		}
		return plan.run(c.Context(), e, where, newCheckView(e, plan, format.format()))
	}
	return c
}

// plan reads the flags together.
func (f *checkFlags) plan(e *env, c *cobra.Command, key string) (p checkPlan, err error) {
	p = checkPlan{key: key, cost: int64(f.cost), count: int64(f.count), peek: f.peek}
	if p.entry, err = findLimiter(e, f.limiter); err != nil {
		return p, err
	}
	if key == "" {
		return p, usagef("KEY must not be empty")
	}
	p.limit, err = f.limit.read(c.Flags())
	return p, err
}

func findLimiter(e *env, name string) (target.Entry, error) {
	entry, err := target.Find(e.catalogue, name)
	if err != nil {
		return entry, usageError{fmt.Errorf("--limiter: %w", err), "all limiters: rlctl list"}
	}
	return entry, nil
}

// run asks count times and shows each answer when it comes.
func (p checkPlan) run(ctx context.Context, e *env, where target.Conn, view *checkView) error {
	rdb, closed, err := open(ctx, where)
	if err != nil {
		return err
	}
	defer closed()
	denied, err := p.ask(ctx, rdb, where.Timeout, view)
	if err = errors.Join(err, view.end()); err != nil {
		return atServer(where, err)
	}
	if denied {
		return errBroken
	}
	return nil
}

func (p checkPlan) ask(
	ctx context.Context, rdb redis.UniversalClient, timeout time.Duration, view *checkView,
) (denied bool, err error) {
	l, err := p.entry.New(rdb, p.limit, limiter.WithPrefix(p.prefix))
	if err != nil {
		return false, err
	}
	for range p.count {
		start := time.Now()
		d, err := p.once(ctx, l, timeout)
		if err != nil {
			return denied, err
		}
		denied = denied || !d.Allowed
		if err := view.show(d, time.Since(start)); err != nil {
			return denied, err
		}
		if ctx.Err() != nil {
			return denied, context.Cause(ctx)
		}
	}
	return denied, nil
}

// once asks for one decision. A peek takes nothing and is judged here: the cost would pass if that much is left. How
// long a cost that does not pass has to wait is not known then, unless it is for ever.
func (p checkPlan) once(ctx context.Context, l limiter.Limiter, timeout time.Duration) (limiter.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout) // of dialling and asking together
	defer cancel()
	if !p.peek {
		return l.Check(ctx, p.key, p.cost)
	}
	d, err := l.Check(ctx, p.key, 0)
	d.Allowed = p.cost <= d.Remaining || p.cost == 0
	if p.cost > p.capacity() {
		d.RetryAfter = limiter.Never
	}
	return d, err
}

// capacity is the most that a fresh key allows at once: the burst of a bucket, the limit of all else.
func (p checkPlan) capacity() int64 {
	if p.entry.Rule.Fresh == nil {
		return p.limit.Events
	}
	_, d := p.entry.Rule.Fresh.Check(time.Unix(0, 0), model.Request{Limit: p.limit})
	return d.Remaining
}

// checkView shows decisions one by one.
type checkView struct {
	env      *env
	plan     checkPlan
	format   report.Format
	capacity int64
	csv      *report.CSV
	table    report.Table // of Markdown, which cannot be written by the line
}

func newCheckView(e *env, p checkPlan, f report.Format) *checkView {
	return &checkView{env: e, plan: p, format: f, capacity: p.capacity(), csv: report.NewCSV(e.stdout)}
}

// checkRecord is one decision as JSON and CSV show it.
type checkRecord struct {
	Key          string `json:"key"`
	Limiter      string `json:"limiter"`
	Allowed      bool   `json:"allowed"`
	Limit        int64  `json:"limit"`
	WindowUS     int64  `json:"window_us"`
	Burst        int64  `json:"burst"`
	Cost         int64  `json:"cost"`
	Remaining    int64  `json:"remaining"`
	RetryAfterUS *int64 `json:"retry_after_us"`
	ResetAfterUS int64  `json:"reset_after_us"`
	ServerTimeUS *int64 `json:"server_time_us"`
	Degraded     bool   `json:"degraded"`
}

func (v *checkView) record(d limiter.Decision) checkRecord {
	p := v.plan
	r := checkRecord{
		Key: p.key, Limiter: p.entry.Name, Allowed: d.Allowed,
		Limit: p.limit.Events, WindowUS: p.limit.Window.Microseconds(), Burst: v.capacity, Cost: p.cost,
		Remaining: d.Remaining, ResetAfterUS: d.ResetAfter.Microseconds(), Degraded: d.Degraded,
	}
	switch {
	case d.RetryAfter == limiter.Never:
		r.RetryAfterUS = new(int64(-1))
	case d.Allowed || d.RetryAfter > 0:
		r.RetryAfterUS = new(d.RetryAfter.Microseconds())
	}
	if !d.At.IsZero() {
		r.ServerTimeUS = new(d.At.UnixMicro())
	}
	return r
}

func (v *checkView) show(d limiter.Decision, took time.Duration) error {
	switch v.format {
	case report.JSONFormat:
		return report.WriteJSONLine(v.env.stdout, struct {
			Schema string `json:"schema"`
			checkRecord
		}{"rlctl.check/v1", v.record(d)})
	case report.CSVFormat:
		return v.csv.Write(v.record(d))
	case report.MarkdownFormat:
		v.table.Add(report.Plain(v.plan.key), report.Plain(v.plan.entry.Name), verdict(d), report.Plain(v.left(d)),
			report.Plain(v.wait(d)))
		return nil
	}
	_, err := fmt.Fprint(v.env.stdout, v.env.out.Line(v.line(d, took)))
	return err
}

// end writes what can only be written as a whole.
func (v *checkView) end() error {
	if len(v.table.Rows) == 0 {
		return nil
	}
	v.table.Columns = []report.Column{{Title: "KEY"}, {Title: "LIMITER"}, {Title: "DECISION"}, {Title: "LEFT"}, {Title: "THEN"}}
	return report.Document{Table: v.table}.Write(v.env.stdout, v.format, v.env.out)
}

// line is for a person: the answer, what is left, how long to wait, and in brackets who was asked.
func (v *checkView) line(d limiter.Decision, took time.Duration) report.Line {
	word := verdict(d)
	word.Text = fmt.Sprintf("%-8s", word.Text)
	asked := fmt.Sprintf("%s, %s per %s", v.plan.entry.Name, report.Int(v.plan.limit.Events), report.Duration(v.plan.limit.Window))
	if v.capacity != v.plan.limit.Events {
		asked += ", burst " + report.Int(v.capacity)
	}
	if v.plan.peek {
		asked += ", peek"
	}
	return report.Line{
		word, report.Plain("  " + v.left(d) + "   " + v.wait(d) + "   "),
		{Text: fmt.Sprintf("(%s, %s)", asked, report.Millis(took)), Tone: report.Faint},
	}
}

func verdict(d limiter.Decision) report.Cell {
	if d.Allowed {
		return report.Cell{Text: "allowed", Tone: report.Good}
	}
	return report.Cell{Text: "denied", Tone: report.Bad}
}

func (v *checkView) left(d limiter.Decision) string {
	return report.Int(d.Remaining) + " of " + report.Int(v.capacity) + " left"
}

func (v *checkView) wait(d limiter.Decision) string {
	switch {
	case d.RetryAfter == limiter.Never:
		return fmt.Sprintf("never: a cost of %s cannot pass %s", report.Int(v.plan.cost), report.Int(v.capacity))
	case !d.Allowed && d.RetryAfter > 0:
		return "retry in " + report.Duration(d.RetryAfter)
	case d.ResetAfter > 0:
		return "full again in " + report.Duration(d.ResetAfter)
	}
	return "nothing used"
}
