package cmd

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/outside"
	"github.com/rlctl/rlctl/pkg/target"
)

// outsideFlags say how limiters are taken that are not in the catalogue.
type outsideFlags struct {
	terms   outside.Terms
	headers []string // as typed
}

// outsideHelp ends the help of every command that takes limiters from outside.
const outsideHelp = "\n\nA LIMITER can also come from outside: lua:FILE is any Lua script (docs/scripts.md), exec:COMMAND a worker in any\n" +
	"language (docs/worker.md), http://... a service (docs/http.md). Each claims to be atomic under the rule that --as names,\nand is judged by it."

func (o *outsideFlags) register(e *env, c *cobra.Command) {
	c.Long += outsideHelp
	c.Flags().StringVar(&o.terms.As, "as", "sliding-log", "`LIMITER` whose rule one from outside claims to keep")
	completeWords(c, "as", rules(e.catalogue))
	c.Flags().StringArrayVar(&o.headers, "header", nil,
		"`NAME:VALUE` of each request to an http:// or https:// limiter, or @FILE of such; {key} is the client, {cost} the events")
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
	var err error
	if o.terms.Headers, err = e.readHeaders(c.Context(), o.headers); err != nil {
		return err
	}
	for _, name := range names {
		if !outside.Is(name) {
			continue
		}
		if _, err := target.FindRule(e.catalogue[:before], o.terms.As); err != nil {
			return usage(fmt.Errorf("--as: %w", err))
		}
		entry, err := target.Open(e.catalogue[:before], name, o.terms)
		if err != nil {
			return usage(err)
		}
		e.catalogue = append(e.catalogue, entry)
	}
	if len(e.catalogue) == before && c.Flags().Changed("as") {
		return usagef("--as: no limiter from outside is named, such as lua:FILE or exec:COMMAND")
	}
	service := func(entry target.Entry) bool { return entry.Service }
	if c.Flags().Changed("header") && !slices.ContainsFunc(e.catalogue[before:], service) {
		return usagef("--header: no service is named, such as http://HOST:PORT/?client={key}")
	}
	return nil
}

// readHeaders takes headers as they are, and those in files.
func (e *env) readHeaders(ctx context.Context, typed []string) (headers []string, err error) {
	for _, text := range typed {
		name, isFile := strings.CutPrefix(text, "@")
		if !isFile {
			if secretive(text) {
				e.note("warning: ps shows the secret in --header; safer: --header @FILE")
			}
			headers = append(headers, text)
			continue
		}
		lines, err := within(ctx, func() ([]byte, error) { return os.ReadFile(name) })
		if err != nil {
			return nil, usagef("--header: cannot read %s (%s)", name, bare(err))
		}
		for line := range strings.Lines(string(lines)) {
			if line = strings.TrimRight(line, "\r\n"); line != "" {
				headers = append(headers, line)
			}
		}
	}
	return headers, nil
}

// secretive tells whether a header is of those that hold secrets.
func secretive(text string) bool {
	name, value, _ := strings.Cut(strings.ToLower(text), ":")
	return strings.TrimSpace(value) != "{key}" &&
		slices.ContainsFunc([]string{"auth", "cookie", "key", "token", "secret"}, func(w string) bool { return strings.Contains(name, w) })
}

// confirmServices asks before an act on services that are not on this machine.
func (e *env) confirmServices(ctx context.Context, names []string, yes bool, act string) error {
	for _, name := range names {
		host := outside.HostOf(name)
		if host == "" || (target.Conn{Host: host}).Loopback() {
			continue
		}
		if err := e.confirm(ctx, yes, fmt.Sprintf("%s %s, which is not this machine", act, host)); err != nil {
			return err
		}
	}
	return nil
}

// scheduledName is the limiter in a schedule's id.
func scheduledName(id string) []string {
	if name := experiment.ScheduledLimiter(id); name != "" {
		return []string{name}
	}
	return nil
}
