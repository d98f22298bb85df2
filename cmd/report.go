package cmd

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/report"
)

func newReport(e *env) *cobra.Command {
	p := experiment.Compare{}
	failOver, readme := share{}, false
	c := &cobra.Command{
		Use:   "report FILE... | OLD NEW | --readme",
		Short: "Show a result that was kept, or compare two",
		Long: "report FILE shows a result that --out or --format json wrote as it was shown when it was new; - is stdin.\n" +
			"report OLD NEW compares two benches row by row: the ratio of the medians and the widest interval that the rounds\n" +
			"allow it; ~ is a difference that the rounds do not show. With --fail-over it exits with 1 if the whole interval of a\n" +
			"figure is past the threshold, and with 3 if only a part of one is. Other results are shown one after the other, and\n" +
			"--svg and --html then draw what they show together: races and a bench give safety against price.\n" +
			"report --readme fills the marked blocks of README.md, DESIGN.md and docs/scale.md in this folder.",
		Example: "  rlctl report results/race.json --format markdown\n" +
			"  rlctl report old.json new.json --fail-over 5%",
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case readme && len(args) > 0:
				return usageError{errors.New("rlctl report --readme takes no file: the pages name them"), "usage: " + c.UseLine()}
			case readme || len(args) > 0:
				return nil
			}
			return usageError{errors.New("rlctl report wants a result FILE, or OLD and NEW"), "usage: " + c.UseLine()}
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.Var(&failOver, "fail-over", "how much worse a figure of NEW may be, such as 5%")
	flags.StringSliceVar(&p.Figures, "figure", experiment.DefaultFigures(), "`NAMES` of the figures to compare, as in JSON")
	flags.BoolVar(&readme, "readme", false, "fill the marked blocks of README.md, DESIGN.md and docs/scale.md")
	out := newResultFlags(c, report.BenchfmtFormat)
	c.RunE = func(c *cobra.Command, args []string) error {
		if readme {
			pages := []string{"README.md", "DESIGN.md"}
			if _, err := os.Stat(scalePage); err == nil {
				pages = append(pages, scalePage)
			}
			return e.fillPages(pages...)
		}
		p.FailOver = failOver.value
		results, err := readResults(c.Context(), e.stdin, args)
		if err != nil {
			return err
		}
		if err := out.check(); err != nil {
			return err
		}
		before, after, compare := twoBenches(results)
		switch {
		case compare:
			return e.compare(p, before, after, out)
		case flags.Changed("fail-over") || flags.Changed("figure"):
			return usagef("--fail-over and --figure compare: they want OLD and NEW, both of bench")
		}
		return e.showResults(results, out)
	}
	return c
}

// scalePage has blocks too, where there is one.
const scalePage = "docs/scale.md"

// readResults reads kept results. What cannot be read is a file that was not meant.
func readResults(ctx context.Context, stdin io.Reader, names []string) (results []experiment.Result, err error) {
	for _, name := range names {
		result, err := readInput(ctx, stdin, name, experiment.Read)
		if err != nil {
			return nil, usagef("%s: %s", redacted(name), bare(err))
		}
		results = append(results, result)
	}
	return results, nil
}

// twoBenches tells whether the results are two that can be compared.
func twoBenches(results []experiment.Result) (before, after *experiment.BenchResult, ok bool) {
	if len(results) != 2 {
		return nil, nil, false
	}
	before, first := results[0].(*experiment.BenchResult)
	after, second := results[1].(*experiment.BenchResult)
	return before, after, first && second
}

func (e *env) compare(p experiment.Compare, before, after *experiment.BenchResult, out *resultFlags) error {
	c, err := p.Run(before, after)
	if err != nil {
		return usage(err)
	}
	if err := e.deliver(out, c.Document()); err != nil {
		return err
	}
	return verdictError(c.Verdict)
}

// showResults shows results one after the other, and at the end what they show together.
func (e *env) showResults(results []experiment.Result, out *resultFlags) error {
	var documents []report.Document
	for _, result := range results {
		documents = append(documents, result.Document())
	}
	if len(results) == 1 {
		return e.deliver(out, documents...)
	}
	if out.out != "" || out.format.format() == report.CSVFormat {
		return usagef("--out and --format csv want one result at a time")
	}
	return e.deliver(out, append([]report.Document{experiment.Together(results)}, documents...)...)
}

// fillPages fills the marked blocks of pages in this folder, and writes those that change.
func (e *env) fillPages(names ...string) error {
	for _, name := range names {
		page, err := os.ReadFile(name)
		if err != nil {
			return usagef("%s: %s", name, bare(err))
		}
		filled, err := experiment.FillPage(string(page), os.DirFS("."))
		if err != nil {
			return usagef("%s: %s", name, err)
		}
		if filled == string(page) {
			e.note("%s is up to date", name)
			continue
		}
		if err := save(name, func(w io.Writer) error { return writeText(w, filled) }); err != nil {
			return err
		}
		e.note("filled the blocks of %s", name)
	}
	return nil
}

func writeText(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// share is a flag that takes a percentage; without one its value is nil.
type share struct{ value *float64 }

func (s *share) Type() string { return "PERCENT" }

func (s *share) String() string {
	if s.value == nil {
		return ""
	}
	return strconv.FormatFloat(*s.value*100, 'g', -1, 64) + "%"
}

func (s *share) Set(text string) error {
	number, ok := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(v >= 0 && v <= 1000) {
		return errors.New("want 0% to 1000%")
	}
	s.value = new(v / 100)
	return nil
}
