package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/target"
)

// bar is one bench and what is to hold of it, each a multiple of another row of the same bench.
type bar struct {
	name, command string
	asserts       []string
}

// bars are what the limiters are held to. Events are whole microseconds apart in those of gcra: what it costs where they
// are not stands in bench.json. A denied path needs a key that refills slower than it is asked.
func bars() []bar {
	ours := bar{"ours", "bench fixed-window sliding-counter token-bucket gcra sliding-log compact-log --pipeline 16 --limit 1000/1d " +
		"--keys 16 --duration 6s --rounds 20", []string{
		"compact-log/allowed:script_us<=0.78*sliding-log", "compact-log/denied:script_us<=0.55*sliding-log",
		"fixed-window:script_us<=2.5*" + target.FloorTime, "sliding-counter:script_us<=1*token-bucket",
	}}
	for _, name := range []string{"fixed-window", "sliding-counter", "token-bucket", "gcra", "sliding-log", "compact-log"} {
		ours.asserts = append(ours.asserts, name+"/denied:script_us<=1*"+name+"/allowed")
	}
	return []bar{
		{"script-allowed", "bench gcra redis_rate-auto --autopipeline --path allowed --limit 1000000/1s --keys 2 --duration 8s --rounds 40",
			[]string{"gcra:script_us<=0.95*redis_rate-auto"}},
		{"script-denied", "bench gcra redis_rate-auto --autopipeline --path denied --limit 86400/1d --keys 16 --duration 8s --rounds 40",
			[]string{"gcra:script_us<=0.90*redis_rate-auto"}},
		{"client", "bench gcra redis_rate --clients 64 --limit 86400/1d --keys 16 --duration 20s --rounds 100",
			[]string{"gcra:ops_per_sec>=1.05*redis_rate", "gcra:allocs<=10"}},
		{"gathered", "bench gcra least redis_rate --autopipeline --clients 512 --limit 86400/1d --keys 16 --duration 8s --rounds 24",
			[]string{"gcra:ops_per_sec>=3*redis_rate", "least:ops_per_sec>=3*redis_rate", "gcra:allocs<=10"}},
		ours,
	}
}

func (b bar) file(folder string) string { return filepath.Join(folder, "bars-"+b.name+".json") }

func (b bar) args(folder string) []string {
	args := append(strings.Fields(b.command), "--timeout", "5s", "--out", b.file(folder))
	for _, a := range b.asserts {
		args = append(args, "--assert", a)
	}
	return args
}

// holdBars runs the benches, tells what they were held to and what came of it, and keeps their results in a folder.
func holdBars(ctx context.Context, folder string) error {
	for _, b := range bars() {
		cmd := self(b.args(folder)...)
		cmd.Stderr = os.Stderr
		err := runUntil(ctx, cmd)
		var exit *exec.ExitError
		if errors.As(err, &exit) && (exit.ExitCode() == 1 || exit.ExitCode() == 3) { // what does not hold is told as well
			err = nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.command, err)
		}
		r, err := kept[*experiment.BenchResult](b.file(folder))
		if err != nil {
			return fmt.Errorf("%s: %w", b.command, err)
		}
		for _, c := range r.Checks {
			fmt.Printf("%-12s %s   %s\n", c.Verdict, c.Assert, c.Reason)
		}
	}
	return nil
}
