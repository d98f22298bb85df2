// Rlctl exercises Redis rate limiters and checks what they answer. See README.md.
package main

import (
	"context"
	"os"

	"github.com/rlctl/rlctl/cmd"
)

func main() {
	ctx, stop := cmd.WithSignals(context.Background())
	code := cmd.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
