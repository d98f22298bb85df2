package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// Explain is the plan of an explanation: of each limiter, every order in which two clients can send their commands when
// one slot is left, and the smallest that lets both in. It runs on a server of its own whose clock stands still.
type Explain struct {
	Limiters []string // names in the catalogue; none means all of it
	Limit    limiter.Limit
	Prefix   string
}

// explained is how many clients are looked at. Two suffice for a race, and a third makes no table that one can read.
const explained = 2

// maxExplained bounds the events that are taken before the clients begin: of a log about 100 MiB.
const maxExplained = 1_000_000

// Validate returns an error that begins with the flag at fault, if one is.
func (p Explain) Validate(catalogue []target.Entry) error {
	rows, err := named(catalogue, p.Limiters)
	if err != nil {
		return err
	}
	switch {
	case p.Limit.Events < 1 || p.Limit.Events > maxExplained:
		return fmt.Errorf("--limit: want 1 to %s to explain, since all but one are taken first", report.Int(maxExplained))
	case p.Limit.Burst > maxExplained:
		return fmt.Errorf("--burst: want at most %s to explain, since all but one are taken first", report.Int(maxExplained))
	}
	for _, e := range rows {
		if _, err := e.New(nil, p.Limit, limiter.WithPrefix(p.Prefix)); err != nil {
			return refused(e.Name, err)
		}
	}
	return nil
}

// Run explores each limiter. One that an interrupt or an error ends returns what there is, marked partial, beside the
// error.
func (p Explain) Run(ctx context.Context, env Env) (*ExplainResult, error) {
	if err := p.Validate(env.Catalogue); err != nil {
		return nil, err
	}
	rows, err := named(env.Catalogue, p.Limiters)
	if err != nil {
		return nil, err
	}
	srv, err := redisd.StartKept(ctx, env.Self, redisd.Options{Clock: true})
	if err != nil {
		return nil, &limiter.Error{Class: limiter.ClassUnreachable, Err: err}
	}
	env.Note(fmt.Sprintf("started a private redis-server %s (%s) whose clock stands still; it goes when this ends",
		srv.Version(), srv.Socket()))
	start := time.Now()
	r := p.result(srv.Version())
	for i, e := range rows {
		var row ExplainRow
		row, err = p.row(ctx, srv, e, func(orders int64) {
			env.Progress(int64(i), int64(len(rows)), fmt.Sprintf("%s: %d orders", e.Name, orders))
		})
		if err != nil {
			break
		}
		r.Results = append(r.Results, row)
	}
	r.ElapsedUS = time.Since(start).Microseconds()
	r.Partial = err != nil
	r.Verdict = r.overall()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return r, errors.Join(err, srv.Close())
}

func (p Explain) row(ctx context.Context, srv explore.Server, e target.Entry, progress func(int64)) (ExplainRow, error) {
	start := time.Now()
	plan := explore.Plan{Entry: e, Limit: p.Limit, Clients: explained, Prefix: p.Prefix}
	found, err := explore.Run(ctx, srv, plan, progress)
	row := ExplainRow{
		Limiter: e.Name, Atomic: e.Atomic(), Twin: e.Twin, BrokenBy: e.BrokenBy, Mode: "explore", Clients: explained,
		Calls: 1, Slots: found.Slots, Orders: found.Orders, Violating: found.Violating, Verdict: replay.Held,
		Shown: explainSchedule(found.Shown, found.Slots), ElapsedUS: time.Since(start).Microseconds(),
	}
	switch {
	case errors.Is(err, explore.ErrNotDeterministic):
		row.Verdict, row.Reason, err = replay.Inconclusive, err.Error(), nil
	case found.Violating > 0:
		row.Verdict = replay.Broken
	}
	row.Expected = row.Verdict == expectedInOrders(e)
	return row, err
}

// expectedInOrders is what must come out of exploring orders alone.
func expectedInOrders(e target.Entry) replay.Verdict {
	if e.BrokenBy == target.Race {
		return replay.Broken
	}
	return replay.Held
}
