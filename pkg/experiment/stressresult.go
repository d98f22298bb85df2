package experiment

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
)

// StressCounts are of requests, but for overshoot and undershoot, which are of events. All are 0 in an exploration.
type StressCounts struct {
	Ops        int64 `json:"ops"`
	Allowed    int64 `json:"allowed"`
	Denied     int64 `json:"denied"`
	Errors     int64 `json:"errors"` // that were certainly not counted
	Unknown    int64 `json:"unknown"`
	Settled    int64 `json:"settled"`            // unknown calls of which later replies told that they had counted
	Replayed   int64 `json:"replayed"`           // decisions compared with the rule's, field by field
	Recalled   int64 `json:"recalled,omitempty"` // refusals from memory that agree with the rule
	Loose      int64 `json:"loose"`              // decisions that an unknown call kept from it, and that were bounded
	AtOnce     int64 `json:"at_once"`            // the most calls under way on one key
	Overshoot  int64 `json:"overshoot"`
	Undershoot int64 `json:"undershoot"`
	Immortal   int64 `json:"immortal"` // keys left without a TTL
	Lost       int64 `json:"lost"`     // events that a failover lost, as far as later decisions tell
}

func (c *StressCounts) add(j replay.Judgement) {
	c.Ops += j.Attempts
	c.Denied += j.Denied
	c.Errors += j.Failed
	c.Unknown += j.Unknown
	c.Allowed += j.Attempts - j.Denied - j.Failed - j.Unknown
	c.Settled += j.Settled
	c.Replayed += j.Replayed
	c.Recalled += j.Recalled
	c.Loose += j.Loose
	c.Overshoot += j.Overshoot
	c.Undershoot += j.Undershoot
}

func (p Stress) result(env Env, s *server) *ProveResult {
	return &ProveResult{
		Schema: ProveSchema, Env: env.Provenance.madeOn(s.Server), Limit: p.Limit.Events, WindowUS: p.Limit.Window.Microseconds(),
		Burst: p.Limit.Capacity(), Clients: p.Procs * p.Clients, Procs: p.Procs, Keys: p.Keys, DurationUS: p.Duration.Microseconds(),
		TimeoutUS: p.Timeout.Microseconds(), Seed: fmt.Sprintf("%x", p.Seed), Redis: s.Server, Results: []ProveRow{},
	}
}

// judge judges each key of a run by itself, and then whether the run showed what it was to show.
func (s *stressing) judge(ctx context.Context, e target.Entry, base string, run stressRun) (ProveRow, error) {
	row := ProveRow{
		Limiter: e.Name, Atomic: e.Atomic(), Twin: e.Twin, BrokenBy: e.BrokenBy, Mode: modeStress, Clients: s.Procs * s.Clients,
		Start: explore.Empty, Skew: e.BrokenBy == target.Skew, Retries: run.Summary.Retries, Faults: run.faults, LeftOut: s.leftOut(e),
		Verdict: replay.Held, First: ProveSchedule{Before: []ProveKey{}, Steps: []ProveStep{}}, Found: []ProveFound{},
	}
	if row.Faults == nil {
		row.Faults = []StressFault{}
	}
	of := byKey(run.Ops)
	for i := range s.Keys {
		key := fleet.WildKey(base, i)
		j, lost := judgeKey(of[key], e, run.course, run.told(), key)
		row.StressCounts.add(j)
		row.Lost += lost
		row.Headers = together(row.Headers, headersOf(e, of[key], run.course))
		row.AtOnce = max(row.AtOnce, atOnce(of[key]))
		row.worsen(j.Verdict, j.Reason)
		if row.proof == nil {
			row.proof = certify(e, key, j.Worst, fmt.Sprintf("%x", s.Seed), s.command(e))
		}
		ttl, err := s.ttl(ctx, e, key)
		if err != nil {
			return row, err
		}
		if ttl == noTTL {
			row.Immortal++
			row.worsen(replay.Broken, "a key was left without a TTL")
		}
		if longest := e.Rule.Longest(s.Limit) + 2*time.Millisecond; ttl > longest && writtenAfter(of[key], s.steps) && e.BrokenBy != target.Skew {
			row.worsen(replay.Broken, fmt.Sprintf("a key was left with a TTL of %v, where %v suffices", ttl, longest))
		}
	}
	for _, f := range run.faults {
		if !f.Applied {
			row.worsen(replay.Inconclusive, f.missed())
		}
	}
	if n := len(run.Deaths) - s.killed; n > 0 {
		row.worsen(replay.Inconclusive, fmt.Sprintf("%d processes died that nobody killed (%s)", n, run.Deaths[0].Cause))
	}
	if why := s.usurped(ctx); why != "" {
		row.Verdict, row.Reason = replay.Inconclusive, why
	}
	row.Violating = row.Overshoot + row.Undershoot
	row.Expected = row.asExpectedUnderStress()
	return row, nil
}

