// Whatif holds rlctl replay against a real Redis: make replay. It makes a log of a million requests from a seed, lets
// bin/rlctl replay it, and pushes the same requests, which it knows from the making and not from the log, through every
// limiter on servers whose clock is set to the time of each. Every refusal must be the same, by limiter, by client and by
// time. It also measures how fast the log is read in each format, and keeps all in results/replay.json.
//
//	go run ./internal/whatif log FORMAT REQUESTS SEED
//
// only writes such a log to stdout, in a format of rlctl replay --input.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rlctl/rlctl/internal/madelog"
	"github.com/rlctl/rlctl/pkg/accesslog"
	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/scripts"
)

const (
	file     = "results/replay.json"
	million  = 1_000_000
	rounds   = 5
	hottest  = "gcra"   // whose speed is measured
	clients  = 1000     // that replay is to name of each limiter
	seed     = 0x10c5ee // of the log
	servers  = 2
	spread   = 12 * time.Hour
	mishaps  = million / 1000 // broken lines, and as many that are late
	speedsAt = "100/1m"
)

// tried is the limit: one whose tokens take no whole number of µs, and a burst that is not the limit.
func tried() limiter.Limit { return limiter.Limit{Events: 70, Window: time.Minute, Burst: 20} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "whatif:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	switch {
	case len(args) == 0:
		return check(ctx, out)
	case len(args) != 4 || args[0] != "log" || !slices.Contains(accesslog.Formats(), args[1]):
		return fmt.Errorf("usage: whatif [log %s REQUESTS SEED]", strings.Join(accesslog.Formats(), "|"))
	}
	requests, err := strconv.Atoi(args[2])
	if err != nil || requests < 1 {
		return fmt.Errorf("%q is no number of requests", args[2])
	}
	from, err := strconv.ParseUint(args[3], 0, 64)
	if err != nil {
		return fmt.Errorf("%q is no seed", args[3])
	}
	_, err = plan(accesslog.Format(args[1]), requests, from).Write(out, func(madelog.Request) {})
	return err
}

// plan is a log of so many requests, as dense as that of a million.
func plan(format accesslog.Format, requests int, from uint64) madelog.Plan {
	return madelog.Plan{
		Format: format, Seed: from, Requests: requests, Span: spread / million * time.Duration(requests),
		Late: requests * mishaps / million, Broken: requests * mishaps / million,
	}
}

