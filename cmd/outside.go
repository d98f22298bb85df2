package cmd

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/outside"
	"github.com/rlctl/rlctl/pkg/target"
)

// outsideFlags say how limiters are taken that are not in the catalogue.
type outsideFlags struct{ terms outside.Terms }

func (o *outsideFlags) register(e *env, c *cobra.Command) {
	c.Flags().StringVar(&o.terms.As, "as", "sliding-log", "`LIMITER` whose rule one from outside claims to keep")
	completeWords(c, "as", rules(e.catalogue))
}

// rules are the limiters with a rule of their own.
func rules(catalogue []target.Entry) (names []string) {
	for _, entry := range catalogue {
		if entry.Own() {
			names = append(names, entry.Name)
		}
	}
	return names
}

// admit adds to the catalogue those names that are from outside, on the terms that the flags set.
func (o *outsideFlags) admit(e *env, c *cobra.Command, names []string) error {
	before := len(e.catalogue)
	for _, name := range names {
		if !outside.Is(name) {
			continue
		}
		entry, err := target.Open(e.catalogue[:before], name, o.terms)
		if err != nil {
			return usage(o.flagOf(err))
		}
		e.catalogue = append(e.catalogue, entry)
	}
	if len(e.catalogue) == before && c.Flags().Changed("as") {
		return usagef("--as: no limiter from outside is named, such as exec:COMMAND")
	}
	return nil
}

// flagOf names the flag that an unknown rule came with.
func (o *outsideFlags) flagOf(err error) error {
	var unknown *target.ErrUnknownLimiter
	if errors.As(err, &unknown) || strings.HasPrefix(err.Error(), o.terms.As+" ") {
		return asError{err}
	}
	return err
}

// asError is a rule that --as cannot mean.
type asError struct{ err error }

func (a asError) Error() string { return "--as: " + a.err.Error() }
func (a asError) Unwrap() error { return a.err }

// scheduledName is the limiter in a schedule's id.
func scheduledName(id string) []string {
	if name := experiment.ScheduledLimiter(id); name != "" {
		return []string{name}
	}
	return nil
}
