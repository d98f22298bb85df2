package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/outside"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/pkg/wire"
)

// Stress is the plan of a stress run: of each limiter in its turn, processes of callers with random costs, keys and
// pauses on a private server, to which one fault after another happens. All calls are recorded and judged.
type Stress struct {
	Limiters []string // names in the catalogue; none means all of it
	Limit    limiter.Limit
	Procs    int           // processes, 1 to 100
	Clients  int           // concurrent callers in each, 1 to 100
	Keys     int           // that they ask, 1 to 1,000
	Duration time.Duration // of each limiter, at least a second
	Timeout  time.Duration // of each call
	Faults   []string      // names in the table of faults; none means all of it
	Cluster  bool          // on a private cluster, whose table is another
	Lag      time.Duration // of a cluster: for so long the replica of a master that is to die hears nothing; 0 to half a second
	ID       string        // what the names of the keys begin with
	Seed     uint64
	Prefix   string
	History  io.Writer // where the histories go, nil for nowhere
}

// Validate returns an error that begins with the flag at fault, if one is.
func (p Stress) Validate(catalogue []target.Entry) error {
	rows, err := named(catalogue, p.Limiters)
	if err != nil {
		return err
	}
	switch {
	case p.Procs < 1 || p.Procs > 100:
		return fmt.Errorf("--procs: want 1 to 100, got %d", p.Procs)
	case p.Clients < 1 || p.Clients > 100:
		return fmt.Errorf("--clients: want 1 to 100, got %d", p.Clients)
	case p.Keys < 1 || p.Keys > 1000:
		return fmt.Errorf("--keys: want 1 to 1000, got %d", p.Keys)
	case p.Duration < time.Second || p.Duration > 24*time.Hour:
		return fmt.Errorf("--duration: want 1s to 24h, got %s", p.Duration)
	case p.Timeout < 10*time.Millisecond || p.Timeout > p.Duration:
		return fmt.Errorf("--timeout: want 10ms to the duration of the run, got %s", p.Timeout)
	case p.Limit.Events < 1:
		return errors.New("--limit: want 1 or more: a limit of 0 denies everything, whatever happens")
	}
	for _, name := range p.Faults {
		if !slices.Contains(FaultNames(p.Cluster), name) {
			return fmt.Errorf("--fault: there is no %q, only %s", name, strings.Join(FaultNames(p.Cluster), ", "))
		}
	}
	switch {
	case p.Cluster && p.wants(faultFailover) && p.Duration < leastFailover:
		return fmt.Errorf("--duration: a failover takes seconds: want %s or more, or no %s among the --fault", leastFailover, faultFailover)
	case p.Lag < 0 || p.Lag > longestLag:
		return fmt.Errorf("--lag: want 0 to %s, got %s: who is silent for longer is taken for gone", longestLag, p.Lag)
	case p.Lag > 0 && !p.Cluster:
		return errors.New("--lag: needs --cluster, where there are replicas")
	case len(p.ID) > maxID:
		return fmt.Errorf("--id: want at most %d bytes", maxID)
	}
	for _, e := range rows {
		if _, err := e.New(nil, p.Limit, limiter.WithPrefix(p.Prefix)); err != nil {
			return refused(e.Name, err)
		}
	}
	return nil
}

// leastFailover leaves a failover time to come and to show.
const leastFailover = 8 * time.Second

// FaultNames are the names in the table of faults, of a single server or of a cluster.
func FaultNames(cluster bool) (names []string) {
	for _, f := range (Stress{Cluster: cluster}).table() {
		names = append(names, f.name)
	}
	return names
}

func (p Stress) wants(fault string) bool {
	return len(p.Faults) == 0 || slices.Contains(p.Faults, fault)
}

// costs are what requests take: mostly one event, sometimes several or none, and seldom more than can ever be had.
func (p Stress) costs() []int64 {
	costs := slices.Repeat([]int64{1}, 24)
	return append(costs, 0, 2, 2, 2, 3, 3, 5, max(p.Limit.Events, p.Limit.Capacity())+1)
}

// stressing is a Stress under way.
type stressing struct {
	Stress
	env     Env
	srv     *server
	cutter  *wire.Cutter // nil of a cluster
	random  *rand.Rand
	outside int // limiters so far whose names are from outside

	// Of the limiter under way.
	fleet  *fleet.Fleet
	killed int            // workers
	steps  []history.Step // of the clock

	// Of a limiter on a cluster.
	base    string
	names   []string       // of its keys in Redis
	masters []*redisd.Node // at the begin
	taken   *takeover      // nil until a master died
	orphans []string       // keys whose master died
}

