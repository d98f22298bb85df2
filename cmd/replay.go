package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rlctl/rlctl/pkg/accesslog"
	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

func newReplay(e *env) *cobra.Command {
	p := experiment.Replay{Limiters: []string{"sliding-log"}, Top: 5, Log: accesslog.Spec{Fixed: 1}}
	limits := limitsFlags{rates: rates{{events: 100}}, window: window(time.Minute)}
	input, unit := choice{of: accesslog.Formats()}, choice{of: accesslog.Units()}
	c := &cobra.Command{
		Use:   "replay FILE",
		Short: "Tell what limits would have refused of an access log",
		Long: "replay lets limiters decide on the requests of an access log, by the times in it: what each limit would have refused,\n" +
			"whom most, and when. It asks no Redis; the rules decide that the limiters are held to. FILE is JSON lines, CSV or the\n" +
			"combined log format, also behind a virtual host; - is stdin. What the log's beginning decides, such as its format, is\n" +
			"said on stderr.\n" +
			"Nothing is guessed of a line: one that does not fit is broken, one that is earlier than a line before is unsorted;\n" +
			"both are counted and left out. It exits with 0 if no line was left out, with 3 if the answer is not of the whole log\n" +
			"or the log has no requests.",
		Example: "  rlctl replay access.log --limit 60/1m --limit 100/1m\n" +
			"  rlctl replay api.jsonl --time ts --key user.id --limiter sliding-log,gcra --limit 20/1s --burst 50\n" +
			"  zcat -f access.log.2.gz access.log.1 access.log | rlctl replay - --limit 60/1m\n" +
			"  rlctl replay calls.csv --time 1 --key 3 --time-unit ms --sort",
		Args: arguments("FILE"),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&p.Limiters, "limiter", p.Limiters, "whose rules decide: `NAMES` as in rlctl list")
	limits.register(c)
	flags.Var(&input, "input", "how the log is written (default: as its first lines tell)")
	flags.StringVar(&p.Log.Time, "time", "", "`FIELD` of the time: of JSON a path such as request.time, of CSV a name or a number")
	flags.Var(&unit, "time-unit", "what a time counts that is a number (default: as the first one tells)")
	flags.StringVar(&p.Log.Key, "key", "", "`FIELD` of who is limited (combined: remote_addr)")
	flags.Var(whole{&p.Log.Fixed, 0, limiter.MaxCost}, "cost", "events that each request takes")
	flags.StringVar(&p.Log.Cost, "cost-field", "", "`FIELD` of the events that a request takes")
	flags.Var((*separator)(&p.Log.Separator), "separator", "of a CSV, or the word tab")
	flags.BoolVar(&p.Log.Header, "header", false, "a CSV has a header, although its fields are named by numbers")
	flags.BoolVar(&p.Sort, "sort", false, "take the requests in the order of their times; all are held in memory")
	flags.IntVar(&p.Top, "top", p.Top, "clients to name of each limit, those that it refuses most")
	flags.BoolVar(&p.ShowKeys, "show-keys", false, "name clients by their keys instead of digests")
	out := newResultFlags(c)
	completeWords(c, "limiter", ruleNames(e.catalogue))
	completeWords(c, "input", input.of)
	completeWords(c, "time-unit", unit.of)
	completeWords(c, "key", accesslog.CombinedFields())
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		p.Log.Format, p.Log.Unit = accesslog.Format(input.value), accesslog.Unit(unit.value)
		if p.Limits, err = limits.read(flags); err != nil {
			return err
		}
		if p.Log.Cost != "" && flags.Changed("cost") {
			return usagef("--cost: excluded by --cost-field")
		}
		return runReplay(c.Context(), e, p, args[0], out)
	}
	return c
}

func runReplay(ctx context.Context, e *env, p experiment.Replay, name string, out *resultFlags) error {
	if err := p.Validate(e.catalogue); err != nil {
		return usage(err)
	}
	if err := out.check(); err != nil {
		return err
	}
	log, err := openInput(ctx, e.stdin, name)
	if err != nil {
		return usage(err)
	}
	defer log.Close()
	p.Size = sizeOf(log)
	progress := e.progress()
	result, err := p.Run(ctx, e.experiment(progress), log)
	progress.Clear()
	if result != nil {
		err = errors.Join(err, e.deliver(out, result.Document()))
	}
	switch {
	case err != nil && !is[writeError](err) && !is[Signal](err):
		return usage(fmt.Errorf("%s: %w", redacted(name), err))
	case err == nil && !result.Complete:
		return errInconclusive
	}
	return err
}

// sizeOf is how many bytes a file has, 0 if it is none.
func sizeOf(r io.Reader) int64 {
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	return 0
}

// ruleNames are the limiters that have a rule of their own which a log can be held against.
func ruleNames(catalogue []target.Entry) (names []string) {
	for _, e := range catalogue {
		if e.Own() && !e.Rule.AtOnce {
			names = append(names, e.Name)
		}
	}
	return names
}

// limitsFlags are limitFlags with several limits.
type limitsFlags struct {
	rates  rates
	window window
	burst  int64
}

func (l *limitsFlags) register(c *cobra.Command) {
	c.Flags().Var(&manyRates{value: &l.rates}, "limit", "events per window, or per the window given with them; again for another limit")
	c.Flags().Var(&l.window, "window", "the window of limits that name none")
	c.Flags().Var(whole{&l.burst, 0, limiter.MaxEvents}, "burst", "capacity of a bucket; 0 means the limit")
}

// read returns the limits.
func (l *limitsFlags) read(flags *pflag.FlagSet) (limits []limiter.Limit, err error) {
	used := false
	for _, r := range l.rates {
		per := r.window
		if per == 0 {
			per, used = l.window, true
		}
		limits = append(limits, limiter.Limit{Events: r.events, Window: time.Duration(per), Burst: l.burst})
	}
	if flags.Changed("window") && !used {
		return nil, usagef("--window: each --limit names a window already")
	}
	return limits, nil
}

type rates []rate

// manyRates is a flag that may be given again. The first time it takes the place of the default.
type manyRates struct {
	value *rates
	given bool
}

func (m *manyRates) Type() string   { return "N|N/WINDOW,..." }
func (m *manyRates) String() string { return strings.Join(m.GetSlice(), ",") }

func (m *manyRates) Set(text string) error {
	if !m.given {
		m.given, *m.value = true, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		if err := m.Append(word); err != nil {
			return err
		}
	}
	return nil
}

// Append adds a limit.
func (m *manyRates) Append(text string) error {
	var r rate
	if err := r.Set(text); err != nil {
		return err
	}
	*m.value = append(*m.value, r)
	return nil
}

// Replace sets all limits.
func (m *manyRates) Replace(texts []string) error {
	m.given = false
	return m.Set(strings.Join(texts, ","))
}

// GetSlice lists the limits.
func (m *manyRates) GetSlice() (texts []string) {
	if m.value == nil {
		return nil
	}
	for _, r := range *m.value {
		texts = append(texts, r.String())
	}
	return texts
}

// separator is a flag that takes a character.
type separator byte

func (s *separator) Type() string { return "CHARACTER" }

func (s *separator) String() string {
	switch *s {
	case 0:
		return ","
	case '\t':
		return "tab"
	}
	return string(rune(*s))
}

func (s *separator) Set(text string) error {
	if text == "tab" {
		text = "\t"
	}
	if len(text) != 1 || strings.Contains("\"\r\n", text) || text[0] >= 0x80 {
		return errors.New("want one ASCII character, or the word tab")
	}
	*s = separator(text[0])
	return nil
}
