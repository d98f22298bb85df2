package cmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

func newRace(e *env, conn *connFlags) *cobra.Command {
	p := experiment.Race{Cost: 1}
	limit, seed, rtt, lag, explain := limitFlags{}, hex(0), duration(0), duration(0), false
	strangers := outsideFlags{}
	c := &cobra.Command{
		Use:   "race [LIMITER...]",
		Short: "Let processes race for one key and see who lets too many in",
		Long: "race starts real processes that all ask one limiter for one key at once, each limiter in its turn: all of the\n" +
			"catalogue, unless some are named. It replays what an atomic limiter answered against its rule, and compares what\n" +
			"a racy one admitted with what the rule has room for.\n" +
			"It exits with 0 if all came out as it must: atomic limiters held, racy ones were caught; with 1 if one broke that\n" +
			"must not; with 3 if the run does not tell.\n" +
			"With --explain it shows why instead: of each limiter every order of two clients' commands when one slot is left,\n" +
			"run on a private server whose clock stands still, and the smallest order that lets both in, step by step.",
		Example: "  rlctl race --procs 20 --limit 100\n" +
			"  rlctl race naive-counter fixed-window --procs 50 --rounds 5\n" +
			"  rlctl race gcra --limit 1000/1s --burst 100 --format json\n" +
			"  rlctl race naive-counter --explain",
		Annotations:       online(),
		ValidArgsFunction: cobra.FixedCompletions(target.Names(e.catalogue), cobra.ShellCompDirectiveNoFileComp),
	}
	flags := c.Flags()
	flags.SortFlags = false
	limit.register(c, 100)
	flags.Var(whole{&p.Cost, 0, limiter.MaxCost}, "cost", "events that each request takes")
	flags.IntVar(&p.Procs, "procs", 20, "processes")
	flags.IntVar(&p.Clients, "clients", 1, "concurrent callers in each process")
	flags.Int64Var(&p.Attempts, "attempts", 0, "requests a caller (default: twice the limit, and together 20 times the limit)")
	flags.IntVar(&p.Rounds, "rounds", 1, "rounds, each on a fresh key")
	flags.Var(&seed, "seed", "gives the request ids again, not the interleaving (default: random)")
	flags.BoolVar(&p.GoroutinesOnly, "goroutines-only", false, "all callers in one process")
	flags.Var(&rtt, "rtt", "lay a round trip of this time between the processes and the private server")
	flags.StringVar(&p.ID, "id", "", "what the clients' ids begin with; the run adds what makes them its own")
	flags.BoolVar(&p.Failover, "failover", false, "kill the key's master in mid-race; its replica takes over (private: sentinels, or --cluster)")
	flags.Var(&lag, "lag", "before it dies, its replica hears nothing for this time")
	strangers.register(e, c)
	flags.BoolVar(&p.Mix, "mix", false, "all limiters at once on one key, the processes taking them in turn")
	flags.BoolVar(&explain, "explain", false, "show the smallest order of commands that goes over, step by step")
	flags.BoolVar(&p.Yes, "yes", false, "do not ask before an experiment on a named server, or a service elsewhere")
	out := newResultFlags(c)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		p.Limiters, p.Seed, p.Prefix, p.RTT, p.Lag = args, uint64(seed), conn.prefix, time.Duration(rtt), time.Duration(lag)
		if p.Limit, err = limit.read(flags); err != nil {
			return err
		}
		if err := strangers.admit(e, c, args); err != nil {
			return err
		}
		if explain {
			if err := excludes(flags, "explain", raceOnly...); err != nil {
				return err
			}
			return runProve(c.Context(), e, experiment.Explanation(args, p.Limit, p.Prefix), out, "")
		}
		var given bool
		if p.Conn, given, err = conn.named(c.Context(), e, flags); err != nil {
			return err
		}
		p.Private = !given
		if flags.Changed("attempts") && p.Attempts == 0 {
			return usagef("--attempts: want 1 or more")
		}
		if err := notEmpty(flags, "id"); err != nil {
			return err
		}
		return runRace(c.Context(), e, p, out)
	}
	return c
}

func runRace(ctx context.Context, e *env, p experiment.Race, out *resultFlags) error {
	if err := p.Validate(e.catalogue); err != nil {
		return usage(err)
	}
	if err := out.check(); err != nil {
		return err
	}
	act := fmt.Sprintf("%d processes are about to load", p.Procs)
	if err := e.confirmAway(ctx, p.Private, p.Conn, p.Yes, act); err != nil {
		return err
	}
	if err := e.confirmServices(ctx, p.Limiters, p.Yes, act); err != nil {
		return err
	}
	progress := e.progress()
	result, err := p.Run(ctx, e.experiment(progress))
	progress.Clear()
	if result != nil && (err == nil || len(result.Results) > 0 || result.Partial && is[Signal](err)) {
		err = errors.Join(err, e.deliver(out, result.Document()))
	}
	if err != nil {
		return atServer(serverOf(p.Private, p.Conn), err)
	}
	return verdictError(result.Verdict)
}

// raceOnly are the flags that mean nothing to an explanation: it has two clients, and a server of its own.
var raceOnly = append([]string{"cost", "procs", "clients", "attempts", "rounds", "seed", "goroutines-only", "mix", "rtt", "id", "failover",
	"lag", "yes"}, connection...)

// excludes returns an error if one of the other flags was given beside the first.
func excludes(flags *pflag.FlagSet, first string, others ...string) error {
	for _, name := range others {
		if flags.Changed(name) {
			return usagef("--%s: excluded by --%s", name, first)
		}
	}
	return nil
}

// notEmpty returns an error if a flag was given without a value, which is no way to leave it away: no client has an empty
// id.
func notEmpty(flags *pflag.FlagSet, name string) error {
	if f := flags.Lookup(name); f.Changed && f.Value.String() == "" {
		return usagef("--%s: want at least one character", name)
	}
	return nil
}

// serverOf says which server an experiment talks to.
func serverOf(private bool, conn target.Conn) string {
	if private {
		return privateServer
	}
	return conn.String()
}

// experiment is what experiments find around them.
func (e *env) experiment(progress *report.Progress) experiment.Env {
	return experiment.Env{
		Catalogue: e.catalogue, Provenance: e.provenance(), Self: self, Progress: progress.Update,
		Note: func(text string) { progress.Clear(); e.note("%s", text) },
	}
}

func verdictError(v replay.Verdict) error {
	switch v {
	case replay.Held:
		return nil
	case replay.Broken:
		return errBroken
	}
	return errInconclusive
}

// hex is a number that is written in hexadecimal, as results show it.
type hex uint64

func (h *hex) Type() string { return "HEX" }

func (h *hex) String() string {
	if *h == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(*h), 16)
}

func (h *hex) Set(text string) error {
	v, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	if err != nil || v == 0 {
		return errors.New("want 1 to 16 hexadecimal digits, not 0")
	}
	*h = hex(v)
	return nil
}
