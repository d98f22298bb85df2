// Peers is rlctl with the limiters of other libraries beside its own. It is a module of its own, so that nobody who uses
// rlctl pulls those libraries in. What it does beyond rlctl is the command compare, which make peers runs.
package main

import (
	"context"
	"os"

	"github.com/rlctl/rlctl/cmd"
	"github.com/rlctl/rlctl/peers/rivals"
)

func main() {
	ctx, stop := cmd.WithSignals(context.Background())
	code := cmd.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, rivals.Entries()...)
	stop()
	os.Exit(code)
}
