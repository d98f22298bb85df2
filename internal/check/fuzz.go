package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// fuzzTime is what all fuzz targets together get. Building them comes on top.
const fuzzTime = 12 * time.Second

// fuzz is the part that runs each fuzz target of each package for its share of the time.
func fuzz(ctx context.Context, t *tally) {
	list := command(ctx, "go", "test", "-list", "^Fuzz", "./...")
	out, err := list.CombinedOutput()
	if err != nil {
		t.judge(ctx, list, false, err, out)
		return
	}
	targets := fuzzTargets(string(out))
	for _, target := range targets {
		share := max(fuzzTime/time.Duration(len(targets)), time.Second)
		passes("go", "test", "-run=^$", "-fuzz=^"+target.name+"$", fmt.Sprintf("-fuzztime=%s", share), target.pkg)(ctx, t)
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
