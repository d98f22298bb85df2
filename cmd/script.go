package cmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/scripts"
)

func newScript(e *env, conn *connFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "script COMMAND",
		Short: "Load, flush, list, show or verify the Lua scripts on a server",
		Args:  subcommand,
		RunE: func(c *cobra.Command, _ []string) error {
			return usageError{fmt.Errorf("%s wants a command", c.CommandPath()), "one of: load, flush, list, show, verify"}
		},
	}
	c.AddCommand(
		newScriptRun(e, conn, experiment.LoadScripts, "Load every script and say its SHA1 (on a cluster: into every node)"),
		newScriptFlush(e, conn),
		newScriptRun(e, conn, experiment.ListScripts, "List the scripts, and whether the server has them"),
		newScriptShow(e),
		newScriptRun(e, conn, experiment.VerifyScripts, "Compare what every node has; exit 1 when something is missing"),
	)
	return c
}

func newScriptRun(e *env, conn *connFlags, act experiment.ScriptAction, short string) *cobra.Command {
	c := &cobra.Command{Use: string(act), Short: short, Args: arguments(), Annotations: online()}
	format := formatFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		where, err := conn.service(c.Context(), e, c.Flags())
		if err != nil {
			return err
		}
		return runScript(c.Context(), e, where, act, format)
	}
	return c
}

// runScript acts and shows the result. Only verify takes a missing script for a failure.
func runScript(ctx context.Context, e *env, where target.Conn, act experiment.ScriptAction, format *choice) error {
	result, err := act.Run(ctx, where)
	if err != nil {
		return atServer(where.String(), err)
	}
	if err := e.show(format, result.Document()); err != nil {
		return err
	}
	if act == experiment.VerifyScripts && !result.Complete {
		return errBroken
	}
	return nil
}

func newScriptFlush(e *env, conn *connFlags) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:         string(experiment.FlushScripts),
		Short:       "Empty the server's script cache, for everybody who uses it",
		Args:        arguments(),
		Annotations: online(),
	}
	c.Flags().BoolVar(&yes, "yes", false, "do it without asking")
	format := formatFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		where, err := conn.service(c.Context(), e, c.Flags())
		if err != nil {
			return err
		}
		err = e.confirm(c.Context(), yes,
			fmt.Sprintf("script flush empties the script cache of redis at %s for every program that uses it", where),
			"those that do not load their scripts again fail with NOSCRIPT")
		if err != nil {
			return err
		}
		return runScript(c.Context(), e, where, experiment.FlushScripts, format)
	}
	return c
}

func newScriptShow(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "show NAME",
		Short:             "Print the source of a script",
		Args:              arguments("NAME"),
		ValidArgsFunction: cobra.FixedCompletions(scripts.Names(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			source, ok := scripts.Source(args[0])
			if !ok {
				return usageError{fmt.Errorf("NAME: there is no script %q", args[0]),
					hint(didYouMean(args[0], scripts.Names()), "all scripts: rlctl list")}
			}
			_, err := io.WriteString(e.stdout, source)
			return err
		},
	}
}
