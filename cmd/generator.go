package cmd

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/experiment"
)

// newGenerator measures the load generator of bench, for whoever doubts it.
func newGenerator(e *env) *cobra.Command {
	var p experiment.Generator
	c := &cobra.Command{
		Use:    "generator",
		Short:  "Measure what share of redis-benchmark's calls a second bench can make",
		Hidden: true,
		Args:   arguments(),
	}
	c.Flags().IntVar(&p.Pairs, "pairs", 12, "rounds of each; fewer than 6 have no confidence interval")
	lasts := duration(500 * time.Millisecond)
	c.Flags().Var(&lasts, "round", "how long each lasts")
	out := newResultFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		p.Round = time.Duration(lasts)
		if err := out.check(); err != nil {
			return err
		}
		if p.Pairs < 1 || p.Pairs > 1000 {
			return usagef("--pairs: want 1 to 1000, got %d", p.Pairs)
		}
		progress := e.progress()
		result, err := p.Run(c.Context(), e.experiment(progress))
		progress.Clear()
		if result != nil && (err == nil || len(result.Results) > 0) {
			err = errors.Join(err, e.deliver(out, result.Document()))
		}
		if err != nil {
			return atServer(privateServer, err)
		}
		return verdictError(result.Verdict)
	}
	return c
}
