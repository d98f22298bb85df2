package cmd

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
	"github.com/rlctl/rlctl/pkg/target"
)

// policyFlags say what becomes of a request that Redis does not decide.
type policyFlags struct {
	mode     choice
	failures int64    // 0 is no breaker
	pause    duration // of the breaker
}

// register adds the flag. It goes on with the error unless told otherwise.
func (f *policyFlags) register(c *cobra.Command) {
	f.mode.value = string(policy.Error)
	for _, m := range policy.Modes() {
		f.mode.of = append(f.mode.of, string(m))
	}
	f.mode.register(c, c.Flags(), "on-failure", "if Redis does not decide: fail, allow (open) or deny (closed)")
}

// registerBreaker adds the flags of a breaker, for commands that ask more than once.
func (f *policyFlags) registerBreaker(c *cobra.Command) {
	f.pause = duration(time.Second)
	c.Flags().Var(whole{&f.failures, 0, 1_000_000}, "breaker-after", "after so many silent calls leave Redis alone; 0 never does")
	c.Flags().Var(&f.pause, "breaker-for", "for how long")
	completeWords(c, "breaker-after", nil)
	completeWords(c, "breaker-for", nil)
}

// policy returns the policy towards a server, within its timeout, with a breaker if one was asked for.
func (f *policyFlags) policy(conn target.Conn, flags *pflag.FlagSet) (policy.Policy, error) {
	p := policy.Policy{Mode: policy.Mode(f.mode.value), Timeout: conn.Timeout}
	if f.failures > 0 {
		p.Breaker = policy.Breaker{Failures: int(f.failures), Pause: time.Duration(f.pause)}
	} else if flags.Changed("breaker-for") {
		return p, usagef("--breaker-for: --breaker-after N is needed, too")
	}
	return p, nil
}

// noted is policy with a note where the policy answers that tells why, once for as long as the reason stays the same.
func (f *policyFlags) noted(e *env, conn target.Conn, flags *pflag.FlagSet) (policy.Policy, error) {
	p, err := f.policy(conn, flags)
	if err != nil || p.Mode == policy.Error {
		return p, err // the error itself is told
	}
	var mu sync.Mutex
	told := ""
	p.Failed = func(_ context.Context, err error) {
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(err, policy.ErrNotAsked) {
			return // why is told
		}
		if why := failure(conn, err); why != told {
			e.note("--on-failure %s answered: %s", p.Mode, why)
			told = why
		}
	}
	return p, nil
}

// failure is what failed at a server, in the words of an error, and whether the request may have been counted.
func failure(conn target.Conn, err error) string {
	what, _ := explainRedis(redisError{conn.String(), err}, "")
	if limiter.Counted(err) && class(err) != limiter.ClassNoAnswer { // which says so itself
		what += "; the request may have been counted"
	}
	return what
}
