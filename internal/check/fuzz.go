package main

import (
	"context"
	"fmt"
	"strings"
)

// fuzzRuns is how many inputs each fuzz target gets. They are counted, since at the end of a time Go 1.26 may fail a target
// in which nothing failed (https://go.dev/issue/75804).
const fuzzRuns = 1500

// fuzz is the part that runs the fuzz targets of each package.
func fuzz(ctx context.Context, t *tally) {
	list := command(ctx, "go", "test", "-list", "^Fuzz", "./...")
	out, err := list.CombinedOutput()
	if err != nil {
		t.judge(ctx, list, false, err, out)
		return
	}
	for _, target := range fuzzTargets(string(out)) {
		passes("go", "test", "-run=^$", "-fuzz=^"+target.name+"$", fmt.Sprintf("-fuzztime=%dx", fuzzRuns), target.pkg)(ctx, t)
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
