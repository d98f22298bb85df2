package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// pure are packages without a goroutine: the race detector has nothing to see in them, and makes their arithmetic slow.
func pure(pkg string) bool {
	return slices.ContainsFunc([]string{"/pkg/model", "/pkg/replay", "/pkg/report", "/pkg/certificate"}, func(name string) bool {
		return strings.HasSuffix(pkg, name)
	})
}

// racing is a part that runs the tests of the packages that are not pure under the race detector.
func racing(flags ...string) func(context.Context, *tally) {
	return func(ctx context.Context, t *tally) {
		listed, err := command(ctx, "go", "list", "./...").Output()
		if err != nil {
			t.fail("go list: %v", err)
			return
		}
		packages := slices.DeleteFunc(strings.Fields(string(listed)), pure)
		tests(".", append(append([]string{"-race"}, flags...), packages...)...)(ctx, t)
	}
}

// tests is a part that runs tests of the module in a folder, those of all packages unless some are named after the flags,
// none of them from the cache.
func tests(module string, flags ...string) func(context.Context, *tally) {
	return func(ctx context.Context, t *tally) {
		args := append([]string{"test", "-json", "-count=1"}, flags...)
		if strings.HasPrefix(args[len(args)-1], "-") {
			args = append(args, "./...")
		}
		cmd := command(ctx, "go", args...)
		cmd.Dir, cmd.Stderr = module, os.Stderr
		// Each process of a race build sleeps a second before it ends, and the tests run hundreds of them.
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
		stdout, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.fail("%s: %v", cmd, err)
			return
		}
		r := newRun(t)
		badLine := r.read(stdout)
		io.Copy(io.Discard, stdout)
		err = errors.Join(badLine, cmd.Wait())
		if ctx.Err() == nil {
			r.end(err)
			return
		}
		for name := range r.open {
			fmt.Fprintf(r.out, "still running: %s\n", name)
		}
	}
}

// event is a line of `go test -json`, see `go doc test2json`.
type event struct{ Action, Package, Test, Output, ImportPath string }

// run follows one run of `go test`.
type run struct {
	*tally
	said   map[string][]event // by package: the output so far, without that of tests that passed
	broken map[string]bool    // packages with a failed test
	open   map[string]bool    // packages and tests that have begun and not ended
}

func newRun(t *tally) *run {
	return &run{tally: t, said: map[string][]event{}, broken: map[string]bool{}, open: map[string]bool{}}
}

func (r *run) read(stdout io.Reader) error {
	for in := json.NewDecoder(stdout); ; {
		var e event
		switch err := in.Decode(&e); err {
		case nil:
			r.take(e)
		case io.EOF:
			return nil
		default:
			return fmt.Errorf("read the output of go test: %w", err)
		}
	}
}

// take counts tests as they end. Of a failed one, and of what broke a whole package, it prints the output.
func (r *run) take(e event) {
	name := strings.TrimSpace(e.Package + " " + e.Test)
	switch e.Action {
	case "start", "run":
		r.open[name] = true
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.said[e.Package] = append(r.said[e.Package], e)
	case "pass", "skip", "fail":
		delete(r.open, name)
		switch {
		case e.Test == "":
			r.packageEnded(e)
		case strings.Contains(e.Test, "/"):
			if e.Action == "pass" {
				r.output(e)
			}
		default:
			r.testEnded(e)
		}
	}
}

// output takes out what the test and its subtests said, or all that the package said.
func (r *run) output(of event) string {
	var text strings.Builder
	r.said[of.Package] = slices.DeleteFunc(r.said[of.Package], func(e event) bool {
		mine := of.Test == "" || e.Test == of.Test || strings.HasPrefix(e.Test, of.Test+"/")
		if mine {
			text.WriteString(e.Output)
		}
		return mine
	})
	return text.String()
}

func (r *run) testEnded(e event) {
	said := r.output(e)
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		fmt.Fprintf(r.out, "SKIP %s %s\n%s", e.Package, e.Test, said)
	case "fail":
		r.broken[e.Package] = true
		r.fail("%s %s\n%s", e.Package, e.Test, said)
	}
}

// packageEnded counts a package that failed without a failed test: it was not built, or ended in the middle.
func (r *run) packageEnded(e event) {
	if said := r.output(e); e.Action == "fail" && !r.broken[e.Package] {
		r.fail("%s\n%s", e.Package, said)
	}
}

// end makes sure that a run which failed has a failure, and that a run of nothing is one.
func (r *run) end(err error) {
	switch {
	case err != nil && r.failed == 0:
		r.fail("go test: %v", err)
	case r.passed+r.failed == 0:
		r.fail("go test: no test ran")
	}
}
