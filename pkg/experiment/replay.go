package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/accesslog"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/target"
)

// Replay is the plan of asking what limits would have refused of the requests in an access log. No server is asked: the
// limiters' rules decide, by the times in the log.
type Replay struct {
	Limiters []string        // names of limiters whose rule is their own; each with each of
	Limits   []limiter.Limit // these
	Log      accesslog.Spec
	Sort     bool  // take requests in the order of their times, not of their lines: all are held in memory
	ShowKeys bool  // name clients by their keys, not by digests
	Top      int   // clients to name of each limit, those that it refuses most: 0 to 1,000
	Size     int64 // of the log in bytes, 0 if it is not known
}

const (
	maxTop   = 1000
	maxRules = 64
)

// replayRule is one limiter with one limit.
type replayRule struct {
	entry target.Entry
	limit limiter.Limit
}

// takes tells whether the limiter takes a request of that cost at all, allowed or refused.
func (r replayRule) takes(cost int64) bool {
	return r.entry.Rule.Memory != model.Events || cost <= limiter.MaxLogCost || cost > r.limit.Events
}

// Validate returns an error that begins with the flag at fault, if one is.
func (p Replay) Validate(catalogue []target.Entry) error {
	rules, err := p.rules(catalogue)
	if err != nil {
		return err
	}
	switch {
	case p.Top < 0 || p.Top > maxTop:
		return fmt.Errorf("--top: want 0 to %d, got %d", maxTop, p.Top)
	case p.Log.Fixed < 0 || p.Log.Fixed > limiter.MaxCost:
		return fmt.Errorf("--cost: want 0 to %d, got %d", int64(limiter.MaxCost), p.Log.Fixed)
	}
	for _, r := range rules {
		if p.Log.Cost == "" && !r.takes(p.Log.Fixed) {
			return fmt.Errorf("--cost: %s takes at most %d at once", r.entry.Name, limiter.MaxLogCost)
		}
	}
	return nil
}

// rules are the limiters, each with each limit.
func (p Replay) rules(catalogue []target.Entry) (rules []replayRule, err error) {
	for _, name := range p.Limiters {
		e, err := target.FindRule(catalogue, name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("--limiter: %w", err)
		case e.Rule.AtOnce:
			return nil, fmt.Errorf("--limiter: %s counts who holds at once, and a log does not tell when a request ended", name)
		}
		for _, l := range p.Limits {
			if _, err := e.New(nil, l); err != nil {
				return nil, refused(e.Name, err)
			}
			rules = append(rules, replayRule{e, l})
		}
	}
	if len(rules) == 0 || len(rules) > maxRules {
		return nil, fmt.Errorf("--limit: want 1 to %d limits, each of each limiter, got %d", maxRules, len(rules))
	}
	return rules, nil
}

// ignoresBurst tells whether a burst is asked for that no limiter knows.
func (p Replay) ignoresBurst(rules []replayRule) bool {
	return !slices.ContainsFunc(rules, func(r replayRule) bool { return r.limit.Burst == 0 || r.entry.Rule.Memory == model.Level })
}

// Run reads the log. If an interrupt or an error ends it, what was read until then is the result, marked partial, beside
// the error; nil if nothing was.
func (p Replay) Run(ctx context.Context, env Env, log io.Reader) (*ReplayResult, error) {
	rules, err := p.rules(env.Catalogue)
	if err != nil {
		return nil, err
	}
	if p.ignoresBurst(rules) {
		env.Note("--burst is ignored: none of the limiters is a bucket")
	}
	l, err := accesslog.Open(ctx, log, p.Log)
	var spec *accesslog.SpecError
	switch {
	case errors.As(err, &spec):
		return nil, fmt.Errorf("--%w", spec)
	case err != nil:
		return nil, err
	}
	for _, taken := range l.Taken() {
		env.Note(taken)
	}
	start := time.Now()
	r := &replaying{Replay: p, env: env, rules: rules, result: p.result(env, l.Spec(), rules)}
	err = r.read(ctx, l)
	r.result.ElapsedUS = time.Since(start).Microseconds()
	r.result.conclude(err != nil)
	return r.result, err
}
