package cmd

import (
	"os"
	"os/exec"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/target"
)

// self runs this program again with other arguments. The name it was called by is kept, since a test binary tells by
// it that it is to be rlctl.
func self(args ...string) *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	c := exec.Command(path, args...)
	c.Args[0] = os.Args[0]
	return c
}

// newKeeper is the process that takes a private server away when its parent is gone.
func newKeeper(e *env) *cobra.Command {
	return &cobra.Command{
		Use: redisd.KeeperCommand, Hidden: true, Args: arguments(),
		RunE: func(*cobra.Command, []string) error { return redisd.Keep(e.stdin, e.stdout) },
	}
}

// newWorker is a process of a fleet.
func newWorker(e *env) *cobra.Command {
	return &cobra.Command{
		Use: fleet.WorkerCommand, Hidden: true, Args: arguments(),
		RunE: func(*cobra.Command, []string) error {
			return fleet.Work(slices.Concat(e.catalogue, target.Floors()), e.stdin, e.stdout)
		},
	}
}
