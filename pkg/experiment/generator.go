package experiment

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/perf/benchmath"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// Generator measures what share of redis-benchmark's calls a second the load generator of bench reaches: on the same
// script and the same private server, from one process each, in pairs of rounds that take turns (A B B A).
//
// redis-benchmark is C and one thread around epoll, and does little for a call. What bench reaches of it says how much of
// a bench's calls a second are the server's.
type Generator struct {
	Pairs int           // of rounds, for each size of pipeline; fewer than 6 have no interval
	Round time.Duration // how long each lasts
}

// GeneratorSchema names the form of a GeneratorResult.
const GeneratorSchema = "rlctl.generator/v1"

// GeneratorResult is what the load generator reached.
type GeneratorResult struct {
	Schema    string         `json:"schema"` // rlctl.generator/v1
	Env       Provenance     `json:"env"`
	Clients   int            `json:"clients"` // connections
	RoundUS   int64          `json:"round_us"`
	Results   []GeneratorRow `json:"results"`
	Verdict   replay.Verdict `json:"verdict"`
	Partial   bool           `json:"partial"`
	ElapsedUS int64          `json:"elapsed_us"`
}

// GeneratorRow is one size of pipeline.
type GeneratorRow struct {
	Pipeline int            `json:"pipeline"` // requests a round trip
	Ratio    *float64       `json:"ratio"`    // bench's calls a second by redis-benchmark's: the median of the pairs
	Spread   *[2]float64    `json:"spread"`   // its 95 % interval, null of fewer than 6 pairs
	Wanted   float64        `json:"wanted"`   // the least
	Verdict  replay.Verdict `json:"verdict"`  // held or broken only if the whole interval is on one side
	Ours     []float64      `json:"rlctl_ops_per_sec"`
	Theirs   []float64      `json:"redis_benchmark_ops_per_sec"`
}

const (
	generatorClients = 64
	generatorWarmup  = 100 * time.Millisecond
)

// Run measures both sizes of pipeline. What an error or an interrupt ends is marked partial, beside the error.
func (p Generator) Run(ctx context.Context, env Env) (*GeneratorResult, error) {
	srv, err := openServer(ctx, env, target.Conn{Timeout: 10 * time.Second}, true)
	if err != nil {
		return nil, err
	}
	ctx, stop := srv.whileItLives(ctx)
	defer stop()
	start := time.Now()
	r := &GeneratorResult{
		Schema: GeneratorSchema, Env: env.Provenance.madeOn(srv.Server), Clients: generatorClients, RoundUS: p.Round.Microseconds(),
		Results: []GeneratorRow{}, Verdict: replay.Inconclusive,
	}
	f, err := fleet.Start(env.Self, 1)
	if err == nil {
		err = p.rows(ctx, r, srv, f)
		f.Close()
	}
	r.Partial, r.ElapsedUS = err != nil, time.Since(start).Microseconds()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return r, errors.Join(err, srv.close())
}

func (p Generator) rows(ctx context.Context, r *GeneratorResult, srv *server, f *fleet.Fleet) error {
	for _, row := range []GeneratorRow{{Pipeline: 1, Wanted: 0.95}, {Pipeline: 64, Wanted: 0.75}} {
		if err := p.pairs(ctx, &row, srv, f); err != nil {
			return err
		}
		row.conclude()
		r.Results = append(r.Results, row)
	}
	r.Verdict = worst(r.Results)
	return nil
}

// worst is broken if any row is, and held if all are.
func worst(rows []GeneratorRow) replay.Verdict {
	for _, v := range []replay.Verdict{replay.Broken, replay.Inconclusive} {
		if slices.ContainsFunc(rows, func(row GeneratorRow) bool { return row.Verdict == v }) {
			return v
		}
	}
	return replay.Held
}

// pairs measures both in turns.
func (p Generator) pairs(ctx context.Context, row *GeneratorRow, srv *server, f *fleet.Fleet) error {
	rate, err := theirs(ctx, srv, row.Pipeline, 20_000) // it tells how many calls fill a round
	if err != nil {
		return err
	}
	measure := []func() error{
		func() error { return row.ours(ctx, srv, f, p.Round) },
		func() error {
			rate, err := theirs(ctx, srv, row.Pipeline, int(rate*p.Round.Seconds()))
			row.Theirs = append(row.Theirs, rate)
			return err
		},
	}
	for range p.Pairs {
		for _, do := range measure {
			if err := do(); err != nil {
				return err
			}
		}
		slices.Reverse(measure)
	}
	return nil
}

