package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/scripts"
)

// scriptResult is what a script command found or did, as JSON shows it.
type scriptResult struct {
	Schema   string         `json:"schema"`
	Action   string         `json:"action"`   // load, flush, list or verify
	Redis    string         `json:"redis"`    // where the server is, without secrets
	Complete bool           `json:"complete"` // every node has every script
	Results  []scriptRecord `json:"results"`
}

// scriptRecord is one script on one node.
type scriptRecord struct {
	Script  string `json:"script"`
	SHA1    string `json:"sha1"`
	Node    string `json:"node"`
	Present bool   `json:"present"` // the node has it after the command
}

func newScript(e *env, conn *connFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "script COMMAND",
		Short: "Load, flush, list, show or verify the Lua scripts on a server",
		Args:  subcommand,
		RunE: func(c *cobra.Command, _ []string) error {
			return usageError{fmt.Errorf("%s wants a command", c.CommandPath()), "one of: load, flush, list, show, verify"}
		},
	}
	c.AddCommand(
		newScriptRun(e, conn, scriptLoad, "load", "Load every script and say its SHA1 (on a cluster: into every node)"),
		newScriptFlush(e, conn),
		newScriptRun(e, conn, present, "list", "List the scripts, and whether the server has them"),
		newScriptShow(e),
		newScriptRun(e, conn, present, "verify", "Compare what every node has; exit 1 when something is missing"),
	)
	return c
}

// scriptAct does the work of one script command on every node.
type scriptAct func(ctx context.Context, nodes []target.Node) ([]scriptRecord, error)

func newScriptRun(e *env, conn *connFlags, act scriptAct, name, short string) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short, Args: arguments(), Annotations: online()}
	format := formatFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		where, err := conn.service(c.Context(), e, c.Flags())
		if err != nil {
			return err
		}
		return runScript(c.Context(), e, where, act, name, format)
	}
	return c
}

// runScript does what the command names and shows it. Only verify takes a missing script for a failure.
func runScript(ctx context.Context, e *env, where target.Conn, act scriptAct, name string, format *choice) error {
	rdb, closed, err := open(ctx, where)
	if err != nil {
		return err
	}
	defer closed()
	nodes, err := target.Nodes(ctx, rdb)
	var records []scriptRecord
	if err == nil {
		records, err = act(ctx, nodes)
	}
	if err != nil {
		return atServer(where, uncounted(limiter.Classify("script "+name, err, false)))
	}
	d, complete := scriptDocument(name, where.String(), records)
	if err := e.show(format, d); err != nil {
		return err
	}
	if name == "verify" && !complete {
		return errBroken
	}
	return nil
}

// uncounted is the error of a command that no limiter counts, whatever became of it.
func uncounted(err error) error {
	if e := new(limiter.Error); errors.As(err, &e) {
		e.Unknown = false
	}
	return err
}

func scriptLoad(ctx context.Context, nodes []target.Node) ([]scriptRecord, error) {
	var records []scriptRecord
	for _, node := range nodes {
		for _, name := range scripts.Names() {
			source, _ := scripts.Source(name)
			sha, err := node.ScriptLoad(ctx, source).Result()
			if err != nil {
				return nil, err
			}
			records = append(records, scriptRecord{name, sha, node.Addr, true})
		}
	}
	return records, nil
}

// present asks each node which of the scripts it has.
func present(ctx context.Context, nodes []target.Node) ([]scriptRecord, error) {
	var records []scriptRecord
	for _, node := range nodes {
		mine := embedded(node.Addr)
		shas := make([]string, len(mine))
		for i, r := range mine {
			shas[i] = r.SHA1
		}
		has, err := node.ScriptExists(ctx, shas...).Result()
		if err != nil {
			return nil, err
		}
		for i := range mine {
			mine[i].Present = i < len(has) && has[i]
		}
		records = append(records, mine...)
	}
	return records, nil
}

// embedded lists the scripts of this binary as absent from a node.
func embedded(node string) []scriptRecord {
	var records []scriptRecord
	for _, name := range scripts.Names() {
		source, _ := scripts.Source(name)
		records = append(records, scriptRecord{name, scripts.SHA1(source), node, false})
	}
	return records
}

// scriptDocument shows the records, and the node of each where there are several.
func scriptDocument(action, redis string, records []scriptRecord) (d report.Document, complete bool) {
	missing := int64(0)
	several := slices.ContainsFunc(records, func(r scriptRecord) bool { return r.Node != records[0].Node })
	d.Table.Columns = []report.Column{{Title: "SCRIPT"}, {Title: "SHA1"}, {Title: "ON SERVER"}}
	if several {
		d.Table.Columns = []report.Column{{Title: "SCRIPT"}, {Title: "SHA1"}, {Title: "HAS"}, {Title: "NODE"}}
	}
	for _, r := range records {
		d.Records = append(d.Records, r)
		has := report.Cell{Text: "yes", Tone: report.Good}
		if !r.Present {
			has = report.Cell{Text: "no", Tone: report.Bad}
			missing++
		}
		row := []report.Cell{report.Plain(r.Script), report.Plain(r.SHA1), has, report.Plain(r.Node)}
		d.Table.Add(row[:len(d.Table.Columns)]...)
	}
	d.Data = scriptResult{"rlctl.script/v1", action, redis, missing == 0, records}
	d.Head = []report.Line{report.Text("redis at %s", redis)}
	if missing > 0 {
		d.Foot = []report.Line{report.Text("%s missing    next: rlctl script load", report.Count(missing, "script is", "scripts are"))}
	}
	if action == "flush" {
		d.Head = []report.Line{report.Text("flushed the script cache of redis at %s", redis)}
		d.Table, d.Foot = report.Table{}, nil
	}
	return d, missing == 0
}

func newScriptFlush(e *env, conn *connFlags) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:         "flush",
		Short:       "Empty the server's script cache, for everybody who uses it",
		Args:        arguments(),
		Annotations: online(),
	}
	c.Flags().BoolVar(&yes, "yes", false, "do it without asking")
	format := formatFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		where, err := conn.service(c.Context(), e, c.Flags())
		if err != nil {
			return err
		}
		err = e.confirm(c.Context(), yes,
			fmt.Sprintf("script flush empties the script cache of redis at %s for every program that uses it", where),
			"those that do not load their scripts again fail with NOSCRIPT")
		if err != nil {
			return err
		}
		return runScript(c.Context(), e, where, scriptFlush, "flush", format)
	}
	return c
}

func scriptFlush(ctx context.Context, nodes []target.Node) ([]scriptRecord, error) {
	for _, node := range nodes {
		if err := node.ScriptFlush(ctx).Err(); err != nil {
			return nil, err
		}
	}
	return present(ctx, nodes)
}

func newScriptShow(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "show NAME",
		Short:             "Print the source of a script",
		Args:              arguments("NAME"),
		ValidArgsFunction: cobra.FixedCompletions(scripts.Names(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			source, ok := scripts.Source(args[0])
			if !ok {
				return usageError{fmt.Errorf("NAME: there is no script %q", args[0]),
					hint(didYouMean(args[0], scripts.Names()), "all scripts: rlctl list")}
			}
			_, err := io.WriteString(e.stdout, source)
			return err
		},
	}
}
