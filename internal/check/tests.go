package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// tests is a part that runs the tests of all packages, none of them from the cache.
func tests(flags ...string) func(context.Context, *tally) {
	return func(ctx context.Context, t *tally) {
		args := append([]string{"test", "-json", "-count=1"}, flags...)
		cmd := command(ctx, "go", append(args, "./...")...)
		cmd.Stderr = os.Stderr
		stdout, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.fail("%s: %v", cmd, err)
			return
		}
		r := &run{tally: t, said: map[string][]string{}, broken: map[string]bool{}}
		badLine := r.read(stdout)
		io.Copy(io.Discard, stdout)
		r.end(errors.Join(badLine, cmd.Wait()))
	}
}

// event is a line of `go test -json`, see `go doc test2json`.
type event struct{ Action, Package, Test, Output, ImportPath string }

// run follows one run of `go test`.
type run struct {
	*tally
	said   map[string][]string // output of tests and packages that have not ended, by package and test
	broken map[string]bool     // packages with a failed test
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
	test, _, sub := strings.Cut(e.Test, "/")
	key := e.Package + " " + test
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.said[key] = append(r.said[key], e.Output)
	case "pass", "skip", "fail":
		switch {
		case sub:
		case test == "":
			r.packageEnded(e)
		default:
			r.testEnded(e, key)
		}
	}
}

func (r *run) testEnded(e event, key string) {
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		fmt.Fprintf(r.out, "SKIP %s\n%s", key, strings.Join(r.said[key], ""))
	case "fail":
		r.broken[e.Package] = true
		r.fail("%s\n%s", key, strings.Join(r.said[key], ""))
	}
	delete(r.said, key)
}

// packageEnded counts a package that failed without a failed test: it was not built, or ended in the middle.
func (r *run) packageEnded(e event) {
	for key, said := range r.said {
		if !strings.HasPrefix(key, e.Package+" ") {
			continue
		}
		if e.Action == "fail" {
			fmt.Fprint(r.out, strings.Join(said, ""))
		}
		delete(r.said, key)
	}
	if e.Action == "fail" && !r.broken[e.Package] {
		r.broken[e.Package] = true
		r.fail("%s", e.Package)
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
