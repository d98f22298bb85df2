package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// fuzzRuns is how many inputs each fuzz target gets. They are counted, since at the end of a time Go 1.26 may fail a target
// in which nothing failed (https://go.dev/issue/75804).
const fuzzRuns = 5000

// fuzz is the part that runs the fuzz targets of each package in the binaries of its tests, on changes of the inputs that
// the targets name. `go test -fuzz` would compile all packages again, the standard library too, to learn which input
// reaches new code: two minutes on a new machine, for what a longer run by hand is better at.
func fuzz(ctx context.Context, t *tally) {
	kept, err := os.MkdirTemp("", "rlctl-fuzz-")
	if err != nil {
		t.fail("%v", err)
		return
	}
	defer os.RemoveAll(kept)
	list := command(ctx, "go", "test", "-vet=off", "-list", "^Fuzz", "./...")
	out, err := list.CombinedOutput()
	if err != nil {
		t.judge(ctx, list, false, err, out)
		return
	}
	for _, target := range fuzzTargets(string(out)) {
		passes("go", "test", "-vet=off", "-count=1", "-run=^$", target.pkg, "-args", "-test.fuzz=^"+target.name+"$",
			fmt.Sprintf("-test.fuzztime=%dx", fuzzRuns), "-test.fuzzcachedir="+kept)(ctx, t)
	}
}

type fuzzTarget struct{ name, pkg string }

// fuzzTargets reads the output of `go test -list`, where a package's line follows those of its targets.
func fuzzTargets(listed string) (targets []fuzzTarget) {
	var names []string
	for line := range strings.Lines(listed) {
		switch f := strings.Fields(line); {
		case len(f) == 1 && strings.HasPrefix(f[0], "Fuzz"):
			names = append(names, f[0])
		case len(f) > 1 && f[0] == "ok":
			for _, name := range names {
				targets = append(targets, fuzzTarget{name, f[1]})
			}
			names = nil
		}
	}
	return targets
}
