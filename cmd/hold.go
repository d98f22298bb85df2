package cmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/hold"
	"github.com/rlctl/rlctl/pkg/limiter"
)

func newHold(e *env, conn *connFlags) *cobra.Command {
	p := hold.Plan{Limit: 1}
	lease, wait, onFailure := window(30*time.Second), patience(0), policyFlags{}
	c := &cobra.Command{
		Use:   "hold KEY [flags] -- COMMAND...",
		Short: "Run a command while it holds one of a few slots",
		Long: "hold takes a slot of KEY, of which there are --limit, runs COMMAND, and gives the slot back when that has ended.\n" +
			"The slot is a lease, renewed meanwhile: if this machine dies, it comes back when the lease ends.\n" +
			"Signals go to the command, and its exit code is that of hold. Others: 75 no slot in time; 76 the lease was\n" +
			"lost, and the command was told to stop; 126, 127 the command cannot be run, or is not there.",
		Example: "  rlctl hold nightly-report -- ./report.sh\n" +
			"  rlctl hold imports --limit 3 --lease 1m --wait 10m -- ./import.sh today.csv",
		DisableFlagsInUseLine: true,
		Args:                  keyAndCommand,
		ValidArgsFunction:     cobra.NoFileCompletions,
		Annotations:           online(),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.Var(whole{&p.Limit, 0, limiter.MaxEvents}, "limit", "how many may hold KEY at once")
	flags.Var(&lease, "lease", "how long a slot stays taken after its holder has died")
	flags.Var(&wait, "wait", "how long to wait for a slot; 0 asks once")
	onFailure.register(c)
	onFailure.registerBreaker(c)
	flags.Lookup("on-failure").Usage = "if Redis does not decide: fail, run without a slot (open) or take it for no slot (closed)"
	for _, name := range []string{"limit", "lease", "wait"} {
		completeWords(c, name, nil)
	}
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		p.Key, p.Command, p.Prefix = args[0], args[1:], conn.prefix
		p.Lease, p.Wait = time.Duration(lease), time.Duration(wait)
		if p.Conn, err = conn.service(c.Context(), e, flags); err != nil {
			return err
		}
		if p.Policy, err = onFailure.noted(e, p.Conn, flags); err != nil {
			return err
		}
		if err := p.Validate(); err != nil {
			return usage(err)
		}
		p.Stdin, p.Stdout, p.Stderr = e.stdin, e.stdout.w, e.stderr
		p.Note, p.Why = func(text string) { e.note("%s", text) }, briefly
		code, err := p.Run(c.Context())
		if err != nil {
			return atServer(p.Conn.String(), err)
		}
		return commandEnd(code)
	}
	return c
}

// keyAndCommand wants KEY, then --, then a command.
func keyAndCommand(c *cobra.Command, args []string) error {
	if c.ArgsLenAtDash() == 1 && len(args) > 1 {
		return nil
	}
	return usageError{errors.New("rlctl hold wants KEY, then --, then a command"), "usage: " + c.UseLine()}
}

// commandEnd is how hold ended with a command that had begun: its exit code, which may be 0. A signal does not count
// beside it, since that was for the command. So it is with a service that a signal was to stop.
type commandEnd int

func (e commandEnd) Error() string { return fmt.Sprintf("the command ended with %d", int(e)) }
