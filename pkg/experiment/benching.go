package experiment

import (
	"context"
	"fmt"
	"time"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/load"
	"github.com/rlctl/rlctl/pkg/target"
)

// benching is a Bench under way.
//
// All rows are measured once, in their order, then once more in the opposite order, and so on: what changes slowly on a
// machine (its heat, its neighbours) then falls on all alike and shows as spread, not as a difference.
type benching struct {
	Bench
	env   Env
	srv   *server
	fleet *fleet.Fleet // nil until needed, and when spent
	rows  []*benched
	jobs  int

	asserted   []assertion
	loadBefore *float64
}

// benched is one row under way.
type benched struct {
	target.Entry
	path     fleet.Path
	room     int64 // events that a fresh key allows
	callers  int
	samples  []BenchFigures
	sum      load.Summary
	pings    load.Summary
	scripted bool   // it sends scripts
	refused  string // why the row is not measured
}

func (b *benching) run(ctx context.Context) error {
	for round := range b.Rounds {
		for i := range b.rows {
			row := b.rows[i]
			if round%2 == 1 {
				row = b.rows[len(b.rows)-1-i]
			}
			b.env.Progress(int64(round*len(b.rows)+i), int64(b.Rounds*len(b.rows)), row.Name)
			if row.refused != "" {
				continue
			}
			switch err := b.slice(ctx, row); {
			case forbidden(err): // a floor may want more rights than the limiters do
				row.refuse(err.Error())
			case err != nil:
				return fmt.Errorf("bench %s: %w", row.Name, err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

// lineUp makes the rows: the floors, then each path of each limiter.
func (b *benching) lineUp() (err error) {
	entries, err := b.Bench.rows(b.env.Catalogue)
	if err != nil {
		return err
	}
	for _, e := range target.Floors() {
		b.rows = append(b.rows, &benched{Entry: e, path: fleet.Allowed, room: b.Limit.Capacity(), callers: b.Procs * b.Clients})
	}
	for _, e := range entries {
		for _, path := range b.paths() {
			b.rows = append(b.rows, &benched{
				Entry: e, path: fleet.Path(path), room: e.Rule.Capacity(b.Limit), callers: b.Procs * b.Clients,
				refused: b.unfit(e),
			})
		}
	}
	b.asserted, err = b.assertions(entries)
	return err
}

// unfit says why a limiter cannot be put under the load, if it cannot.
func (b *benching) unfit(e target.Entry) string {
	if b.Pipeline == 1 {
		return ""
	}
	l, err := e.New(nil, b.Limit, limiter.WithPrefix(b.Prefix))
	if _, ok := l.(limiter.Batcher); ok || err != nil {
		return ""
	}
	return "it cannot be pipelined: its decision is not one command"
}

// slice measures one row for one round.
func (b *benching) slice(ctx context.Context, row *benched) error {
	if err := b.assemble(); err != nil {
		return err
	}
	if _, err := b.do(ctx, b.job(row, b.warmup())); err != nil || ctx.Err() != nil {
		return err
	}
	var before reading
	var probe *pinging
	j := b.job(row, b.round())
	j.AtGate = func() (err error) {
		before, err = b.srv.read(ctx)
		probe = startPinging(b.srv)
		return err
	}
	got, err := b.do(ctx, j)
	pings := probe.stop()
	if err != nil {
		return err
	}
	after, err := b.srv.read(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	if ctx.Err() == nil || len(row.samples) == 0 { // of a round that was cut short, better than nothing
		row.take(got, after.since(before, pings), pings)
	}
	return b.clear(ctx)
}

// do runs a job. A worker that dies ends the bench: what the others measured was under another load.
func (b *benching) do(ctx context.Context, j fleet.Job) (fleet.Round, error) {
	got, err := b.fleet.Run(ctx, j)
	if err == nil && len(got.Deaths) > 0 {
		err = fmt.Errorf("worker %d died: %s", got.Deaths[0].Proc, got.Deaths[0].Cause)
	}
	if err != nil {
		b.disband()
	}
	return got, err
}

// clear empties a server that is ours to empty. Elsewhere the workers delete what they wrote.
func (b *benching) clear(ctx context.Context) error {
	if !b.srv.Private || ctx.Err() != nil {
		return nil
	}
	return uncounted(b.srv.rdb.FlushAll(ctx).Err())
}

func (b *benching) assemble() (err error) {
	if b.fleet == nil {
		b.fleet, err = fleet.Start(b.env.Self, b.Procs)
	}
	return err
}

func (b *benching) disband() {
	if b.fleet != nil {
		b.fleet.Close()
		b.fleet = nil
	}
}

func (b *benching) job(row *benched, lasts time.Duration) fleet.Job {
	b.jobs++
	return fleet.Job{
		Target: row.Name, Terms: row.Terms(), Unit: row.Unit, Conn: b.srv.conn, Prefix: b.Prefix, Limit: b.Limit, Cost: b.Cost, Clients: b.Clients,
		Key: fmt.Sprintf("rlctl-%x-%d", b.Seed, b.jobs),
		Measured: &fleet.Measured{
			Path: row.path, For: lasts, Every: b.every(), Keys: b.Keys, Zipf: b.Zipf, Room: row.room, Batch: b.Pipeline,
			AutoPipeline: b.AutoPipeline, Procs: b.Procs, Tidy: !b.srv.Private,
		},
	}
}

// pinging is an unrelated client that sends a PING each millisecond and waits for its answer.
type pinging struct {
	cancel context.CancelFunc
	done   chan load.Summary
}

const pingEvery = time.Millisecond

func startPinging(s *server) *pinging {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pinging{cancel, make(chan load.Summary, 1)}
	ping := limiter.Func(func(ctx context.Context, _ string, _ int64) (limiter.Decision, error) {
		return limiter.Decision{Allowed: true}, s.rdb.Ping(ctx).Err()
	})
	go func() { p.done <- load.Run(ctx, ping, load.Plan{Key: func() string { return "" }, Every: pingEvery}) }()
	return p
}

// stop ends it and returns what it saw. A nil one saw nothing.
func (p *pinging) stop() load.Summary {
	if p == nil {
		return load.Summary{}
	}
	p.cancel()
	saw := <-p.done
	if saw.Allowed == 0 { // its user may not
		return load.Summary{}
	}
	return saw
}

// take adds a round to the row, or says why the row is not measured.
func (row *benched) take(got fleet.Round, used *use, pings load.Summary) {
	if why := row.off(got.Summary); why != "" {
		row.refuse(why)
		return
	}
	if used != nil {
		_, row.scripted = used.scripted()
	}
	row.samples = append(row.samples, measured(got, used, pings))
	row.sum.Merge(got.Summary)
	row.pings.Merge(pings)
}

// refuse gives up on a row and forgets what it measured.
func (row *benched) refuse(why string) {
	row.refused = why
	row.samples, row.sum, row.pings = nil, load.Summary{}, load.Summary{}
}

// onPath is the share of decisions that must be what the path says.
const onPath = 0.99

// off says why a round is not one of the row's path, if it is not.
func (row *benched) off(s load.Summary) string {
	decided := s.Allowed + s.Denied
	if decided == 0 {
		return fmt.Sprintf("none of %d calls was decided", s.Calls())
	}
	allowed := float64(s.Allowed) / float64(decided)
	far := map[fleet.Path]float64{
		fleet.Allowed: 1 - allowed, fleet.Denied: allowed,
		fleet.Mixed: 2*max(allowed-0.5, 0.5-allowed) - float64(row.callers)/float64(decided), // each may end at an odd call
	}[row.path]
	if far <= 1-onPath {
		return ""
	}
	return fmt.Sprintf("%.1f %% were allowed, which is not the %s path", 100*allowed, row.path)
}