// conclude makes the ratio of what the pairs measured.
func (row *GeneratorRow) conclude() {
	ratios := make([]float64, len(row.Ours))
	for i := range ratios {
		ratios[i] = row.Ours[i] / row.Theirs[i]
	}
	s := benchmath.AssumeNothing.Summary(sample(ratios), confidence)
	row.Ratio, row.Verdict = known(s.Center), replay.Inconclusive
	if unbounded(s) {
		return
	}
	row.Spread = &[2]float64{s.Lo, s.Hi}
	switch {
	case s.Lo >= row.Wanted:
		row.Verdict = replay.Held
	case s.Hi < row.Wanted:
		row.Verdict = replay.Broken
	}
}

// ours measures the load generator for one round.
func (row *GeneratorRow) ours(ctx context.Context, srv *server, f *fleet.Fleet, lasts time.Duration) error {
	j := fleet.Job{
		Target: target.FloorEmpty, Conn: srv.conn, Prefix: "generator", Limit: limiter.Limit{Events: 100, Window: 24 * time.Hour},
		Key: "client", Cost: 1, Clients: generatorClients,
		Measured: &fleet.Measured{Path: fleet.Allowed, For: generatorWarmup, Keys: 100, Room: 100, Batch: row.Pipeline, Procs: 1},
	}
	if _, err := f.Run(ctx, j); err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	j.Measured.For = lasts
	got, err := f.Run(ctx, j)
	switch {
	case err != nil:
		return err
	case got.Summary.Calls() == 0 || got.Summary.Allowed != got.Summary.Calls():
		return fmt.Errorf("of %d calls %d were answered", got.Summary.Calls(), got.Summary.Allowed)
	}
	row.Ours = append(row.Ours, float64(got.Summary.Calls())/got.Usage.Elapsed.Seconds())
	return ctx.Err()
}

// theirs is how many calls a second redis-benchmark makes. It sends the words that ours are.
func theirs(ctx context.Context, srv *server, pipeline, calls int) (float64, error) {
	sha, err := srv.rdb.ScriptLoad(ctx, "return 1").Result()
	if err != nil {
		return 0, uncounted(err)
	}
	words := []string{"-s", srv.conn.Socket, "-c", strconv.Itoa(generatorClients), "-n", strconv.Itoa(calls),
		"-P", strconv.Itoa(pipeline), "--csv"}
	words = append(words, strings.Fields("evalsha "+sha+" 1 generator:{client-42-17}:floor 100 86400000000 0 1 id 0")...)
	out, err := exec.CommandContext(ctx, "redis-benchmark", words...).Output()
	if err != nil {
		return 0, fmt.Errorf("run redis-benchmark: %w", err)
	}
	return perSecond(string(out))
}

// perSecond reads what redis-benchmark --csv says.
func perSecond(text string) (float64, error) {
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(records) != 2 {
		return 0, fmt.Errorf("redis-benchmark said %q", text)
	}
	column := slices.Index(records[0], "rps")
	if column < 0 {
		return 0, fmt.Errorf("redis-benchmark tells no rps: %q", text)
	}
	return strconv.ParseFloat(records[1][column], 64)
}

// Document shows the ratios.
func (r *GeneratorResult) Document() report.Document {
	d := report.Document{Data: r, Made: r.Env.line()}
	d.Head = []report.Line{report.Text("redis %s (%s)   %d connections, one process each   rounds of %s in turns", r.Env.Redis.Version,
		r.Env.Redis.where(), r.Clients, time.Duration(r.RoundUS)*time.Microsecond)}
	d.Table = report.Table{Columns: []report.Column{
		{Title: "A ROUND TRIP", Right: true}, {Title: "RLCTL CALLS/S", Right: true}, {Title: "REDIS-BENCHMARK", Right: true},
		{Title: "RATIO", Right: true}, {Title: "95 %"}, {Title: "WANTED", Right: true}, {Title: "VERDICT"},
	}}
	for _, row := range r.Results {
		between := ""
		if row.Spread != nil {
			between = fmt.Sprintf("%.2f to %.2f", row.Spread[0], row.Spread[1])
		}
		ratio := ""
		if row.Ratio != nil {
			ratio = fmt.Sprintf("%.2f", *row.Ratio)
		}
		d.Table.Add(number(int64(row.Pipeline)), middle(row.Ours), middle(row.Theirs), report.Plain(ratio), report.Plain(between),
			report.Plain(fmt.Sprintf("%.2f", row.Wanted)), report.Plain(string(row.Verdict)))
		d.Records = append(d.Records, generatorRecord{row.Pipeline, row.Ratio, row.Wanted, row.Verdict})
	}
	return d
}

// generatorRecord is a GeneratorRow without what does not fit on a line.
type generatorRecord struct {
	Pipeline int            `json:"pipeline"`
	Ratio    *float64       `json:"ratio"`
	Wanted   float64        `json:"wanted"`
	Verdict  replay.Verdict `json:"verdict"`
}

// middle is a median for the reader.
func middle(values []float64) report.Cell {
	if len(values) == 0 {
		return report.Plain("")
	}
	return report.Plain(whole(known(benchmath.AssumeNothing.Summary(sample(values), confidence).Center)))
}
