package cmd

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan writes the man pages, for whoever packages rlctl.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write a man page a command into DIR",
		Hidden: true,
		Args:   arguments("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			c.Root().DisableAutoGenTag = true
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return writeError{args[0], err}
			}
			err := doc.GenManTree(c.Root(), &doc.GenManHeader{Section: "1", Source: "rlctl"}, args[0])
			if path := new(os.PathError); errors.As(err, &path) {
				return writeError{path.Path, err}
			}
			return err
		},
	}
}
