package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/policy"
	"github.com/rlctl/rlctl/pkg/serve"
	"github.com/rlctl/rlctl/pkg/target"
)

func newServe(e *env, conn *connFlags) *cobra.Command {
	p := serve.Plan{}
	limit, onFailure := limitFlags{}, policyFlags{}
	denied, age := int64(0), duration(policy.DefaultDenyMaxAge)
	c := &cobra.Command{
		Use:   "serve",
		Short: "Put a limiter behind HTTP",
		Long: "serve answers GET /check?key=KEY&cost=N: 200 allowed, 429 denied, 503 not decided, with RateLimit fields,\n" +
			"and shows /metrics and /healthz. Its address is the one line on stdout; logs go to stderr.\n" +
			"SIGINT, SIGTERM or SIGHUP stops it: it answers what is under way, for 10s at most, and exits with 0. A second one\n" +
			"cuts off what is still under way.",
		Example: "  rlctl serve --limit 100/1m\n" +
			"  rlctl serve --limiter gcra --limit 10/1s --burst 20 --on-failure open --breaker-after 5\n" +
			"  curl -i 'http://127.0.0.1:8089/check?key=client-1&cost=3'",
		Args:              arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		Annotations:       online(),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&p.Listen, "listen", "127.0.0.1:8089", "where to be reached; port 0 takes a free one")
	flags.StringVar(&p.Limiter, "limiter", "sliding-log", "which limiter to ask: rlctl list")
	limit.register(c, 100)
	onFailure.register(c)
	onFailure.registerBreaker(c)
	flags.BoolVar(&p.Shadow, "shadow", false, "decide and count, and let everything pass")
	flags.Var(whole{&denied, 0, policy.MaxDenyEntries}, "deny-cache", "refusals to answer from memory until their wait is over; 0 asks each time")
	flags.Var(&age, "deny-cache-age", "for how long at most")
	completeWords(c, "deny-cache", nil)
	completeWords(c, "deny-cache-age", nil)
	completeWords(c, "listen", nil)
	completeWords(c, "limiter", target.Names(e.catalogue))
	completeWords(c, "limit", nil)
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		p.Prefix = conn.prefix
		if p.Limit, err = limit.read(flags); err != nil {
			return err
		}
		if p.Conn, err = conn.service(c.Context(), e, flags); err != nil {
			return err
		}
		if p.Policy, err = onFailure.policy(p.Conn, flags); err != nil {
			return err
		}
		if flags.Changed("deny-cache-age") && denied == 0 {
			return usagef("--deny-cache-age: --deny-cache N is needed, too")
		}
		p.DenyEntries, p.DenyMaxAge = int(denied), time.Duration(age)
		if err := p.Validate(e.catalogue); err != nil {
			return usage(err)
		}
		p.Log = slog.New(slog.NewTextHandler(e.stderr, nil))
		p.Ready = func(url string) error { _, err := fmt.Fprintln(e.stdout, url); return err }
		ctx, hurry, stop := untilTwo(c.Context())
		defer stop()
		p.Hurry, p.Why = hurry, bare
		return served(ctx, p.Run(ctx, e.catalogue), p)
	}
	return c
}

// served is how a service ended. To be stopped by a signal is what it is for, so that is success, as supervisors take
// it, unless requests were cut off. Its log has said so, and ends with that.
func served(ctx context.Context, err error, p serve.Plan) error {
	var listen *serve.ListenError
	switch {
	case errors.As(err, &listen):
		if is[syscall.Errno](err) {
			return listenError{listen.Address, listen.Err}
		}
		return usageError{fmt.Errorf("--listen %s: %s", listen.Address, bare(listen.Err)), "take a free port: --listen 127.0.0.1:0"}
	case errors.Is(err, serve.ErrCutOff):
		return commandEnd(exitCode(context.Cause(ctx)))
	case err == nil:
		return commandEnd(0)
	}
	return atServer(p.Conn.String(), err)
}
