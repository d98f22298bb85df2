// Peers is rlctl with the limiters of other libraries beside its own. It is a module of its own, so that nobody who uses
// rlctl pulls those libraries in. What it does beyond rlctl is compare FILE, which make peers runs, and bars FOLDER, which
// make bars does.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/rlctl/rlctl/cmd"
	"github.com/rlctl/rlctl/peers/rivals"
)

func main() {
	ctx, stop := cmd.WithSignals(context.Background())
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	own := map[string]func(context.Context, string) error{
		"compare": func(ctx context.Context, file string) error { return compare(ctx, full(), file) },
		"bars":    holdBars,
	}
	if len(args) != 2 || own[args[0]] == nil {
		return cmd.Main(ctx, args, os.Stdin, os.Stdout, os.Stderr, rivals.Rows()...)
	}
	if err := own[args[0]](ctx, args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		return 1
	}
	return 0
}
