package cmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/experiment"
)

func newReport(e *env) *cobra.Command {
	p := experiment.Compare{}
	failOver := share{}
	c := &cobra.Command{
		Use:   "report FILE | OLD NEW",
		Short: "Show a result that was kept, or compare two",
		Long: "report FILE shows a result that --out or --format json wrote as it was shown when it was new; - is stdin.\n" +
			"report OLD NEW compares two benches row by row: the ratio of the medians and the widest interval that the rounds\n" +
			"allow it; ~ is a difference that the rounds do not show. With --fail-over it exits with 1 if the whole interval of a\n" +
			"figure is past the threshold, and with 3 if only a part of one is.",
		Example: "  rlctl report results/race.json --format markdown\n" +
			"  rlctl report old.json new.json --fail-over 5%",
		Args: cobra.MatchAll(func(c *cobra.Command, args []string) error {
			if len(args) == 1 || len(args) == 2 {
				return nil
			}
			return usageError{fmt.Errorf("rlctl report wants a result FILE, or OLD and NEW, got %d arguments", len(args)), "usage: " + c.UseLine()}
		}),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.Var(&failOver, "fail-over", "how much worse a figure of NEW may be, such as 5%")
	flags.StringSliceVar(&p.Figures, "figure", experiment.DefaultFigures(), "`NAMES` of the figures to compare, as in JSON")
	out := newResultFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		p.FailOver = failOver.value
		results, err := readResults(e.stdin, args)
		if err != nil {
			return err
		}
		if err := out.check(); err != nil {
			return err
		}
		if len(results) == 1 {
			if flags.Changed("fail-over") || flags.Changed("figure") {
				return usagef("--fail-over and --figure compare: they want OLD and NEW")
			}
			return e.deliver(out, results[0].Document())
		}
		return e.compare(p, args, results, out)
	}
	return c
}

// readResults reads kept results. What cannot be read is a file that was not meant.
func readResults(stdin io.Reader, names []string) (results []experiment.Result, err error) {
	for _, name := range names {
		result, err := readResult(stdin, name)
		if err != nil {
			return nil, usagef("%s: %s", redacted(name), bare(err))
		}
		results = append(results, result)
	}
	return results, nil
}

func readResult(stdin io.Reader, name string) (experiment.Result, error) {
	if name == "-" {
		return experiment.Read(stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return experiment.Read(file)
}

func (e *env) compare(p experiment.Compare, names []string, results []experiment.Result, out *resultFlags) error {
	var benches [2]*experiment.BenchResult
	for i, result := range results {
		bench, ok := result.(*experiment.BenchResult)
		if !ok {
			return usagef("%s: only results of bench can be compared; report FILE shows it", names[i])
		}
		benches[i] = bench
	}
	c, err := p.Run(benches[0], benches[1])
	if err != nil {
		return usage(err)
	}
	if err := e.deliver(out, c.Document()); err != nil {
		return err
	}
	return verdictError(c.Verdict)
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
