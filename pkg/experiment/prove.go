package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// Prove is the plan of an exploration: of each limiter, every order in which a few clients can send their commands, and
// every command after which one of them can die. It runs on a server of its own whose clock stands still.
type Prove struct {
	Limiters []string // names in the catalogue; none means all of it
	Limit    limiter.Limit
	Clients  int             // 1 to explore.MaxClients
	Calls    int             // of cost 1 that each makes
	Starts   []explore.Start // of each limiter
	Crash    bool            // at most one client dies
	Skew     bool            // what clocks break is explored on clocks that differ, too
	Release  bool            // what can be given back is, in explorations of their own
	Explain  bool            // show a schedule of each limiter step by step
	Schedule string          // the id of the one schedule to run; the rest of the plan is in it, but for Explain and Prefix
	Prefix   string
}

// maxExplored bounds the events that are taken before the clients begin: of a log about 100 MiB.
const maxExplored = 1_000_000

// Explanation is the plan of race --explain: two clients suffice for a race, and a third makes no table that one can
// read.
func Explanation(limiters []string, l limiter.Limit, prefix string) Prove {
	return Prove{
		Limiters: limiters, Limit: l, Clients: 2, Calls: 1, Starts: []explore.Start{explore.OneLeft}, Explain: true, Prefix: prefix,
	}
}

// Validate returns an error that begins with the flag at fault, if one is.
func (p Prove) Validate(catalogue []target.Entry) error {
	if p.Schedule != "" {
		_, err := p.scheduled(catalogue)
		return err
	}
	rows, err := named(catalogue, p.Limiters)
	if err != nil {
		return err
	}
	switch {
	case p.Clients < 1 || p.Clients > explore.MaxClients:
		return fmt.Errorf("--clients: want 1 to %d, got %d", explore.MaxClients, p.Clients)
	case p.Calls < 1 || p.Calls > explore.MaxCalls:
		return fmt.Errorf("--calls: want 1 to %d, got %d", explore.MaxCalls, p.Calls)
	case p.Clients*p.Calls < 2:
		return fmt.Errorf("--clients: one client with one call has nobody to be in the way of")
	case p.Limit.Events < 1 || p.Limit.Events > maxExplored:
		return fmt.Errorf("--limit: want 1 to %s, since all but one are taken first", report.Int(maxExplored))
	case p.Limit.Burst > maxExplored:
		return fmt.Errorf("--burst: want at most %s, since all but one are taken first", report.Int(maxExplored))
	}
	for _, e := range rows {
		if e.Service {
			return fmt.Errorf("--explore: what happens behind %s is not seen, so there is nothing to order: "+
				"use race or prove --stress", e.Name)
		}
		if _, err := e.New(nil, p.Limit, limiter.WithPrefix(p.Prefix)); err != nil {
			return refused(e.Name, err)
		}
	}
	return nil
}

// plans are the explorations, those of one limiter together.
func (p Prove) plans(catalogue []target.Entry) ([]scheduled, error) {
	if p.Schedule != "" {
		one, err := p.scheduled(catalogue)
		return []scheduled{one}, err
	}
	rows, err := named(catalogue, p.Limiters)
	if err != nil {
		return nil, err
	}
	var out []scheduled
	for _, e := range rows {
		for _, start := range p.Starts {
			plan := explore.Plan{
				Entry: e, Limit: p.Limit, Clients: p.Clients, Calls: p.Calls, Start: start, Crash: p.Crash, Prefix: p.Prefix,
			}
			if e.Rule.Recalls { // a client must have been refused before
				plan.Calls = max(2, p.Calls)
			}
			if start == explore.Empty { // one less than they want
				plan.Limit.Events, plan.Limit.Burst = int64(p.Clients*plan.Calls)-1, 0
			}
			out = append(out, scheduled{Plan: plan})
			if e.Releases() && e.Atomic() && p.Release {
				giving := plan
				giving.Release = true
				out = append(out, scheduled{Plan: giving})
			}
			if (e.BrokenBy == target.Skew || e.Callers) && p.Skew {
				plan.Skew = true
				out = append(out, scheduled{Plan: plan})
			}
		}
	}
	return out, nil
}

