package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/redisd"
)

// The tests that a server has to pass: those of the limiters, and those in which scripts are held against decision vectors
// and models on a clock that the test sets. The zoo of spoiled limiters is left out: it tries the checkers.
const (
	plain   = "./pkg/limiter"
	clocked = "./pkg/target"
	zoo     = "Zoo"
)

// try gets a server and tries it. by is what made the race, nil if there was none.
func try(ctx context.Context, m *mirror, c candidate) (row experiment.MatrixRow, by *experiment.Provenance) {
	start := time.Now()
	row = experiment.MatrixRow{Server: c.server, Suite: c.suite, Package: c.server + "-tools"}
	err := func() (err error) {
		path := os.Getenv("PATH")
		defer os.Setenv("PATH", path)
		if err := get(ctx, m, c, &row); err != nil {
			return err
		}
		if row.Clock, err = greet(ctx, &row); err != nil {
			return err
		}
		if row.Tests, err = conform(ctx, row.Clock); err != nil {
			return err
		}
		by, row.Race, err = race(ctx, row.Version)
		return err
	}()
	if err != nil {
		row.NotRun = err.Error()
	}
	row.ElapsedUS = time.Since(start).Microseconds()
	return row.Judged(), by
}

// get fetches the server, and puts it in front of PATH.
func get(ctx context.Context, m *mirror, c candidate, row *experiment.MatrixRow) error {
	s, err := m.open(c)
	if err != nil {
		return err
	}
	tree, version, err := s.fetch(ctx, row.Package)
	if err != nil {
		return err
	}
	row.PackageVersion = version
	folder, err := wrap(s.dir, tree, c.server)
	if err != nil {
		return err
	}
	return os.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// greet starts the server once, and tells whether its clock can be set.
func greet(ctx context.Context, row *experiment.MatrixRow) (clock bool, err error) {
	s, err := redisd.Start(ctx, redisd.Options{Clock: true})
	if clock = err == nil; errors.Is(err, redisd.ErrNoClock) {
		s, err = redisd.Start(ctx, redisd.Options{})
	}
	if err != nil {
		return false, err
	}
	row.Version = s.Version()
	if s.Name() != row.Server {
		err = fmt.Errorf("%s was wanted and %s came", row.Server, s.Name())
	}
	return clock, errors.Join(err, s.Close())
}

// conform runs the tests. An error is one of running them, and not of a test.
func conform(ctx context.Context, clock bool) (t experiment.MatrixTests, err error) {
	packages := []string{plain, clocked}
	if !clock {
		packages = packages[:1]
		t.NotRun = clocked + ": the clock of this server cannot be set"
	}
	args := append([]string{"test", "-json", "-count=1", "-short", "-skip", zoo}, packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return t, err
	}
	err = count(out, &t)
	_, _ = io.Copy(io.Discard, out)
	ended := cmd.Wait()
	switch {
	case err != nil:
		return t, fmt.Errorf("read what go test says: %w", err)
	case t.Passed+t.Failed == 0, ended != nil && t.Failed == 0:
		return t, fmt.Errorf("go test: no test ran, or none that failed did: %w", errors.Join(ended, ctx.Err()))
	}
	return t, nil
}

// count takes tests as they end, without subtests.
func count(from io.Reader, t *experiment.MatrixTests) error {
	for in := json.NewDecoder(from); ; {
		var e struct{ Action, Test string }
		switch err := in.Decode(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case e.Test == "" || strings.Contains(e.Test, "/"):
		case e.Action == "pass":
			t.Passed++
		case e.Action == "skip":
			t.Skipped++
		case e.Action == "fail":
			t.Failed++
			t.Failures = append(t.Failures, e.Test)
		}
	}
}

// race lets the whole catalogue race, on a server that must be the one wanted.
func race(ctx context.Context, version string) (*experiment.Provenance, *experiment.MatrixRace, error) {
	dir, err := os.MkdirTemp("", "rlctl-matrix-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "race.json")
	cmd := exec.CommandContext(ctx, filepath.Join("bin", "rlctl"), "race", "--procs", "20", "--out", name)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it has a server to take away
	cmd.WaitDelay = 10 * time.Second
	said, ended := cmd.CombinedOutput()
	text, err := os.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("race: %w\n%s", ended, said)
	}
	defer text.Close()
	result, err := experiment.Read(text)
	if err != nil {
		return nil, nil, fmt.Errorf("read the race: %w", err)
	}
	r, ok := result.(*experiment.RaceResult)
	if !ok || r.Redis.Version != version {
		return nil, nil, fmt.Errorf("the race was not on %s", version)
	}
	return &r.Env, experiment.SumUp(r), nil
}
