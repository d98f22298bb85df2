package cmd

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

func newCheck(e *env, conn *connFlags) *cobra.Command {
	p := experiment.Check{Cost: 1, Count: 1}
	limit, onFailure := limitFlags{}, policyFlags{}
	c := &cobra.Command{
		Use:   "check KEY",
		Short: "Ask a limiter whether a client may pass",
		Long: "check takes one request of the client KEY from a limiter and says what it answered.\n" +
			"It exits with 0 if the request was allowed, with 1 if it (with --count: any) was denied,\n" +
			"also where --on-failure answers because Redis does not.\n" +
			"With --format json each decision is one line of rlctl.check/v1, so --count N writes N lines.",
		Example: "  rlctl check client-1 --limit 100/1m\n" +
			"  rlctl check client-1 --limiter gcra --limit 10/1s --burst 20 --cost 3\n" +
			"  rlctl check client-1 --peek --format json",
		Args:              arguments("KEY"),
		ValidArgsFunction: cobra.NoFileCompletions,
		Annotations:       online(),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&p.Limiter, "limiter", "sliding-log", "which limiter to ask: rlctl list")
	limit.register(c, 100)
	flags.Var(whole{&p.Cost, 0, limiter.MaxCost}, "cost", "events that the request takes")
	flags.Var(whole{&p.Count, 1, limiter.MaxEvents}, "count", "requests, one after the other")
	flags.BoolVar(&p.Peek, "peek", false, "take nothing, only say what would be")
	onFailure.register(c)
	onFailure.registerBreaker(c)
	format := formatFlag(c)
	completeWords(c, "limiter", target.Names(e.catalogue))
	completeWords(c, "limit", nil)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		p.Key, p.Prefix = args[0], conn.prefix
		if p.Limit, err = limit.read(flags); err != nil {
			return err
		}
		if p.Conn, err = conn.service(c.Context(), e, flags); err != nil {
			return err
		}
		if p.Policy, err = onFailure.noted(e, p.Conn, flags); err != nil {
			return err
		}
		if err := p.Validate(e.catalogue); err != nil {
			return usage(err)
		}
		view := experiment.NewCheckView(e.stdout, format.format(), e.out)
		denied, err := p.Run(c.Context(), e.experiment(nil), view.Show)
		if err = errors.Join(err, view.End()); err != nil {
			return atServer(p.Conn.String(), err)
		}
		if denied {
			return errBroken
		}
		return nil
	}
	return c
}