// Run stresses each limiter. One that an interrupt or an error ends returns what there is, marked partial, beside the
// error.
func (p Stress) Run(ctx context.Context, env Env) (*ProveResult, error) {
	if err := p.Validate(env.Catalogue); err != nil {
		return nil, err
	}
	rows, err := named(env.Catalogue, p.Limiters)
	if err != nil {
		return nil, err
	}
	if p.Seed == 0 {
		p.Seed = rand.Uint64()
	}
	s := &stressing{Stress: p, env: env, random: rand.New(rand.NewPCG(p.Seed, 0))}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	ctx, stop := s.srv.whileItLives(ctx)
	defer stop()
	start := time.Now()
	result := p.result(env, s.srv)
	for i, e := range rows {
		env.Progress(int64(i), int64(len(rows)), e.Name)
		var row ProveRow
		row, err = s.row(ctx, e)
		if err != nil {
			err = fmt.Errorf("stress %s: %w", e.Name, err)
			break
		}
		result.Results = append(result.Results, row)
		if ctx.Err() != nil {
			break
		}
	}
	result.ElapsedUS = time.Since(start).Microseconds()
	result.Partial = err != nil || ctx.Err() != nil
	result.Verdict = result.overall()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, errors.Join(err, s.close())
}

// open starts the server, which writes all it does to its folder, and puts the cutter before it. Where there is no
// clock that can be set, there will be no steps.
func (s *stressing) open(ctx context.Context) (err error) {
	if s.Cluster {
		s.srv, err = openGroup(ctx, s.env, target.Conn{Cluster: true, Timeout: comesBack}, true)
		return err
	}
	opts := redisd.Options{Clock: true, Args: []string{"--appendonly", "yes", "--appendfsync", "always"}}
	s.srv, err = openPrivate(ctx, s.env, comesBack, opts)
	if errors.Is(err, redisd.ErrNoClock) {
		opts.Clock = false
		s.srv, err = openPrivate(ctx, s.env, comesBack, opts)
	}
	if err != nil {
		return err
	}
	socket := s.srv.kept.Socket()
	s.cutter, err = wire.NewCutter(filepath.Join(s.srv.kept.Dir(), "cutter"), func() (net.Conn, error) { return net.Dial("unix", socket) })
	if err != nil {
		return errors.Join(err, s.srv.close())
	}
	return nil
}

func (s *stressing) close() error {
	if s.cutter == nil {
		return s.srv.close()
	}
	return errors.Join(s.cutter.Close(), s.srv.close())
}

// row stresses one limiter and judges what came of it.
func (s *stressing) row(ctx context.Context, e target.Entry) (ProveRow, error) {
	start := time.Now()
	s.killed, s.steps = 0, nil
	if s.srv.kept != nil && s.srv.kept.Clock() != nil {
		s.srv.kept.Clock().Real()
	}
	base := fmt.Sprintf("%srlctl-%x-%s", s.ID, s.Seed, e.Name)
	if e.Outside != nil { // whose name may be anything
		s.outside++
		base = fmt.Sprintf("%srlctl-%x-outside-%d", s.ID, s.Seed, s.outside)
	}
	if s.Cluster {
		names, err := s.redisKeys(e, base)
		if err != nil {
			return ProveRow{}, err
		}
		s.base, s.names, s.masters, s.taken, s.orphans = base, names, s.srv.group.Masters(ctx), nil, nil
	}
	run, err := s.run(ctx, e, base)
	if err != nil {
		return ProveRow{}, err
	}
	run.bound()
	if s.History != nil {
		if err := history.Write(s.History, s.history(e, run)); err != nil {
			return ProveRow{}, err
		}
	}
	row, err := s.judge(context.WithoutCancel(ctx), e, base, run)
	row.ElapsedUS = time.Since(start).Microseconds()
	return row, err
}

// stressRun is what happened to one limiter.
type stressRun struct {
	fleet.Round
	course replay.Course
	faults []StressFault
}

