package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// output remembers the first write that failed, so that no command can lose a result in silence.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// choice is a flag that takes one of a few words.
type choice struct {
	value string
	of    []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.of, "|") }

func (c *choice) Set(word string) error {
	for _, w := range c.of {
		if w == word {
			c.value = w
			return nil
		}
	}
	return fmt.Errorf("want one of %s", strings.Join(c.of, ", "))
}

// register adds the flag with the completion of its words.
func (c *choice) register(cmd *cobra.Command, flags *pflag.FlagSet, name, usage string) {
	flags.Var(c, name, usage)
	completeWords(cmd, name, c.of)
}

// formatFlag adds --format to a command, with what it has beyond the usual forms.
func formatFlag(c *cobra.Command, further ...report.Format) *choice {
	f := &choice{value: string(report.TableFormat), of: report.Formats()}
	for _, format := range further {
		f.of = append(f.of, string(format))
	}
	f.register(c, c.Flags(), "format", "how to show the result")
	return f
}

func (c *choice) format() report.Format { return report.Format(c.value) }

func completeWords(c *cobra.Command, flag string, words []string) {
	err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag was added a line above
	}
}

// decideStyles decides for each stream what it can show.
func (e *env) decideStyles() { e.out, e.err = e.style(e.stdout.w), e.style(e.stderr) }

func (e *env) style(stream any) report.Style {
	width := columns(stream)
	return report.Style{Color: report.Color(e.color.value, e.getenv, width > 0), Width: width, ASCII: asciiOnly(e.getenv)}
}

// asciiOnly tells whether the locale is one without Unicode. Where none is set, as in most containers, it has it.
func asciiOnly(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToUpper(getenv(name)); locale != "" {
			return !strings.Contains(locale, "UTF-8") && !strings.Contains(locale, "UTF8")
		}
	}
	return false
}

// columns is the width of a terminal, 0 if the stream is none.
func columns(stream any) int {
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// show writes a result to stdout.
func (e *env) show(f *choice, d report.Document) error { return d.Write(e.stdout, f.format(), e.out) }

// note writes one line to stderr.
func (e *env) note(format string, args ...any) {
	fmt.Fprint(e.stderr, e.err.Line(report.Text("rlctl: "+format, args...)))
}

// progress is the progress line of a run, nil where stderr is no terminal.
func (e *env) progress() *report.Progress {
	if e.err.Width == 0 {
		return nil
	}
	return report.NewProgress(e.stderr, e.err.Width)
}

// confirm says what an act does to others, and asks. --yes answers; without a terminal to ask on it is a usage error.
func (e *env) confirm(ctx context.Context, yes bool, warning ...string) error {
	if yes {
		return nil
	}
	if columns(e.stdin) == 0 || columns(e.stderr) == 0 {
		return usageError{errors.New("--yes is needed where there is no terminal to ask on"), strings.Join(warning, "; ")}
	}
	for _, line := range warning {
		e.note("%s", line)
	}
	fmt.Fprint(e.stderr, "type yes to go on: ")
	word, err := readLine(ctx, e.stdin)
	if err != nil {
		return err
	}
	if strings.TrimSpace(word) != "yes" {
		e.note("not done")
		return errBroken
	}
	return nil
}

// confirmAway asks before an act on a server that is not on this machine.
func (e *env) confirmAway(ctx context.Context, private bool, conn target.Conn, yes bool, act string) error {
	if private || conn.Loopback() {
		return nil
	}
	return e.confirm(ctx, yes, fmt.Sprintf("%s %s, which is not this machine", act, conn))
}

// untilNewline reads byte by byte, since what is read too far cannot be put back into a pipe.
func untilNewline(from io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); ; {
		n, err := from.Read(one)
		line = append(line, one[:n]...)
		switch {
		case n > 0 && one[0] == '\n', errors.Is(err, io.EOF):
			return string(line), nil
		case err != nil:
			return string(line), err
		}
	}
}