const modeStress = "stress"

// worsen lets a verdict take precedence: broken before inconclusive before held. Of equals the first reason stays.
func (row *ProveRow) worsen(v replay.Verdict, reason string) {
	rank := []replay.Verdict{replay.Held, replay.Inconclusive, replay.Broken}
	if row.Reason == "" || slices.Index(rank, v) > slices.Index(rank, row.Verdict) {
		row.Verdict, row.Reason = v, reason
	}
}

// asExpectedUnderStress: what a race breaks breaks, as does what clocks break, since they differ, and what denials break,
// since callers ask for more than the limit all the time. What a death breaks may hold, for it has to come between two
// commands; all else holds.
func (row ProveRow) asExpectedUnderStress() bool {
	switch row.BrokenBy {
	case target.Race, target.Skew, target.Denial:
		return row.Verdict == replay.Broken
	case target.Crash:
		return row.Verdict != replay.Inconclusive
	}
	return row.Verdict == replay.Held
}

func (f StressFault) missed() string {
	if f.Problem != "" {
		return fmt.Sprintf("%s could not be brought about: %s", f.Fault, f.Problem)
	}
	return fmt.Sprintf("%s at %.1f s met no call", f.Fault, float64(f.AtUS)/1e6)
}

// bound tells of each unknown call by when it had counted if it ever did: what a server has not done a second after its
// caller gave it up, while it answers others, it will never do.
func (r *stressRun) bound() {
	for i := range r.Ops {
		op := &r.Ops[i]
		if op.Outcome != history.Unknown {
			continue
		}
		gone := op.Return
		if gone == 0 {
			gone = r.killedAt()
		}
		later := slices.IndexFunc(r.course.Readings, func(read history.Reading) bool { return read.Before > gone+late.Nanoseconds() })
		if gone > 0 && later >= 0 {
			op.Until = r.course.Readings[later].After
		}
	}
}

const late = time.Second

// killedAt is when a worker was killed, 0 if none was.
func (r *stressRun) killedAt() int64 {
	for _, f := range r.faults {
		if f.Fault == faultWorkerKill {
			return f.to
		}
	}
	return 0
}

func byKey(ops []history.Op) map[string][]history.Op {
	of := map[string][]history.Op{}
	for _, op := range ops {
		of[op.Key] = append(of[op.Key], op)
	}
	return of
}

// atOnce is the most calls that were under way at one time.
func atOnce(ops []history.Op) int64 {
	type edge struct{ at, by int64 }
	var edges []edge
	for _, op := range ops {
		if op.Return > 0 {
			edges = append(edges, edge{op.Call, 1}, edge{op.Return, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return int(a.at - b.at) })
	now, most := int64(0), int64(0)
	for _, e := range edges {
		now += e.by
		most = max(most, now)
	}
	return most
}

// ttl is the time to live of the limiter's key: noTTL, or another negative number if there is no key.
func (s *stressing) ttl(ctx context.Context, e target.Entry, client string) (time.Duration, error) {
	key, err := limiter.Key(s.Prefix, client, e.Name)
	if err != nil {
		return 0, err
	}
	return s.srv.ttlOf(ctx, e, client, key)
}

// writtenAfter tells whether a key was certainly written after the last step of the clock, which changes all TTLs.
func writtenAfter(ops []history.Op, steps []history.Step) bool {
	last := int64(0)
	for _, s := range steps {
		last = max(last, s.After)
	}
	return slices.ContainsFunc(ops, func(op history.Op) bool { return op.Admitted() && op.Request.Cost > 0 && op.Call > last })
}
