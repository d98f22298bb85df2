// Check runs all that a change must pass, each part within its budget, and closes with a line "N passed, N failed".
// It exits with 1 unless everything passed. A part that overruns its budget is killed and has failed; so has a part
// that was to run tests and ran none.
//
// Tests are counted by name, without subtests: once plain, once under the race detector in a shuffled order. Each fuzz
// target, and each part that is no test run, counts as one. Of the Lua client each spec counts.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const staticcheck = "honnef.co/go/tools/cmd/staticcheck@v0.8.2"

// builds are the flags of all that is built here. A build without the path of this checkout is one that a clone elsewhere
// finds in the cache; one without what a debugger reads is a tenth quicker.
const builds = "-trimpath -gcflags=all=-dwarf=false -ldflags=-w"

// part is one thing to pass.
type part struct {
	name   string
	budget time.Duration
	run    func(context.Context, *tally)
}

// whole is what all parts together may take. CI gives ten minutes, and what is missing is installed first.
const whole = 9*time.Minute + 15*time.Second

// parts are in the order of what they cost. A budget is a watchdog: the first parts compile what the later ones use, so
// with cold caches some take twice as long as on a second run, and others as long; all of them together stay within the
// whole. Under the race detector, -short leaves out what measures or walks for long.
func parts() []part {
	return []part{
		{"gofmt", 5 * time.Second, silent("gofmt", "-l", ".")},
		{"vet", 120 * time.Second, passes("go", "vet", "./...")},
		{"staticcheck", 80 * time.Second, passes("go", "run", staticcheck, "./...")},
		{"test", 320 * time.Second, tests(".", "-vet=off", "-timeout=315s")},
		{"busted", 90 * time.Second, busted},
		{"peers", 90 * time.Second, tests("peers", "-vet=all", "-timeout=85s")},
		{"race, shuffled", 260 * time.Second, racing("-vet=off", "-short", "-shuffle=on", "-timeout=255s")},
		{"fuzz", 130 * time.Second, fuzz},
	}
}

func main() {
	_ = os.Setenv("GOFLAGS", strings.TrimSpace(os.Getenv("GOFLAGS")+" "+builds)) // a name and a value that it always takes
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, late := context.WithTimeout(ctx, whole)
	code := check(ctx, parts(), os.Stdout)
	late()
	stop()
	os.Exit(code)
}

// check runs the parts and returns the exit code.
func check(ctx context.Context, parts []part, out io.Writer) int {
	var sum tally
	for _, p := range parts {
		t := tally{out: out}
		took := t.within(ctx, p)
		fmt.Fprintf(out, "%-15s %5.1f s of %3.0f s   %d passed, %d failed\n",
			p.name, took.Seconds(), p.budget.Seconds(), t.passed, t.failed)
		sum.passed, sum.failed = sum.passed+t.passed, sum.failed+t.failed
		if ctx.Err() != nil {
			sum.failed++
			break
		}
	}
	fmt.Fprintf(out, "%d passed, %d failed\n", sum.passed, sum.failed)
	if sum.failed > 0 || sum.passed == 0 {
		return 1
	}
	return 0
}

// tally counts what passed and failed, and prints what there is to say about it.
type tally struct {
	out            io.Writer
	passed, failed int
}

// within runs one part and returns how long it took.
func (t *tally) within(ctx context.Context, p part) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, p.budget)
	defer cancel()
	start := time.Now()
	p.run(ctx, t)
	if ctx.Err() != nil {
		t.fail("%s did not end within its %v: %v", p.name, p.budget, ctx.Err())
	}
	return time.Since(start)
}

func (t *tally) fail(format string, a ...any) {
	t.failed++
	fmt.Fprintf(t.out, "FAIL "+format+"\n", a...)
}

// command returns a command that takes its children along when ctx ends.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second // for what left the process group and holds the output
	return cmd
}

// passes is a part that passes when the command exits with 0.
func passes(name string, args ...string) func(context.Context, *tally) {
	return func(ctx context.Context, t *tally) {
		cmd := command(ctx, name, args...)
		said, err := cmd.CombinedOutput()
		t.judge(ctx, cmd, err == nil, err, said)
	}
}

// silent is a part that passes when the command exits with 0 and prints nothing.
func silent(name string, args ...string) func(context.Context, *tally) {
	return func(ctx context.Context, t *tally) {
		cmd := command(ctx, name, args...)
		said, err := cmd.CombinedOutput()
		t.judge(ctx, cmd, err == nil && len(said) == 0, err, said)
	}
}

// judge counts a command, with what it said where it failed. One that was killed is counted by within.
func (t *tally) judge(ctx context.Context, cmd *exec.Cmd, ok bool, err error, said []byte) {
	switch {
	case ok:
		t.passed++
	case ctx.Err() == nil:
		t.fail("%s: %v\n%s", cmd, err, said)
	}
}
