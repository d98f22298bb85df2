package experiment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/target"
)

// stressFault is one row of the table of faults: what goes wrong, and how it is brought about.
//
// A fault is over when apply returns. It was applied under traffic if a call was under way in that time, and if it met
// what it was meant for: hits tells how much of that.
type stressFault struct {
	name string
	what string                                    // it does, for a reader
	most int                                       // times in a run; 0: any number
	not  func(s *stressing, e target.Entry) string // why it cannot be had; empty if it can; nil: always
	do   func(ctx context.Context, s *stressing) (hits int64, err error)
}

const faultWorkerKill = "worker-kill"

// Times of faults. What stops lasts longer than a call waits, so that some are given up and run all the same. A reply to
// be lost may have to be waited for: go-redis dials no more for a second when as many dials failed as its pool is large.
const (
	pauseFor      = 100 * time.Millisecond
	workerStopFor = 300 * time.Millisecond
	cutWithin     = 2 * time.Second
)

// stressFaults is the table.
func stressFaults() []stressFault {
	return []stressFault{
		{name: "script-flush", what: "the server forgets all scripts", do: flushScripts, not: elsewhere},
		{name: "client-kill", what: "the server closes all connections", do: killClients, not: speechless},
		{name: "client-pause", what: "the server answers nobody for a while", do: pauseClients, not: elsewhere},
		{name: "reply-cut", what: "a reply is lost after the command ran", do: cutReply, not: speechless},
		{name: faultWorkerKill, what: "a process of callers dies in mid-call", most: 1, do: killWorker, not: lastWorker},
		{name: "worker-stop", what: "a process of callers stops and goes on", do: stopWorker},
		{name: "server-stop", what: "the server stops for longer than calls wait, and goes on", do: stopServer, not: elsewhere},
		{name: "server-restart", what: "the server is killed and comes back with what it had written", do: restartServer, not: elsewhere},
		{name: "clock-step", what: "the server's clock steps forth and back, by seconds and an hour", do: stepClock, not: unsteppable},
	}
}

func flushScripts(ctx context.Context, s *stressing) (int64, error) {
	return 1, s.ask(ctx, func() error { return s.srv.rdb.ScriptFlush(ctx).Err() })
}

func killClients(ctx context.Context, s *stressing) (n int64, err error) {
	err = s.ask(ctx, func() (err error) {
		n, err = s.srv.rdb.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Result()
		return err
	})
	return n, err
}

// ask repeats a command until the server, which may just have come back, has taken it.
func (s *stressing) ask(ctx context.Context, command func() error) error {
	ctx, cancel := context.WithTimeout(ctx, comesBack)
	defer cancel()
	for {
		err := command()
		if err == nil || ctx.Err() != nil {
			return err
		}
		wait(ctx, 10*time.Millisecond)
	}
}

// comesBack is how long a server that was restarted may be away.
const comesBack = 20 * time.Second

func pauseClients(ctx context.Context, s *stressing) (int64, error) {
	if err := s.ask(ctx, func() error { return s.srv.rdb.ClientPause(ctx, pauseFor).Err() }); err != nil {
		return 0, err
	}
	wait(ctx, pauseFor)
	return 1, nil
}

func cutReply(ctx context.Context, s *stressing) (int64, error) {
	before := s.cutter.Lost()
	s.cutter.Cut(1)
	defer s.cutter.Cut(0) // or it may lose the next limiter's first reply
	for end := time.Now().Add(cutWithin); s.cutter.Lost() == before && time.Now().Before(end) && ctx.Err() == nil; {
		wait(ctx, time.Millisecond)
	}
	return s.cutter.Lost() - before, nil
}

// killWorker kills the last process, so that the others keep their numbers.
func killWorker(_ context.Context, s *stressing) (int64, error) {
	s.killed++
	return 1, s.fleet.Signal(s.Procs-s.killed, os.Kill)
}

func speechless(_ *stressing, e target.Entry) string {
	if e.State == target.NoState {
		return "it asks Redis nothing"
	}
	return ""
}

// elsewhere is of faults that happen to a server which a service does not ask: there they would be as good as no fault.
func elsewhere(s *stressing, e target.Entry) string {
	if e.Service {
		return speechless(s, e)
	}
	return ""
}

func lastWorker(s *stressing, _ target.Entry) string {
	if s.Procs < 2 {
		return "it takes 2 processes"
	}
	return ""
}

func stopWorker(ctx context.Context, s *stressing) (int64, error) {
	i := s.random.IntN(s.Procs - s.killed)
	if err := s.fleet.Signal(i, syscall.SIGSTOP); err != nil {
		return 0, err
	}
	wait(ctx, workerStopFor)
	return 1, s.fleet.Signal(i, syscall.SIGCONT)
}

func stopServer(ctx context.Context, s *stressing) (int64, error) {
	if err := s.srv.kept.Stop(); err != nil {
		return 0, err
	}
	wait(ctx, s.Timeout+s.Timeout/2)
	return 1, s.srv.kept.Continue()
}

func restartServer(ctx context.Context, s *stressing) (int64, error) {
	return 1, s.srv.kept.Restart(ctx)
}