// run lets the callers go and brings the faults about. They all begin when the gate opens.
func (s *stressing) run(ctx context.Context, e target.Entry, base string) (run stressRun, err error) {
	if s.fleet, err = fleet.Start(s.env.Self, s.Procs); err != nil {
		return run, err
	}
	defer s.fleet.Close()
	first, err := s.certainReading(ctx, base)
	if err != nil {
		return run, err
	}
	over := make(chan struct{})
	acting, watching := make(chan []StressFault, 1), make(chan []history.Reading, 1)
	job := s.job(e, base)
	job.AtGate = func() error {
		plan, start := s.planFaults(e), time.Now()
		go func() { acting <- s.bring(ctx, plan, start) }()
		go func() { watching <- s.readClock(ctx, base, over) }()
		return nil
	}
	began := false
	atGate := job.AtGate
	job.AtGate = func() error { began = true; return atGate() }
	run.Round, err = s.fleet.Run(ctx, job)
	close(over)
	if began {
		run.faults = <-acting
		run.course.Readings = <-watching
	}
	if err != nil {
		return run, err
	}
	last, err := s.certainReading(ctx, base)
	run.course.Readings = slices.Concat([]history.Reading{first}, run.course.Readings, []history.Reading{last})
	run.course.Steps = s.steps
	meet(run.faults, run.Ops)
	return run, err
}

func (s *stressing) job(e target.Entry, base string) fleet.Job {
	conn := s.srv.conn // of a cluster
	if s.cutter != nil {
		conn = target.Conn{Socket: filepath.Join(s.srv.kept.Dir(), "cutter")}
	}
	conn.Timeout = s.Timeout
	w := &fleet.Wild{For: s.Duration, Keys: s.Keys, Costs: s.costs(), Pause: longestPause, Seed: s.Seed}
	if e.Unit {
		w.Costs = []int64{1}
	}
	if e.BrokenBy == target.Skew {
		w.Skew = skews(s.Procs)
	}
	return fleet.Job{
		Target: e.Name, Terms: e.Terms(), Conn: conn, Prefix: s.Prefix, Limit: s.Limit, Key: base, Clients: s.Clients, IDs: base, Wild: w,
	}
}

// longestPause lets callers meet in ever new ways.
const longestPause = 2 * time.Millisecond

// skews are by how much the clocks of processes differ from the server's.
func skews(procs int) []time.Duration {
	out := make([]time.Duration, procs)
	for i := range out {
		out[i] = [...]time.Duration{0, 500 * time.Millisecond, -300 * time.Millisecond}[i%3]
	}
	return out
}

// readClock reads the server's clock over and over, so that its time is known of every instant between two steps.
func (s *stressing) readClock(ctx context.Context, key string, over <-chan struct{}) (readings []history.Reading) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if r, err := s.srv.now(ctx, key); err == nil { // it may be down
				readings = append(readings, r)
			}
		case <-over:
			return readings
		}
	}
}

const readEvery = 20 * time.Millisecond

// certainReading reads the clock of a server that may just have come back.
func (s *stressing) certainReading(ctx context.Context, key string) (r history.Reading, err error) {
	ctx = context.WithoutCancel(ctx)
	err = s.ask(ctx, func() (err error) { r, err = s.srv.now(ctx, key); return err })
	return r, err
}

// history is what is kept of a run.
func (s *stressing) history(e target.Entry, run stressRun) history.History {
	h := history.Head{Limiter: e.Name, Seed: fmt.Sprintf("%x", s.Seed), Command: s.command(e), Readings: run.course.Readings, Steps: run.course.Steps}
	h.Faults = run.told()
	return history.History{Head: h, Ops: run.Ops}
}

// told are the faults as a history tells them.
func (r stressRun) told() (out []history.Fault) {
	for _, f := range r.faults {
		out = append(out, history.Fault{Name: f.Fault, From: f.from, To: f.to, Keys: f.keys})
	}
	return out
}

// command is what makes such a run again.
func (p Stress) command(e target.Entry) string {
	text := fmt.Sprintf("rlctl prove --stress %s --duration %s --limit %d/%s --procs %d --clients %d --keys %d --timeout %s --seed %x",
		typedName(e.Name, e.Atomic(), e.Twin), p.Duration, p.Limit.Events, p.Limit.Window, p.Procs, p.Clients, p.Keys, p.Timeout, p.Seed)
	if p.Cluster {
		text += " --cluster"
	}
	if p.Lag > 0 {
		text += " --lag " + p.Lag.String()
	}
	if p.ID != "" {
		text += " --id " + report.ShellWord(p.ID)
	}
	if p.Limit.Burst > 0 {
		text += fmt.Sprintf(" --burst %d", p.Limit.Burst)
	}
	for _, h := range e.Terms().Headers {
		text += " --header " + report.ShellWord(outside.WithoutValue(h))
	}
	if len(p.Faults) > 0 {
		text += " --fault " + strings.Join(p.Faults, ",")
	}
	return text
}