// Run explores each limiter. One that an interrupt or an error ends returns what there is, marked partial, beside the
// error.
func (p Prove) Run(ctx context.Context, env Env) (*ProveResult, error) {
	if err := p.Validate(env.Catalogue); err != nil {
		return nil, err
	}
	plans, err := p.plans(env.Catalogue)
	if err != nil {
		return nil, err
	}
	srv, err := redisd.StartKept(ctx, env.Self, redisd.Options{Clock: true})
	if err != nil {
		return nil, &limiter.Error{Class: limiter.ClassUnreachable, Err: err}
	}
	env.Note(fmt.Sprintf("started a private redis-server %s (%s) whose clock stands still; it goes when this ends",
		srv.Version(), srv.Socket()))
	ctx, stop := untilItDies(ctx, srv)
	defer stop()
	start := time.Now()
	r := p.result(env, srv.Version())
	for i, plan := range plans {
		if err = revive(ctx, srv); err != nil {
			break
		}
		var row ProveRow
		row, err = plan.explore(ctx, srv, func(steps int64) {
			env.Progress(int64(i), int64(len(plans)), fmt.Sprintf("%s: %s steps", plan.Entry.Name, report.Int(steps)))
		})
		if err != nil {
			break
		}
		r.Results = append(r.Results, row)
	}
	r.ElapsedUS = time.Since(start).Microseconds()
	r.Partial = err != nil
	r.Verdict = r.overall()
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case hungUp(err):
		err = &limiter.Error{Class: limiter.ClassUnreachable, Err: err}
	}
	return r, errors.Join(err, srv.Close())
}

// revive starts the server again if the limiter before left it running a script without end.
func revive(ctx context.Context, srv *redisd.Kept) error {
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: srv.Socket(), MaxRetries: -1, ReadTimeout: reviveAfter})
	defer rdb.Close()
	err := rdb.Ping(ctx).Err()
	var wait net.Error
	switch {
	case err == nil || ctx.Err() != nil:
		return nil
	case hungUp(err) && !(errors.As(err, &wait) && wait.Timeout()): // it is not busy: somebody else ended it
		return &limiter.Error{Class: limiter.ClassUnreachable, Err: err}
	}
	if err := srv.Restart(ctx); err != nil {
		return &limiter.Error{Class: limiter.ClassUnreachable, Err: err}
	}
	return nil
}

const reviveAfter = 5 * time.Second

// hungUp tells whether the server ended a connection, which may be heard of before its death is.
func hungUp(err error) bool {
	var broken *net.OpError
	if errors.Is(err, explore.ErrHung) {
		return false
	}
	return errors.As(err, &broken) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) // of a client that looks at its connection by itself
}

// explore runs one exploration, or its one schedule.
func (p scheduled) explore(ctx context.Context, srv explore.Server, progress func(int64)) (ProveRow, error) {
	start := time.Now()
	var found explore.Result
	var err error
	if p.order == "" {
		found, err = explore.Run(ctx, srv, p.Plan, progress)
	} else {
		found, err = explore.Replay(ctx, srv, p.Plan, p.order)
	}
	row := p.row(found)
	row.ElapsedUS = time.Since(start).Microseconds()
	switch {
	case ctx.Err() == nil && !hungUp(err) && inconclusive(err):
		row.Verdict, row.Reason, err = replay.Inconclusive, err.Error(), nil
	case found.Violating > 0:
		row.Verdict, row.Reason = replay.Broken, found.Shown.Violation.Reason
	}
	row.Expected = row.Verdict == p.expected()
	if p.order != "" { // one schedule of a limiter that others break may well hold
		row.Expected = row.Expected || row.Verdict == replay.Held
	}
	return row, err
}

// inconclusive tells whether an exploration ended because the limiter is not one that can be judged.
func inconclusive(err error) bool {
	return errors.Is(err, explore.ErrHung) || errors.Is(err, explore.ErrNotDeterministic) || errors.Is(err, explore.ErrRefused) || errors.Is(err, explore.ErrFailed)
}

// expected is what must come out: a racy limiter breaks, and one that something else breaks does where that can happen.
func (p scheduled) expected() replay.Verdict {
	switch by := p.Entry.BrokenBy; {
	case by == target.Race, by == target.Denial,
		by == target.Skew && p.Skew,
		by == target.Crash && p.Crash && p.Start == explore.Empty:
		return replay.Broken
	}
	return replay.Held
}
