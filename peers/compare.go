package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rlctl/rlctl/peers/rivals"
	"github.com/rlctl/rlctl/peers/walk"
	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// ours are the limiters of this project that stand beside the rivals: one of each kind of rule.
var ours = []string{"gcra", "fixed-window", "sliding-log"}

// plan is what is run of each limiter.
type plan struct {
	race, bench string   // command lines of rlctl, without the limiters
	prove       []string // more of them
	walks       []limiter.Limit
	lives       int // under each of those limits
}

// full takes some minutes. Calls have long to be answered, so that a busy machine does not look like a limiter that
// fails. 7 a minute does not divide a minute into whole microseconds.
func full() plan {
	return plan{
		race:  "race --procs 16 --clients 4 --limit 1000 --attempts 300 --rounds 3 --timeout 5s",
		bench: "bench --clients 64 --keys 16 --duration 2s --timeout 5s",
		prove: []string{"prove --limit 7 --clients 2", "prove --limit 7 --clients 3"},
		walks: []limiter.Limit{
			{Events: 10, Window: 10 * time.Second},
			{Events: 7, Window: time.Minute},
			{Events: 5, Window: 1500 * time.Millisecond},
		},
		lives: 25,
	}
}

// moves are the requests of a life.
const moves = 50

// comparison is one run of compare.
type comparison struct {
	plan
	rows   []target.Entry
	race   *experiment.RaceResult
	proofs []*experiment.ProveResult
	bench  *experiment.BenchResult
	folder string
}

// compare sets the rivals beside ours and writes what came of it to a file.
func compare(ctx context.Context, p plan, file string) error {
	start := time.Now()
	c, err := newComparison(p)
	if err != nil {
		return err
	}
	defer os.RemoveAll(c.folder)
	if err := c.run(ctx); err != nil {
		return err
	}
	r := c.result()
	for _, e := range c.rows {
		r.Results = append(r.Results, c.row(e))
	}
	if err := c.walk(ctx, r.Results); err != nil {
		return err
	}
	r.Env.Command, r.ElapsedUS = "peers compare "+file, time.Since(start).Microseconds()
	return write(file, r)
}

func newComparison(p plan) (*comparison, error) {
	c := &comparison{plan: p, rows: rivals.Entries()}
	for _, name := range ours {
		e, err := target.Find(target.Catalogue(), name)
		if err != nil {
			return nil, err
		}
		c.rows = append(c.rows, e)
	}
	var err error
	c.folder, err = os.MkdirTemp("", "peers-")
	return c, err
}

// run runs this program as rlctl, whose results are the evidence.
func (c *comparison) run(ctx context.Context) (err error) {
	if c.race, err = runAs[*experiment.RaceResult](ctx, c, c.plan.race); err != nil {
		return err
	}
	for _, command := range c.prove {
		r, err := runAs[*experiment.ProveResult](ctx, c, command)
		if err != nil {
			return err
		}
		c.proofs = append(c.proofs, r)
	}
	c.bench, err = runAs[*experiment.BenchResult](ctx, c, c.plan.bench)
	return err
}

func runAs[R experiment.Result](ctx context.Context, c *comparison, command string) (result R, err error) {
	words := append(strings.Fields(command), target.Names(c.rows)...)
	file := filepath.Join(c.folder, strconv.Itoa(os.Getpid())+".json")
	cmd := self(append(words, "--out", file)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err = runUntil(ctx, cmd)
	var exit *exec.ExitError
	if errors.As(err, &exit) && (exit.ExitCode() == 1 || exit.ExitCode() == 3) { // a limiter that breaks is a result
		err = nil
	}
	if err != nil {
		return result, fmt.Errorf("%s: %w", command, err)
	}
	result, err = kept[R](file)
	if err != nil {
		return result, fmt.Errorf("%s: %w", command, err)
	}
	return result, nil
}

// kept is the result in a file.
func kept[R experiment.Result](file string) (result R, err error) {
	from, err := os.Open(file)
	if err != nil {
		return result, err
	}
	defer from.Close()
	read, err := experiment.Read(from)
	if err != nil {
		return result, err
	}
	result, ok := read.(R)
	if !ok {
		return result, fmt.Errorf("its result is a %T", read)
	}
	return result, nil
}

// runUntil runs a command that has a server to take away when it is interrupted.
func runUntil(ctx context.Context, cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	return cmd.Wait()
}

// self is this program, started again.
func self(args ...string) *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	return exec.Command(path, args...)
}

func (c *comparison) result() *experiment.PeersResult {
	return &experiment.PeersResult{
		Schema: experiment.PeersSchema, Env: c.race.Env, Redis: c.race.Redis,
		Race: experiment.PeerLoad{
			Limit: c.race.Limit, WindowUS: c.race.WindowUS, Callers: c.race.Procs * c.race.Clients, Keys: 1, Command: c.race.Env.Command,
		},
		Bench: experiment.PeerLoad{
			Limit: c.bench.Config.Limit, WindowUS: c.bench.Config.WindowUS, Callers: c.bench.Config.Clients * c.bench.Config.Procs,
			Keys: c.bench.Config.Keys, Command: c.bench.Env.Command,
		},
	}
}

// row gathers what the runs said of a limiter.
func (c *comparison) row(e target.Entry) experiment.PeerRow {
	row := experiment.PeerRow{
		Limiter: e.Name, Rule: e.Summary, Charges: e.Rule.Charges, TellsWait: true, Explored: []experiment.PeerExplore{}, Bench: []experiment.PeerFigure{},
	}
	for _, r := range rivals.All() {
		if r.Name == e.Name {
			row.Module, row.Version, row.Rule, row.Settings = r.Module, r.Version(), r.Rule, r.Settings
			row.Tells, row.TellsWait = r.Tells, r.Waits
		}
	}
	for _, r := range c.race.Results {
		if r.Limiter == e.Name {
			row.Race = experiment.NewPeerRace(r)
		}
	}
	for _, p := range c.proofs {
		for _, r := range p.Results {
			if r.Limiter == e.Name {
				row.Explored = append(row.Explored, experiment.NewPeerExplore(r))
			}
		}
	}
	for _, r := range c.bench.Results {
		if r.Limiter == e.Name {
			row.Bench = append(row.Bench, experiment.NewPeerFigure(r))
		}
	}
	return row
}

// walk walks each limiter and counts its round trips, on a server whose clock is set.
func (c *comparison) walk(ctx context.Context, rows []experiment.PeerRow) error {
	srv, err := redisd.StartKept(ctx, self, redisd.Options{Clock: true})
	if err != nil {
		return err
	}
	defer srv.Close()
	for i, e := range c.rows {
		fmt.Fprintf(os.Stderr, "peers: walk %s\n", e.Name)
		for _, l := range c.walks {
			plan := walk.Plan{Entry: e, Limit: l, Lives: c.lives, Moves: moves, Seed: 1}
			if err := walk.Run(ctx, srv, plan, &rows[i].Walk); err != nil {
				return err
			}
		}
		if rows[i].RoundTrips, err = walk.RoundTrips(ctx, srv.Socket(), e); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file that is there as a whole or not at all.
func write(file string, r *experiment.PeersResult) error {
	beside, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(beside.Name()) // unless it has the other name by then
	if err := errors.Join(report.WriteJSON(beside, r), beside.Chmod(0o644), beside.Close()); err != nil {
		return err
	}
	return os.Rename(beside.Name(), file)
}
