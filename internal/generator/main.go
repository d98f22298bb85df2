// Generator measures what share of redis-benchmark's calls a second the load generator of rlctl reaches on the same
// script, on the same private server, one process each, in rounds that take turns (A B B A), and writes that as JSON.
//
// redis-benchmark is C and one thread around epoll; what it does for a call is little. What rlctl reaches of it says how
// much of a bench's calls a second are the server's.
package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/perf/benchmath"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/target"
)

const (
	clients = 64
	rounds  = 12 // of each
	lasts   = 500 * time.Millisecond
	warmup  = 100 * time.Millisecond
)

// result is what was measured.
type result struct {
	Schema  string    `json:"schema"` // rlctl.generator/v1
	Time    string    `json:"time"`   // RFC 3339 in UTC
	Redis   string    `json:"redis"`
	Go      string    `json:"go"`
	Cores   int       `json:"cores"`
	Clients int       `json:"clients"`
	Results []measure `json:"results"`
}

// measure is one size of pipeline.
type measure struct {
	Pipeline int        `json:"pipeline"`
	Ratio    float64    `json:"ratio"`  // rlctl's calls a second by redis-benchmark's: the median of the pairs
	Spread   [2]float64 `json:"spread"` // its 95 % interval
	Wanted   float64    `json:"wanted"` // the least
	Ours     []float64  `json:"rlctl_ops_per_sec"`
	Theirs   []float64  `json:"redis_benchmark_ops_per_sec"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == fleet.WorkerCommand {
		exit(fleet.Work(target.Floors(), os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := run(ctx)
	if err != nil {
		exit(err)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	exit(out.Encode(r))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "generator:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context) (r result, err error) {
	s, err := redisd.Start(ctx, redisd.Options{})
	if err != nil {
		return r, err
	}
	defer s.Close()
	f, err := fleet.Start(self, 1)
	if err != nil {
		return r, err
	}
	defer f.Close()
	r = result{
		Schema: "rlctl.generator/v1", Time: time.Now().UTC().Format(time.RFC3339), Redis: s.Version(), Go: runtime.Version(),
		Cores: runtime.NumCPU(), Clients: clients,
	}
	for _, m := range []measure{{Pipeline: 1, Wanted: 0.95}, {Pipeline: 64, Wanted: 0.75}} {
		if err := m.pairs(ctx, s, f); err != nil {
			return r, err
		}
		fmt.Fprintf(os.Stderr, "%d a round trip: %.2f of redis-benchmark (%.2f to %.2f; wanted %.2f)\n", m.Pipeline, m.Ratio,
			m.Spread[0], m.Spread[1], m.Wanted)
		r.Results = append(r.Results, m)
	}
	return r, nil
}

func self(args ...string) *exec.Cmd { return exec.Command(os.Args[0], args...) }

// pairs measures both in turns.
func (m *measure) pairs(ctx context.Context, s *redisd.Server, f *fleet.Fleet) error {
	sample, err := theirs(ctx, s, m.Pipeline, 20_000) // it also tells how many calls fill a round
	if err != nil {
		return err
	}
	calls := int(sample * lasts.Seconds())
	var ratios []float64
	for i := range rounds {
		a, b, err := pair(i%2 == 0, func() (float64, error) { return ours(ctx, s, f, m.Pipeline) },
			func() (float64, error) { return theirs(ctx, s, m.Pipeline, calls) })
		if err != nil {
			return err
		}
		m.Ours, m.Theirs, ratios = append(m.Ours, a), append(m.Theirs, b), append(ratios, a/b)
	}
	sum := benchmath.AssumeNothing.Summary(benchmath.NewSample(ratios, &benchmath.DefaultThresholds), 0.95)
	m.Ratio, m.Spread = sum.Center, [2]float64{sum.Lo, sum.Hi}
	return nil
}

// pair runs both, the second first unless told otherwise.
func pair(inOrder bool, first, second func() (float64, error)) (a, b float64, err error) {
	if !inOrder {
		b, a, err = pair(true, second, first)
		return a, b, err
	}
	if a, err = first(); err == nil {
		b, err = second()
	}
	return a, b, err
}

// ours is how many calls a second the load generator makes.
func ours(ctx context.Context, s *redisd.Server, f *fleet.Fleet, pipeline int) (float64, error) {
	j := fleet.Job{
		Target: target.FloorEmpty, Conn: target.Conn{Socket: s.Socket(), Timeout: 10 * time.Second}, Prefix: "generator", Cost: 1,
		Limit: limiter.Limit{Events: 100, Window: 24 * time.Hour}, Key: "client", Clients: clients,
		Measured: &fleet.Measured{Path: fleet.Allowed, For: warmup, Keys: 100, Room: 100, Batch: pipeline, Procs: 1},
	}
	if _, err := f.Run(ctx, j); err != nil {
		return 0, err
	}
	j.Measured.For = lasts
	got, err := f.Run(ctx, j)
	if err != nil {
		return 0, err
	}
	if got.Summary.Allowed != got.Summary.Calls() || got.Summary.Calls() == 0 {
		return 0, fmt.Errorf("of %d calls %d were answered", got.Summary.Calls(), got.Summary.Allowed)
	}
	return float64(got.Summary.Calls()) / got.Usage.Elapsed.Seconds(), nil
}

// theirs is how many redis-benchmark makes. It sends the words that ours are.
func theirs(ctx context.Context, s *redisd.Server, pipeline, calls int) (float64, error) {
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})
	defer rdb.Close()
	sha, err := rdb.ScriptLoad(ctx, "return 1").Result()
	if err != nil {
		return 0, err
	}
	words := []string{"-s", s.Socket(), "-c", strconv.Itoa(clients), "-n", strconv.Itoa(calls), "-P", strconv.Itoa(pipeline), "--csv"}
	words = append(words, strings.Fields("EVALSHA "+sha+" 1 generator:{client-42-17}:floor 100 86400000000 0 1 id 0")...)
	out, err := exec.CommandContext(ctx, "redis-benchmark", words...).Output()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w", err)
	}
	records, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(records) != 2 {
		return 0, fmt.Errorf("redis-benchmark said %q (%v)", out, err)
	}
	column := slices.Index(records[0], "rps")
	if column < 0 {
		return 0, fmt.Errorf("redis-benchmark tells no rps: %q", out)
	}
	return strconv.ParseFloat(records[1][column], 64)
}
