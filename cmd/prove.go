package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/target"
)

func newProve(e *env, conn *connFlags) *cobra.Command {
	p := experiment.Prove{Skew: true, Release: true, Starts: []explore.Start{explore.Empty, explore.OneLeft}}
	st := experiment.Stress{}
	kept, proof, strangers, yes, lag := "", "", outsideFlags{}, false, duration(0)
	limit, exploring, stressing, lasts, seed := limitFlags{}, true, false, duration(20*time.Second), hex(0)
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
	flags.BoolVar(&stressing, "stress", false, "put them under random load and faults instead, and judge what was recorded")
	flags.IntVar(&p.Clients, "clients", 3, "clients; under stress, of each process (then 2)")
	flags.IntVar(&p.Calls, "calls", 1, "requests of cost 1 that each client makes")
	flags.BoolVar(&p.Crash, "crash", true, "let at most one client die, after any command")
	limit.register(c, 10)
	strangers.register(e, c)
	flags.BoolVar(&p.Explain, "explain", false, "show one order of each limiter step by step")
	flags.StringVar(&p.Schedule, "schedule", "", "run the one schedule with this id again")
	flags.Var(&lasts, "duration", "under stress: of each limiter")
	flags.IntVar(&st.Procs, "procs", 4, "under stress: processes")
	flags.IntVar(&st.Keys, "keys", 3, "under stress: keys that are asked")
	flags.StringSliceVar(&st.Faults, "fault", nil, "under stress: faults that happen (default: "+strings.Join(experiment.FaultNames(false), ",")+
		"; with --cluster: "+strings.Join(experiment.FaultNames(true), ",")+")")
	flags.StringVar(&st.ID, "id", "", "under stress: what the names of the keys begin with")
	flags.Var(&lag, "lag", "under stress, with --cluster: before a master dies, its replica hears nothing for this time")
	flags.Var(&seed, "seed", "under stress: of costs, keys, pauses and faults (default: random)")
	flags.StringVar(&proof, "certificate", "", "under stress: also write the proof that a limit was broken to `FILE`")
	flags.StringVar(&kept, "history", "", "under stress: also write every call to `FILE`, as JSON lines")
	flags.BoolVar(&yes, "yes", false, "under stress: do not ask before a service elsewhere is loaded")
	out := newResultFlags(c)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if err := strangers.admit(e, c, append(slices.Clone(args), scheduledName(p.Schedule)...)); err != nil {
			return err
		}
		if stressing {
			if err := excludes(flags, "stress", append(connectionBut("timeout", "cluster"), "explore", "calls", "crash", "explain", "schedule")...); err != nil {
				return err
			}
			st.Limiters, st.Prefix, st.Seed, st.Duration, st.Clients = args, conn.prefix, uint64(seed), time.Duration(lasts), p.Clients
			st.Cluster, st.Lag, st.Timeout = conn.Cluster, time.Duration(lag), time.Duration(conn.timeout)
			if !flags.Changed("timeout") {
				st.Timeout = stressTimeout
			}
			if !flags.Changed("clients") {
				st.Clients = stressClients
			}
			if !flags.Changed("limit") {
				limit.limit.events = stressLimit
				if !flags.Changed("window") {
					limit.window = window(stressWindow)
				}
			}
			if st.Limit, err = limit.read(flags); err != nil {
				return err
			}
			if err := notEmpty(flags, "id"); err != nil {
				return err
			}
			act := fmt.Sprintf("%d callers are about to load", st.Procs*st.Clients)
			if err := e.confirmServices(c.Context(), args, yes, act); err != nil {
				return err
			}
			return runStress(c.Context(), e, st, out, kept, proof)
		}
		if err := excludes(flags, "explore", "duration", "procs", "keys", "id", "lag", "fault", "seed", "history", "certificate", "yes"); err != nil {
			return err
		}
		if err := excludes(flags, "explore", connection...); err != nil {
			return err
		}
		p.Limiters, p.Prefix = args, conn.prefix
		switch {
		case !exploring:
			return usageError{errors.New("--explore=false leaves nothing to do"), "under load and faults instead: rlctl prove --stress"}
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
		return runProve(c.Context(), e, p, out, "")
	}
	return c
}

// What a stress run is unless flags say other. A call is given up before the server that was stopped goes on, and the
// window is so short, and the limit so small, that even a busy machine presses it and many windows pass.
const (
	stressClients = 2
	stressLimit   = 20
	stressWindow  = 200 * time.Millisecond
	stressTimeout = 200 * time.Millisecond
)

// runStress runs it and keeps its history, if a file is named for it.
func runStress(ctx context.Context, e *env, p experiment.Stress, out *resultFlags, kept, proof string) error {
	if kept == "" {
		return runProve(ctx, e, p, out, proof)
	}
	if err := writable(kept); err != nil {
		return writeError{kept, err}
	}
	var ran error // what broke is what one wants to keep
	err := save(kept, func(w io.Writer) error {
		file := &patientFile{w: w}
		p.History = file
		ran = runProve(ctx, e, p, out, proof)
		return file.err
	})
	return cmp.Or(ran, err)
}

// patientFile keeps an error to itself, so that an experiment whose history cannot be kept goes on.
type patientFile struct {
	w   io.Writer
	err error // the first
}

func (f *patientFile) Write(b []byte) (int, error) {
	if f.err == nil {
		_, f.err = f.w.Write(b)
	}
	return len(b), nil
}

// connectionBut are the flags of the connection without some.
func connectionBut(names ...string) []string {
	return slices.DeleteFunc(slices.Clone(connection), func(f string) bool { return slices.Contains(names, f) })
}

// prover is an experiment that comes to a ProveResult.
type prover interface {
	Validate(catalogue []target.Entry) error
	Run(ctx context.Context, env experiment.Env) (*experiment.ProveResult, error)
}

func runProve(ctx context.Context, e *env, p prover, out *resultFlags, proof string) error {
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
		err = errors.Join(err, e.deliver(out, result.Document()), saveCertificate(proof, result.Certificate()))
	}
	if err != nil {
		return atServer(privateServer, err)
	}
	return verdictError(result.Verdict)
}