// check does all of it and keeps the result.
func check(ctx context.Context, out io.Writer) error {
	start := time.Now()
	dir, err := os.MkdirTemp("", "rlctl-whatif-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	made, err := version(ctx)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, "log.json")
	put, requests, err := makeLog(name, plan(accesslog.JSON, million, seed))
	if err != nil {
		return err
	}
	l := tried()
	said, _, err := replayed(ctx, append([]string{
		name, "--limiter", strings.Join(scripts.Limiters(), ","), "--limit", fmt.Sprintf("%d/%v", l.Events, l.Window), "--burst", fmt.Sprint(l.Burst),
		"--show-keys", "--top", fmt.Sprint(clients)}, fields(accesslog.JSON)...)...)
	if err != nil {
		return err
	}
	speeds, err := measure(ctx, dir)
	if err != nil {
		return err
	}
	refusals, at, err := asked(ctx, said, requests)
	if err != nil {
		return err
	}
	result := experiment.NewReplayCheck(made, at, put, said, refusals, speeds, time.Since(start))
	if err := keep(ctx, out, result); err != nil {
		return err
	}
	if result.Verdict != "held" {
		return errors.New("replay and Redis differ")
	}
	return nil
}

// makeLog writes a log, and returns what was put into it.
func makeLog(name string, p madelog.Plan) (put experiment.Put, requests []madelog.Request, err error) {
	f, err := os.Create(name)
	if err != nil {
		return put, nil, err
	}
	known := map[string]bool{}
	counts, err := p.Write(f, func(r madelog.Request) {
		requests = append(requests, r)
		known[r.Key] = true
	})
	put = experiment.Put{
		Seed: p.Seed, Requests: counts.Requests, Unsorted: counts.Late, Broken: counts.Broken, Clients: int64(len(known)),
	}
	return put, requests, errors.Join(err, f.Close())
}

// fields are the flags by which a log of that format is read.
func fields(format accesslog.Format) []string {
	s := madelog.Fields(format)
	if format.IsCombined() {
		return []string{"--input", string(format)}
	}
	return []string{"--input", string(format), "--time", s.Time, "--time-unit", string(s.Unit), "--key", s.Key, "--cost-field", s.Cost}
}

// replayed runs bin/rlctl replay, and tells what time of a core it took. That lines are left out is as it must be: exit code 3.
func replayed(ctx context.Context, args ...string) (said *experiment.ReplayResult, cpu time.Duration, err error) {
	cmd := exec.CommandContext(ctx, filepath.Join("bin", "rlctl"), append([]string{"replay", "--format", "json"}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		err = nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w\n%s", cmd, err, &stderr)
	}
	r, err := experiment.Read(strings.NewReader(string(text)))
	if err != nil {
		return nil, 0, err
	}
	said, ok := r.(*experiment.ReplayResult)
	if !ok {
		return nil, 0, errors.New("rlctl replay did not print what it replayed")
	}
	return said, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// measure replays a log of each format several times, in turn.
func measure(ctx context.Context, dir string) (speeds []experiment.ReplaySpeed, err error) {
	of, cpu := map[string][]float64{}, map[string][]float64{}
	for _, format := range accesslog.Formats() {
		if _, _, err := makeLog(filepath.Join(dir, format), plan(accesslog.Format(format), million, seed)); err != nil {
			return nil, err
		}
		speeds = append(speeds, experiment.ReplaySpeed{Input: format, Limiter: hottest, Rounds: rounds})
	}
	for range rounds {
		for i := range speeds {
			s := &speeds[i]
			said, took, err := replayed(ctx, append([]string{filepath.Join(dir, s.Input), "--limiter", hottest, "--limit", speedsAt},
				fields(accesslog.Format(s.Input))...)...)
			if err != nil {
				return nil, err
			}
			s.Bytes, s.Requests = said.Log.Bytes, said.Log.Requests
			of[s.Input] = append(of[s.Input], float64(said.Log.Requests)/float64(said.ElapsedUS)*1e6)
			cpu[s.Input] = append(cpu[s.Input], float64(took.Microseconds())/float64(said.Log.Requests))
		}
	}
	for i := range speeds {
		s := &speeds[i]
		slices.Sort(of[s.Input])
		slices.Sort(cpu[s.Input])
		s.CPU = cpu[s.Input][rounds/2]
		s.Least, s.Median, s.Most = of[s.Input][0], of[s.Input][rounds/2], of[s.Input][rounds-1]
	}
	return speeds, nil
}

// asked starts servers and asks them.
func asked(ctx context.Context, said *experiment.ReplayResult, requests []madelog.Request) (map[string]experiment.Refusals, experiment.Server, error) {
	at := experiment.Server{Private: true, At: "unix socket"}
	var all []*redisd.Server
	defer func() {
		for _, s := range all {
			_ = s.Close() // a private one, of which nothing is wanted any more
		}
	}()
	for range servers {
		s, err := redisd.Start(ctx, redisd.Options{Clock: true})
		if err != nil {
			return nil, at, err
		}
		all, at.Version = append(all, s), s.Version()
	}
	refusals, err := refusedBy(ctx, all, scripts.Limiters(), tried(), requests)
	return refusals, at, err
}

// version is what bin/rlctl says of itself.
func version(ctx context.Context) (p experiment.Provenance, err error) {
	text, err := exec.CommandContext(ctx, filepath.Join("bin", "rlctl"), "version", "--format", "json").Output()
	if err != nil {
		return p, fmt.Errorf("bin/rlctl version: %w", err)
	}
	err = json.Unmarshal(text, &p)
	p.Command = "make replay"
	return p, err
}

// keep writes the result, fills the pages with it, and shows it.
func keep(ctx context.Context, out io.Writer, r *experiment.ReplayCheck) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := errors.Join(report.WriteJSON(f, r), f.Close()); err != nil {
		return err
	}
	if said, err := exec.CommandContext(ctx, filepath.Join("bin", "rlctl"), "report", "--readme").CombinedOutput(); err != nil {
		return fmt.Errorf("fill the pages: %w\n%s", err, said)
	}
	return r.Document().Write(out, report.TableFormat, report.Style{})
}
