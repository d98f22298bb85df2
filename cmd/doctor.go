package cmd

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rlctl/rlctl/pkg/doctor"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

func newDoctor(e *env, conn *connFlags) *cobra.Command {
	p := doctor.Plan{Limiter: "sliding-log"}
	limit, rules := limitFlags{}, false
	c := &cobra.Command{
		Use:   "doctor [LIMITER]",
		Short: "Look at a server: what endangers a limiter, and what to do",
		Long: "doctor looks at a server, on a cluster at every master, and says what endangers a limiter there and what to do\n" +
			"about it. It only looks: no key is written, no script loaded, no setting changed.\n" +
			"It exits with 0 if all is fine, with 1 if there is a warning or a danger, and with 3 if there is none, but not\n" +
			"everything could be looked at. A limit and a window say how much a crash forgets of them.\n" +
			"With --acl it asks no server, and prints the least rule for a user of LIMITER, or of each, for redis-cli. --user names\n" +
			"the user of the one rule, else the LIMITER does; --prefix, --db, --cluster and a URL's database count as well.",
		Example: "  rlctl doctor\n" +
			"  rlctl doctor gcra --limit 1000/1d -u redis://10.0.0.7\n" +
			"  rlctl doctor --acl gcra",
		Args:              atMostOne("LIMITER"),
		ValidArgsFunction: cobra.FixedCompletions(withScripts(e.catalogue), cobra.ShellCompDirectiveNoFileComp),
		Annotations:       online(),
	}
	flags := c.Flags()
	flags.SortFlags = false
	limit.register(c, 100)
	flags.BoolVar(&rules, "acl", false, "print the least ACL rule for a user of LIMITER, or of each")
	completeWords(c, "limit", nil)
	format := formatFlag(c)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if rules {
			return e.rules(conn, flags, args, format)
		}
		if len(args) > 0 {
			p.Limiter = args[0]
		}
		p.Prefix = conn.prefix
		if p.Limit, err = limit.read(flags); err != nil {
			return err
		}
		if p.Conn, err = conn.service(c.Context(), e, flags); err != nil {
			return err
		}
		if err := p.Validate(e.catalogue); err != nil {
			return usage(err)
		}
		result, err := p.Run(c.Context(), e.catalogue)
		if err != nil {
			return atServer(p.Conn.String(), err)
		}
		if err := e.show(format, result.Document()); err != nil {
			return err
		}
		return map[doctor.Level]error{
			doctor.Unknown: errInconclusive, doctor.Warning: errBroken, doctor.Danger: errBroken,
		}[result.Worst]
	}
	return c
}

// rules prints the least rights of one limiter, or of each. A URL's user is not the rule's: it may well be the one who
// administers the server.
func (e *env) rules(conn *connFlags, flags *pflag.FlagSet, args []string, format *choice) error {
	p := doctor.ACLPlan{User: conn.User, Prefix: conn.prefix}
	if len(args) > 0 {
		p.Limiter = args[0]
	}
	if _, err := limiter.Key(p.Prefix, "c", p.Limiter); err != nil {
		return usage(err)
	}
	place, err := conn.database(e, flags, "RLCTL_URL", "REDIS_URL")
	if err != nil {
		return usage(err)
	}
	p.Cluster, p.DB = place.Cluster, place.DB
	result, err := p.Rules()
	if err != nil {
		return usage(err)
	}
	return e.show(format, result.Document())
}

// withScripts are the limiters that doctor knows.
func withScripts(catalogue []target.Entry) (names []string) {
	for _, name := range target.Names(catalogue) {
		if target.Rights(name) != nil {
			names = append(names, name)
		}
	}
	return names
}

// atMostOne wants the named argument or none.
func atMostOne(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) <= 1 {
			return nil
		}
		err := fmt.Errorf("%s wants one %s at most, got %s", c.CommandPath(), name, report.Count(int64(len(args)), "argument", "arguments"))
		return usageError{err, "usage: " + c.UseLine()}
	}
}
