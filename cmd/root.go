// Package cmd is the command line of rlctl: one file a command. Each command writes its flags straight into a plan
// and makes one call. Main is the whole program: another module may call it with limiters of its own.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// env is what the commands share: the streams, the environment and the catalogue.
type env struct {
	stdin     io.Reader
	stdout    *output
	stderr    io.Writer
	getenv    func(string) string
	catalogue []target.Entry
	color     choice       // --color
	out       report.Style // of stdout
	err       report.Style // of stderr
	typed     string       // the command line, without secrets
}

// Main runs one command line, without the program's name, and returns its exit code. A context that WithSignals
// made is how a command is interrupted. The entries are added to the catalogue.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, entries ...target.Entry) int {
	catalogue, err := target.Extend(target.Catalogue(), entries...)
	if err != nil {
		fmt.Fprint(stderr, explain(err, ""))
		return exitCode(err)
	}
	e := &env{
		stdin: stdin, stdout: &output{w: stdout}, stderr: stderr, getenv: os.Getenv, catalogue: catalogue,
		color: choice{value: "auto", of: report.ColorModes()},
	}
	logging.Disable() // go-redis writes to stderr what it also returns as an error
	root := newRoot(e)
	root.SetArgs(bareHelp(args))
	ran, err := root.ExecuteContextC(ctx)
	err = e.verdict(ctx, err)
	if err != nil && !is[outcome](err) && !is[commandEnd](err) {
		fmt.Fprint(stderr, explain(err, typedCommand(ran)))
	}
	return exitCode(err)
}

// verdict is the error that counts: a signal before all, then output that got lost, then what the command returned.
// Only what hold ran has its signals for itself, and a service that was stopped.
func (e *env) verdict(ctx context.Context, err error) error {
	if is[commandEnd](err) {
		return err
	}
	if cause := context.Cause(ctx); is[Signal](cause) {
		return cause
	}
	if e.stdout.err != nil {
		return writeError{"standard output", e.stdout.err}
	}
	return err
}

// newRoot writes the tree of commands out.
func newRoot(e *env) *cobra.Command {
	conn := &connFlags{}
	root := &cobra.Command{
		Use:   "rlctl COMMAND",
		Short: "Exercise and check Redis rate limiters",
		Long: "rlctl asks rate limiters that live in Redis, races them, and checks what they answered.\n" +
			"Results go to stdout, progress and notes to stderr.",
		Example:          "  rlctl race --procs 20 --limit 100\n  rlctl check client-1 --limit 100/1m\n  rlctl list",
		Version:          readBuild().Version,
		SilenceErrors:    true,
		SilenceUsage:     true,
		Args:             subcommand,
		RunE:             func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRun: func(c *cobra.Command, args []string) { e.decideStyles(); e.typed = commandLine(c, args) },
	}
	root.SetVersionTemplate("rlctl {{.Version}}\n")
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelp())
	root.SetUsageTemplate(usageTemplate)
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.Bool("help", false, "help for this command (so does a bare -h at the end)")
	e.color.register(root, flags, "color", "when to colour")
	conn.register(root, flags)
	root.AddCommand(
		newRace(e, conn),
		newProve(e, conn),
		newJudge(e),
		newReplay(e),
		newBench(e, conn),
		newMem(e, conn),
		newCheck(e, conn),
		newHold(e, conn),
		newServe(e, conn),
		newDoctor(e, conn),
		newScript(e, conn),
		newReport(e),
		newList(e),
		newVersion(e),
		newMan(),
		newGenerator(e),
		newKeeper(e),
		newWorker(e),
	)
	return root
}

// subcommand refuses a word that is no command.
func subcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return usageError{
		fmt.Errorf("%s has no command %q", c.CommandPath(), redacted(args[0])),
		hint(didYouMean(args[0], names), "all commands: "+c.CommandPath()+" --help"),
	}
}

// arguments wants exactly the named arguments.
func arguments(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		err := fmt.Errorf("%s takes no argument, got %d", c.CommandPath(), len(args))
		if len(names) > 0 {
			err = fmt.Errorf("%s wants %s, got %s", c.CommandPath(), strings.Join(names, " "),
				report.Count(int64(len(args)), "argument", "arguments"))
		}
		return usageError{err, "usage: " + c.UseLine()}
	}
}

// flagError turns what pflag says into one line that names the flag and quotes no value of a password.
func flagError(c *cobra.Command, err error) error {
	all := "all flags: " + c.CommandPath() + " --help"
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var bad *pflag.InvalidValueError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			return usageError{fmt.Errorf("unknown flag -%s", name[:1]), all}
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		return usageError{fmt.Errorf("unknown flag --%s", name), hint(didYouMean("--"+name, names), all)}
	case errors.As(err, &missing):
		return usageError{fmt.Errorf("--%s needs a value", missing.GetFlag().Name), all}
	case errors.As(err, &bad):
		return usageError{fmt.Errorf("--%s %q: %w", bad.GetFlag().Name, bad.GetValue(), reason(bad.Unwrap())), all}
	}
	return usageError{err, all}
}

// reason leaves out the name of the Go function that could not read a number.
func reason(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

func hint(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "    ")
}

// typedCommand is the command as it may stand in a hint: with its arguments as long as they are plain words.
// A command line that holds another one is not given again.
func typedCommand(c *cobra.Command) string {
	words := []string{c.CommandPath()}
	if c.ArgsLenAtDash() >= 0 {
		return words[0] + " ..."
	}
	for _, a := range c.Flags().Args() {
		if strings.IndexFunc(a, func(r rune) bool { return !plain(r) }) >= 0 || a == "" {
			a = "'...'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

func plain(r rune) bool {
	return r == '-' || r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}
