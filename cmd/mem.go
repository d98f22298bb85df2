package cmd

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/target"
)

func newMem(e *env, conn *connFlags) *cobra.Command {
	p := experiment.Mem{Keys: 10_000, Limits: []int64{10, 100, 1000, 10_000}}
	per, seed := window(10*time.Minute), hex(0)
	c := &cobra.Command{
		Use:   "mem [LIMITER...]",
		Short: "Measure what limiters keep in Redis, per client and per event",
		Long: "mem lets clients take their whole limit through the real limiters, all that keep something in Redis unless some\n" +
			"are named, and measures what Redis keeps for them in two ways: MEMORY USAGE of each key, and by how much the\n" +
			"server's used_memory grew. It projects to a million and a billion clients.\n" +
			"It exits with 0 if every key has a TTL and the two measures agree within 5 %; with 1 if a key has none; with 3 if\n" +
			"the measures disagree.",
		Example: "  rlctl mem\n" +
			"  rlctl mem gcra sliding-log --limits 10,100,1000\n" +
			"  rlctl mem --million --format json",
		Annotations:       online(),
		ValidArgsFunction: cobra.FixedCompletions(target.Names(e.catalogue), cobra.ShellCompDirectiveNoFileComp),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.Int64Var(&p.Keys, "keys", p.Keys, "clients a row; fewer where they would pass 512 MiB")
	flags.Var((*wholes)(&p.Limits), "limits", "events a window, ascending")
	flags.Var(&per, "window", "the window, long enough that no key ends while it is measured")
	flags.BoolVar(&p.Million, "million", false, "also fill a million clients of each small limiter and compare")
	flags.Var(&seed, "seed", "gives the client ids again (default: random)")
	flags.BoolVar(&p.Yes, "yes", false, "do not ask before an experiment on a named server")
	out := newResultFlags(c)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		p.Limiters, p.Seed, p.Prefix, p.Window = args, uint64(seed), conn.prefix, time.Duration(per)
		var given bool
		if p.Conn, given, err = conn.named(c.Context(), e, flags); err != nil {
			return err
		}
		if !given && p.Conn.Cluster {
			return usagef("--cluster: mem starts a single server; of a cluster name a node: --host, --port")
		}
		p.Private = !given
		return runMem(c.Context(), e, p, out)
	}
	return c
}

func runMem(ctx context.Context, e *env, p experiment.Mem, out *resultFlags) error {
	if err := p.Validate(e.catalogue); err != nil {
		return usage(err)
	}
	if err := out.check(); err != nil {
		return err
	}
	if err := e.confirmAway(ctx, p.Private, p.Conn, p.Yes, "up to 512 MiB are about to be written to"); err != nil {
		return err
	}
	progress := e.progress()
	result, err := p.Run(ctx, e.experiment(progress))
	progress.Clear()
	if result != nil && (err == nil || len(result.Results) > 0 || is[Signal](err)) {
		err = errors.Join(err, e.deliver(out, result.Document()))
	}
	if err != nil {
		return atServer(serverOf(p.Private, p.Conn), err)
	}
	return verdictError(result.Verdict)
}

// wholes is a flag that takes whole numbers with commas between.
type wholes []int64

func (w *wholes) Type() string { return "N,N,..." }

func (w *wholes) String() string {
	words := make([]string, len(*w))
	for i, v := range *w {
		words[i] = strconv.FormatInt(v, 10)
	}
	return strings.Join(words, ",")
}

func (w *wholes) Set(text string) error {
	var all []int64
	for word := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseInt(strings.TrimSpace(word), 10, 64)
		if err != nil {
			return errors.New("want whole numbers with commas between, such as 10,100,1000")
		}
		all = append(all, v)
	}
	*w = all
	return nil
}
