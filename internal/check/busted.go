package main

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// busted is the part that runs the specs of the Lua client, which start their servers with the program that it builds.
func busted(ctx context.Context, t *tally) {
	program, err := filepath.Abs("bin/rlctl")
	if err != nil {
		t.fail("busted: %v", err)
		return
	}
	build := command(ctx, "go", "build", "-o", program, ".")
	if said, err := build.CombinedOutput(); err != nil {
		t.judge(ctx, build, false, err, said)
		return
	}
	specs := command(ctx, "busted", "--output=plainTerminal")
	specs.Dir, specs.Env = "lua", append(specs.Environ(), "RLCTL="+program)
	said, err := specs.CombinedOutput()
	t.specs(ctx, specs, err, string(said))
}

// summary is the line in which busted counts: successes, failures, errors, and pending.
var summary = regexp.MustCompile(`(?m)^(\d+) success(?:es)? / (\d+) failures? / (\d+) errors? / (\d+) pending`)

// specs counts what busted said. A spec that is pending has failed: all of them can run here.
func (t *tally) specs(ctx context.Context, cmd *exec.Cmd, err error, said string) {
	var counts [4]int
	if found := summary.FindStringSubmatch(said); found != nil {
		for i := range counts {
			counts[i], _ = strconv.Atoi(found[i+1])
		}
	}
	t.passed += counts[0]
	if failed := counts[1] + counts[2] + counts[3]; failed > 0 {
		t.fail("%s\n%s", cmd, said)
		t.failed += failed - 1
		return
	}
	if err == nil && counts[0] == 0 {
		err = errors.New("no spec ran")
	}
	if err != nil {
		t.judge(ctx, cmd, false, err, []byte(said))
	}
}
