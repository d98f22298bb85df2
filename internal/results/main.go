// Results runs the matrix of experiments that the pages show, keeps what each came to below results/, draws the
// pictures, and fills the pages' blocks: make results. It wants bin/rlctl, and takes the minutes that it says at the end.
//
// With names of experiments it runs only those; with the word pages none, and makes the rest from what is there.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := makeAll(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

// makeAll runs the matrix, or the experiments of those names, and makes everything that is made of results.
func makeAll(ctx context.Context, names []string) error {
	start := time.Now()
	if err := os.MkdirAll("results", 0o755); err != nil {
		return err
	}
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	for _, x := range chosen {
		begin := time.Now()
		if err := rlctl(ctx, append(x.args(), "--out", x.file())); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		fmt.Printf("%-12s %4.0f s   rlctl %s\n", x.name, time.Since(begin).Seconds(), x.command)
	}
	for _, p := range pictures {
		if err := rlctl(ctx, append(append([]string{"report"}, p.files()...), "--svg", p.file())); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if err := rlctl(ctx, []string{"report", "--readme"}); err != nil {
		return err
	}
	fmt.Printf("all of it in %.1f min\n", time.Since(start).Minutes())
	return nil
}

func choose(names []string) (chosen []experiment, err error) {
	if len(names) == 0 {
		return matrix, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(matrix, func(x experiment) bool { return x.name == name })
		switch {
		case i >= 0:
			chosen = append(chosen, matrix[i])
		case name != "pages":
			return nil, fmt.Errorf("no experiment is called %q", name)
		}
	}
	return chosen, nil
}

// rlctl runs the program. What did not come out as it must, or did not tell, is a result as well: exit codes 1 and 3.
func rlctl(ctx context.Context, args []string) error {
	c := exec.CommandContext(ctx, filepath.Join("bin", "rlctl"), args...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // it has a server to take away
	c.WaitDelay = 10 * time.Second
	said, err := c.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && (exit.ExitCode() == 1 || exit.ExitCode() == 3) {
		fmt.Printf("exit code %d of rlctl %s\n", exit.ExitCode(), strings.Join(args, " "))
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	return nil
}
