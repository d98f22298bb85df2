package experiment

import (
	"context"
	"fmt"
	"time"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// A race across a failover must not be over before it. So its callers ask in step, the limit once a second all together:
// when the master dies, half of the limit is taken; when its replica has taken its place, they find out in a second what it
// knows of that.
const (
	beforeDeath = 500 * time.Millisecond
	afterDeath  = 1500 * time.Millisecond
	// raceAtMost bounds a round whose failover does not end.
	raceAtMost = 30 * time.Second
)

// RaceFailover is what became of a key whose master died.
type RaceFailover struct {
	AtUS   int64  `json:"at_us"`  // when it died, since the callers began
	GapUS  int64  `json:"gap_us"` // from then until its replica decided for the first time; 0 if it never did
	Missed int64  `json:"missed"` // calls that were not decided
	Lost   int64  `json:"lost"`   // events that the old master had admitted and the new one admitted again or had not counted
	Over   int64  `json:"over"`   // events that this let over the limit
	Told   bool   `json:"told"`   // its decisions bear the server's time, without which what was lost is not told
	Took   string `json:"took"`   // address of the new master
}

// every is the time between two requests of one caller.
func (p Race) every() time.Duration {
	every := time.Duration(float64(time.Second) * float64(p.callers()) * float64(p.Cost) / float64(p.Limit.Events))
	return min(max(every, time.Millisecond), beforeDeath)
}

// acrossFailover runs a round in which the master of the key dies.
func (r *race) acrossFailover(ctx context.Context, e target.Entry, job fleet.Job, key string, first history.Reading) (RaceRound, error) {
	job.Every = r.every()
	job.Attempts = int64(raceAtMost / job.Every)
	asking, enough := context.WithCancel(ctx)
	defer enough()
	type outcome struct {
		takeover
		err error
	}
	over := make(chan outcome, 1)
	began := int64(0)
	job.AtGate = func() error {
		began = history.Now()
		go func() {
			defer enough()
			wait(ctx, beforeDeath)
			t, err := r.srv.failOver(ctx, key, r.Lag)
			if err == nil {
				wait(ctx, afterDeath)
			}
			over <- outcome{t, err}
		}()
		return nil
	}
	start := time.Now()
	got, err := r.fleet.Run(asking, job)
	elapsed := time.Since(start)
	r.disband() // whoever stops asking before the last request is spent
	if err != nil && began == 0 {
		return RaceRound{}, err
	}
	o := <-over
	if o.err != nil {
		return RaceRound{}, o.err
	}
	round, err := r.judge(context.WithoutCancel(ctx), e, job.Key, key, first, got, elapsed, &o.takeover)
	if err != nil {
		return round, err
	}
	round.Failover.AtUS = (o.dead - began) / 1000
	return round, r.srv.group.Revive(ctx, o.Failover)
}

// judgeFailover judges the calls on a key whose master died, and tells what that lost.
func judgeFailover(ops []history.Op, rule model.Rule, course replay.Course, t takeover) (replay.Judgement, *RaceFailover) {
	j, loss := replay.JudgeFailover(ops, rule, course, t.dead)
	f := &RaceFailover{Lost: loss.Events, Over: loss.Over, Took: t.Took.Addr}
	back := int64(0)
	for i := range ops {
		op := &ops[i]
		switch {
		case op.Outcome != history.Decided:
			f.Missed++
		case op.Call > t.dead && (back == 0 || op.Return < back):
			back = op.Return
		}
		f.Told = f.Told || !op.Decision.At.IsZero()
	}
	if back > 0 {
		f.GapUS = (back - t.dead) / 1000
	} else if j.Verdict != replay.Broken {
		j.Verdict, j.Reason = replay.Inconclusive, "the new master was never asked, or never answered"
	}
	if !f.Told && j.Verdict == replay.Broken {
		j.Reason += "; a master died meanwhile, and what that lost is not told apart"
	}
	return j, f
}

// failoverNote says what a failover did to one limiter.
func (row RaceRow) failoverNote() []report.Line {
	var lines []report.Line
	for _, round := range row.Rounds {
		f := round.Failover
		if f == nil {
			continue
		}
		lost := fmt.Sprintf("lost %s, %s over the limit", report.Count(f.Lost, "event", "events"), report.Int(f.Over))
		if !f.Told {
			lost = "what was lost is not told: its decisions bear no server time"
		}
		lines = append(lines, report.Text("%s: its master died at %.2f s, the replica decided %.2f s later; %s", row.Limiter,
			float64(f.AtUS)/1e6, float64(f.GapUS)/1e6, lost))
	}
	return lines
}
