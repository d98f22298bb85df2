package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

func newBench(e *env, conn *connFlags) *cobra.Command {
	p := experiment.Bench{Cost: 1}
	limit, seed, lasts, warmup := limitFlags{}, hex(0), duration(0), duration(0)
	hgrm, strangers := "", outsideFlags{}
	c := &cobra.Command{
		Use:   "bench [LIMITER...]",
		Short: "Measure what a decision costs the server, the client and others",
		Long: "bench puts each limiter under the same load, each in its turn and in several rounds, and beside them calls that\n" +
			"limit nothing: the floors. It tells requests that are allowed from requests that are denied, what one costs the\n" +
			"server, how long it takes, and whether the server or the client was the limit.",
		Example: "  rlctl bench\n" +
			"  rlctl bench gcra sliding-log --clients 16 --duration 10s\n" +
			"  rlctl bench gcra --rate 4000 --path denied",
		Annotations:       online(),
		ValidArgsFunction: cobra.FixedCompletions(target.Names(e.catalogue), cobra.ShellCompDirectiveNoFileComp),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.Var(&lasts, "duration", "measured time of each row, over all rounds (default: 5s, less for the whole catalogue)")
	flags.Var(&warmup, "warmup", "of each row in each round, discarded (default: a fifth of what is measured)")
	flags.IntVar(&p.Rounds, "rounds", 6, "rounds; fewer than 6 have no confidence interval")
	flags.StringSliceVar(&p.Paths, "path", nil, "what is answered: allowed, denied, mixed (default: allowed,denied)")
	flags.IntVar(&p.Clients, "clients", 64, "concurrent callers in each process")
	flags.IntVar(&p.Procs, "procs", 1, "processes")
	flags.Float64Var(&p.Rate, "rate", 0, "requests a second of all callers; 0: each asks again when it has its answer")
	flags.IntVar(&p.Pipeline, "pipeline", 1, "requests a round trip")
	flags.BoolVar(&p.AutoPipeline, "autopipeline", false, "let the client library gather the requests of all callers")
	flags.IntVar(&p.Keys, "keys", 100, "keys that are asked")
	flags.Float64Var(&p.Zipf, "zipf", 0, "exponent above 1 by which some keys are asked more often; 0 asks all alike")
	limit.register(c, 100)
	limit.window = window(benchWindow)
	flags.Lookup("window").DefValue = limit.window.String()
	flags.Var(whole{&p.Cost, 0, limiter.MaxCost}, "cost", "events that each request takes")
	strangers.register(e, c)
	flags.Var(&seed, "seed", "is in the keys (default: random)")
	flags.BoolVar(&p.Yes, "yes", false, "do not ask before an experiment on a named server, or a service elsewhere")
	flags.StringArrayVar(&p.Asserts, "assert", nil, "what must hold, such as 'p99_us<5000' or 'gcra/denied:script_us<6'; else exit code 1")
	flags.StringVar(&hgrm, "hgrm", "", "also write each row's latencies to `STEM`-LIMITER-PATH-response.hgrm, for HdrHistogram's plotters")
	out := newResultFlags(c, report.BenchfmtFormat)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		p.Limiters, p.Seed, p.Prefix = args, uint64(seed), conn.prefix
		p.Duration, p.Warmup = time.Duration(lasts), time.Duration(warmup)
		if p.Limit, err = limit.read(flags); err != nil {
			return err
		}
		if err := strangers.admit(e, c, args); err != nil {
			return err
		}
		var given bool
		if p.Conn, given, err = conn.named(c.Context(), e, flags); err != nil {
			return err
		}
		p.Private = !given
		if !flags.Changed("timeout") {
			p.Conn.Timeout = benchTimeout
		}
		return runBench(c.Context(), e, p, out, hgrm)
	}
	return c
}

// benchWindow is so long that next to nothing is refilled, and no window ends, while a row is measured.
const benchWindow = 24 * time.Hour

// benchTimeout leaves a slow answer a latency, which a shorter one would make an error.
const benchTimeout = 10 * time.Second

func runBench(ctx context.Context, e *env, p experiment.Bench, out *resultFlags, hgrm string) error {
	if err := p.Validate(e.catalogue); err != nil {
		return usage(err)
	}
	if err := out.check(); err != nil {
		return err
	}
	if hgrm != "" {
		if err := writable(hgrm + ".hgrm"); err != nil {
			return writeError{hgrm + ".hgrm", err}
		}
	}
	act := fmt.Sprintf("%d callers are about to load", p.Procs*p.Clients)
	if err := e.confirmAway(ctx, p.Private, p.Conn, p.Yes, act); err != nil {
		return err
	}
	if err := e.confirmServices(ctx, p.Limiters, p.Yes, act); err != nil {
		return err
	}
	progress := e.progress()
	result, err := p.Run(ctx, e.experiment(progress))
	progress.Clear()
	if result != nil && (err == nil || len(result.Results) > 0 || is[Signal](err)) {
		err = errors.Join(err, e.deliver(out, result.Document()), saveHistograms(result, hgrm))
	}
	if err != nil {
		return atServer(serverOf(p.Private, p.Conn), err)
	}
	return verdictError(result.Verdict())
}

// saveHistograms writes one file a row and kind of latency; none without a stem.
func saveHistograms(r *experiment.BenchResult, stem string) error {
	if stem == "" {
		return nil
	}
	all, err := r.Histograms()
	if err != nil {
		return err
	}
	for _, h := range all {
		if err := save(stem+"-"+h.Name+".hgrm", h.Write); err != nil {
			return err
		}
	}
	return nil
}
