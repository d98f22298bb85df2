package experiment

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
)

// race is a Race under way.
type race struct {
	Race
	env      Env
	srv      *server
	fleet    *fleet.Fleet // nil until needed, and after a worker died
	round    int
	answered atomic.Int64           // calls
	total    atomic.Int64           // calls that all rounds known of make
	current  atomic.Pointer[string] // the limiter's name
}

// row races one limiter for the plan's rounds, and for some more if it must break and has not, or if its callers never
// met.
func (r *race) row(ctx context.Context, e target.Entry) (RaceRow, error) {
	row := RaceRow{Limiter: e.Name, Atomic: e.Atomic(), Twin: e.Twin, BrokenBy: e.BrokenBy, Flaw: e.Flaw}
	for n := 0; n < r.Rounds || n < catchRounds && r.unlucky(e, row); n++ {
		if n >= r.Rounds {
			r.total.Add(r.callsPerRound())
		}
		r.current.Store(&e.Name)
		round, err := r.once(ctx, e)
		if err != nil {
			return row, fmt.Errorf("race %s: %w", e.Name, err)
		}
		row.Counts.add(round.Counts)
		row.Headers = together(row.Headers, round.headers)
		row.Rounds = append(row.Rounds, round)
		row.Verdict, row.Reason = combined(row.Rounds)
		row.Expected = row.asExpected()
		if ctx.Err() != nil {
			return row, ctx.Err()
		}
	}
	return row, nil
}

// unlucky tells whether another round may show what the rounds so far did not.
func (r *race) unlucky(e target.Entry, row RaceRow) bool {
	apart := row.Rounds[len(row.Rounds)-1].apart && r.callers() > 1
	return apart || e.BrokenBy == target.Race && row.Verdict != replay.Broken
}

// once runs one round on a fresh key and judges it.
func (r *race) once(ctx context.Context, e target.Entry) (RaceRound, error) {
	if err := r.assemble(); err != nil {
		return RaceRound{}, err
	}
	r.round++
	client := fmt.Sprintf("%srlctl-%x-%d", r.ID, r.Seed, r.round)
	// The same seed may have left the key, in a run that was killed. A user without the right to delete has other seeds.
	if err := r.reset(ctx, e, client); err != nil && !forbidden(err) {
		return RaceRound{}, err
	}
	defer r.forget(e, client)
	key, err := limiter.Key(r.Prefix, client, e.Name)
	if err != nil {
		return RaceRound{}, err
	}
	first, err := r.srv.now(ctx, key)
	if err != nil {
		return RaceRound{}, err
	}
	job := r.job(e, client)
	if r.Mix {
		if job, err = r.share(job); err != nil {
			return RaceRound{}, err
		}
	}
	if r.Failover {
		return r.acrossFailover(ctx, e, job, key, first)
	}
	start := time.Now()
	got, err := r.fleet.Run(ctx, job)
	elapsed := time.Since(start)
	if err != nil || len(got.Deaths) > 0 {
		r.disband()
	}
	if err != nil {
		return RaceRound{}, err
	}
	return r.judge(context.WithoutCancel(ctx), e, client, key, first, got, elapsed, nil)
}

// judge is what a round came to, an interrupted one too.
func (r *race) judge(
	ctx context.Context, e target.Entry, client, key string, first history.Reading, got fleet.Round, elapsed time.Duration, t *takeover,
) (RaceRound, error) {
	last, err := r.srv.now(ctx, key)
	if err != nil {
		return RaceRound{}, err
	}
	ttl, err := r.srv.ttlOf(ctx, e, client, key)
	if err != nil && !forbidden(err) {
		return RaceRound{}, err
	}
	var over *RaceFailover
	j := replay.Judgement{}
	if t == nil {
		j = replay.Judge(got.Ops, e.Judged(), first, last)
	} else {
		j, over = judgeFailover(got.Ops, e.Judged(), replay.Course{Readings: []history.Reading{first, last}}, *t)
	}
	if ttl == noTTL {
		j.Verdict, j.Reason = replay.Broken, "the key was left without a TTL"
	}
	return RaceRound{
		Counts: counts(j, got, elapsed), Verdict: j.Verdict, Reason: j.Reason, Deaths: deaths(got), Classes: classes(got.Ops),
		Failover: over, apart: j.Apart, headers: headersOf(e, got.Ops, replay.Course{Readings: []history.Reading{first, last}}),
	}, nil
}

// forbidden tells whether the server's user lacks a right.
func forbidden(err error) bool {
	var e *limiter.Error
	return errors.As(err, &e) && e.Class == limiter.ClassAuth
}

// assemble starts the workers if there are none. One fleet serves all rows.
func (r *race) assemble() (err error) {
	if r.fleet != nil {
		return nil
	}
	procs := r.Procs
	if r.GoroutinesOnly {
		procs = 1
	}
	if r.fleet, err = fleet.Start(r.env.Self, procs); err == nil {
		r.fleet.Answered = r.progress
	}
	return err
}

// progress counts one more call.
func (r *race) progress() {
	const now = 64 // calls between two looks at the clock
	if n := r.answered.Add(1); n%now == 0 {
		r.env.Progress(n, r.total.Load(), *r.current.Load())
	}
}

func (r *race) disband() {
	if r.fleet != nil {
		r.fleet.Close()
		r.fleet = nil
	}
}

func (r *race) job(e target.Entry, key string) fleet.Job {
	j := fleet.Job{
		Target: e.Name, Terms: e.Terms(), Conn: r.srv.conn, Prefix: r.Prefix, Limit: r.Limit, Key: key, Cost: r.Cost,
		Attempts: r.attempts(), Clients: r.Clients, IDs: key,
	}
	if r.GoroutinesOnly {
		j.Clients, j.Apart = r.Procs*r.Clients, true
	}
	return j
}

// reset deletes a round's keys from a server that is not ours to throw away.
func (r *race) reset(ctx context.Context, e target.Entry, key string) error {
	if r.srv.Private {
		return nil
	}
	l, err := e.New(r.srv.rdb, r.Limit, limiter.WithPrefix(r.Prefix))
	if err != nil {
		return err
	}
	if resetter, ok := l.(limiter.Resetter); ok {
		return uncounted(resetter.Reset(ctx, key))
	}
	return nil
}

// forget deletes a round's keys when it is over, however it ended.
func (r *race) forget(e target.Entry, key string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // also after an interrupt
	defer cancel()
	if err := r.reset(ctx, e, key); err != nil {
		r.env.Note(fmt.Sprintf("the key of %s for client %s is left to its TTL: %v", e.Name, key, err))
	}
}
