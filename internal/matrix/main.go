// Matrix tries the limiters on servers other than the one that is installed: make matrix. Each is taken from a Debian
// suite and unpacked beside the system, never installed, see debian.go. On each it runs the tests of the limiters and of
// their models, and a race of the whole catalogue, and keeps what came of it in results/matrix.json.
//
// It wants Debian with apt, Go, bin/rlctl, and the package mirror that apt knows; the first run fetches some 100 MB. With
// names of suites it tries only their servers, and keeps nothing. A server that cannot be had, and a test that cannot run
// on one, are said so and are no pass.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/report"
)

const file = "results/matrix.json"

// candidate is a server as a suite has it.
type candidate struct{ server, suite string }

// candidates are the stable releases, what is backported to the older one, and the next release.
func candidates() []candidate {
	return []candidate{
		{"redis", "bookworm"}, {"redis", "trixie"}, {"redis", "forky"},
		{"valkey", "bookworm-backports"}, {"valkey", "trixie"}, {"valkey", "forky"},
		{"redict", "bookworm-backports"}, {"redict", "forky"},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := makeMatrix(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func makeMatrix(ctx context.Context, only []string) error {
	start := time.Now()
	mirror, err := openMirror(ctx)
	if err != nil {
		return err
	}
	var rows []experiment.MatrixRow
	var made *experiment.Provenance
	for _, c := range candidates() {
		if len(only) > 0 && !slices.Contains(only, c.suite) {
			continue
		}
		row, by := try(ctx, mirror, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if by != nil && made == nil {
			made = by
		}
		rows = append(rows, row)
		fmt.Println(row)
	}
	if made == nil {
		return errors.New("no server could be tried")
	}
	result := experiment.NewMatrix(*made, rows, time.Since(start))
	fmt.Printf("%s, in %.1f min\n", result.Verdict, time.Since(start).Minutes())
	if len(only) > 0 {
		return nil
	}
	return keep(ctx, result)
}

// keep writes the result, and fills the pages with it.
func keep(ctx context.Context, result *experiment.MatrixResult) error {
	var text bytes.Buffer
	if err := report.WriteJSON(&text, result); err != nil {
		return err
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		return err
	}
	if said, err := exec.CommandContext(ctx, filepath.Join("bin", "rlctl"), "report", "--readme").CombinedOutput(); err != nil {
		return fmt.Errorf("fill the pages: %w\n%s", err, said)
	}
	return nil
}
