package cmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/target"
)

func newProve(e *env, conn *connFlags) *cobra.Command {
	p := experiment.Prove{Skew: true, Starts: []explore.Start{explore.Empty, explore.OneLeft}}
	limit, exploring := limitFlags{}, true
	c := &cobra.Command{
		Use:   "prove [LIMITER...]",
		Short: "Run every order of a few clients' commands, and every death",
		Long: "prove runs, on a private server whose clock stands still, every order in which a few clients can send their\n" +
			"commands, and lets at most one of them die after any command: all limiters of the catalogue, unless some are named.\n" +
			"Each is explored from two starts: an empty key whose limit is one less than the clients want, and a key of the\n" +
			"given limit with one event left. It says what was covered and shows the smallest order that breaks a rule.\n" +
			"It exits with 0 if all came out as it must, with 1 if a limiter broke that must not, with 3 if that is not known.",
		Example: "  rlctl prove\n" +
			"  rlctl prove naive-counter --explain\n" +
			"  rlctl prove gcra token-bucket --clients 2 --calls 2\n" +
			"  rlctl prove --schedule naive-expire:k3c1:2/1m0s:empty:aBC",
		ValidArgsFunction: cobra.FixedCompletions(target.Names(e.catalogue), cobra.ShellCompDirectiveNoFileComp),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&exploring, "explore", true, "explore every order")
	flags.IntVar(&p.Clients, "clients", 3, "clients")
	flags.IntVar(&p.Calls, "calls", 1, "requests of cost 1 that each client makes")
	flags.BoolVar(&p.Crash, "crash", true, "let at most one client die, after any command")
	limit.register(c, 10)
	flags.BoolVar(&p.Explain, "explain", false, "show one order of each limiter step by step")
	flags.StringVar(&p.Schedule, "schedule", "", "run the one schedule with this id again")
	out := newResultFlags(c)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if err := excludes(flags, "explore", connection...); err != nil {
			return err
		}
		p.Limiters, p.Prefix = args, conn.prefix
		switch {
		case !exploring:
			return usagef("--explore: there is no other way to prove anything yet")
		case p.Schedule != "" && len(args) > 0:
			return usagef("--schedule: names its limiter itself")
		case p.Schedule != "":
			err = excludes(flags, "schedule", "clients", "calls", "crash", "limit", "window", "burst")
		}
		if err == nil {
			p.Limit, err = limit.read(flags)
		}
		if err != nil {
			return err
		}
		return runProve(c.Context(), e, p, out)
	}
	return c
}

func runProve(ctx context.Context, e *env, p experiment.Prove, out *resultFlags) error {
	if err := p.Validate(e.catalogue); err != nil {
		return usage(err)
	}
	if err := out.check(); err != nil {
		return err
	}
	progress := e.progress()
	result, err := p.Run(ctx, e.experiment(progress))
	progress.Clear()
	if result != nil && (err == nil || len(result.Results) > 0 || is[Signal](err)) {
		err = errors.Join(err, e.deliver(out, result.Document()))
	}
	if err != nil {
		return atServer(privateServer, err)
	}
	return verdictError(result.Verdict)
}