// clockOffsets are by how much the server's clock is off, one after another: 10 s back, an hour ahead, and an hour back.
// Each limiter begins at 0, and so with a step back, which is the harder one: a step forth is time passing.
var clockOffsets = [...]time.Duration{-10 * time.Second, time.Hour, 0}

func stepClock(_ context.Context, s *stressing) (int64, error) {
	offset := clockOffsets[len(s.steps)%len(clockOffsets)]
	step := history.Step{Before: history.Now()}
	s.srv.kept.Clock().Offset(offset)
	step.After = history.Now()
	s.steps = append(s.steps, step)
	return 1, nil
}

func unsteppable(s *stressing, e target.Entry) string {
	switch {
	case s.srv.kept.Clock() == nil:
		return "a clock that can be set wants Linux and a C compiler"
	case e.Service:
		return speechless(s, e)
	case !e.Own():
		return "it decides without the server's clock, or does not tell it"
	}
	return ""
}

// wait waits for a time, or for the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// StressFault is one fault of a run.
type StressFault struct {
	Fault    string `json:"fault"`
	AtUS     int64  `json:"at_us"` // since the callers began
	LastedUS int64  `json:"lasted_us"`
	Ops      int64  `json:"ops"`  // calls that were under way in that time
	Hits     int64  `json:"hits"` // connections, replies, processes or servers that it met
	Applied  bool   `json:"applied"`
	Problem  string `json:"problem,omitempty"` // why it could not be brought about

	from, to int64    // ns of CLOCK_MONOTONIC
	keys     []string // whose master died
}

// LeftOut is a fault that was wanted and that the limiter cannot meet.
type LeftOut struct {
	Fault string `json:"fault"`
	Why   string `json:"why"`
}

// leftOut are those of a limiter.
func (s *stressing) leftOut(e target.Entry) (out []LeftOut) {
	for _, f := range s.table() {
		if f.not == nil || !s.wants(f.name) {
			continue
		}
		if why := f.not(s, e); why != "" {
			out = append(out, LeftOut{f.name, why})
		}
	}
	return out
}

// plannedFault is a fault of a run to come.
type plannedFault struct {
	stressFault
	at time.Duration // since the callers begin
}

// planFaults spreads the faults that the limiter can meet over the run: the whole table in a random order, again and
// again, one in at least faultEvery.
func (s *stressing) planFaults(e target.Entry) (plan []plannedFault) {
	var table []stressFault
	for _, f := range s.table() {
		if s.wants(f.name) && (f.not == nil || f.not(s, e) == "") {
			table = append(table, f)
		}
	}
	if len(table) == 0 {
		return nil
	}
	calm := max(s.Duration/8, late+3*s.Limit.Window) // in which replies can tell what became of the last lost calls
	from, to := s.Duration/20, max(s.Duration/2, s.Duration-calm)
	turns := max(1, int((to-from)/faultEvery)/len(table))
	for turn := range turns {
		s.random.Shuffle(len(table), func(i, j int) { table[i], table[j] = table[j], table[i] })
		for _, f := range table {
			if f.most == 0 || turn < f.most {
				plan = append(plan, plannedFault{stressFault: f})
			}
		}
	}
	// A failover takes longer than its turn: it comes first, so that the others catch up.
	slices.SortStableFunc(plan, func(a, b plannedFault) int { return rankOf(a) - rankOf(b) })
	slot := (to - from) / time.Duration(len(plan))
	for i := range plan {
		plan[i].at = from + time.Duration(i)*slot + rand.N(slot/4+1)
	}
	return plan
}

func rankOf(f plannedFault) int {
	if f.name == faultFailover {
		return 0
	}
	return 1
}

// faultEvery leaves a fault time to show in what follows.
const faultEvery = 500 * time.Millisecond

// aftermath is how long a fault that takes no time counts as going on.
const aftermath = 10 * time.Millisecond

// bring brings about one fault after the other, each at its time or as soon as the one before is over.
func (s *stressing) bring(ctx context.Context, plan []plannedFault, start time.Time) (faults []StressFault) {
	origin := history.Now() - time.Since(start).Nanoseconds()
	for _, f := range plan {
		wait(ctx, time.Until(start.Add(f.at)))
		got := StressFault{Fault: f.name, from: history.Now()}
		if ctx.Err() != nil || time.Since(start) > s.Duration {
			got.to, got.Problem = got.from, "the run was over before"
		} else {
			var err error
			if got.Hits, err = f.do(ctx, s); err != nil {
				got.Problem = fmt.Sprint(err)
			}
			wait(ctx, aftermath)
			got.to = history.Now()
			if f.name == faultFailover && err == nil {
				got.from, got.to, got.keys = s.taken.dead, s.taken.ready, s.orphans
			}
		}
		got.AtUS, got.LastedUS = (got.from-origin)/1000, (got.to-got.from)/1000
		faults = append(faults, got)
	}
	return faults
}

// meet counts for each fault the calls that were under way, and tells whether it counts as applied.
func meet(faults []StressFault, ops []history.Op) {
	for i := range faults {
		f := &faults[i]
		for j := range ops {
			if op := &ops[j]; op.Call <= f.to && (op.Return == 0 || op.Return >= f.from) {
				f.Ops++
			}
		}
		f.Applied = f.Ops > 0 && f.Hits > 0 && f.Problem == ""
	}
}
