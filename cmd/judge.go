package cmd

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/certificate"
	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/target"
)

func newJudge(e *env) *cobra.Command {
	p := experiment.Judge{}
	limit, proof := limitFlags{}, ""
	c := &cobra.Command{
		Use:   "judge FILE",
		Short: "Judge a history of calls, or check the proof of a broken limit",
		Long: "judge reads a history, one call a line as prove --stress --history writes it and docs/schemas describes it, and says\n" +
			"whether the limiter kept its rule: call by call where the calls bear the server's time, else by the worst interval.\n" +
			"A certificate is checked by other code than found it, and proves that a limit was broken or is rejected.\n" +
			"- is stdin. It exits with 0 if it held, with 1 if it is broken, with 3 if that is not known.",
		Example: "  rlctl prove --stress gcra --history gcra.jsonl\n" +
			"  rlctl judge gcra.jsonl\n" +
			"  rlctl judge calls.jsonl --limiter token-bucket --limit 100/1m",
		Args: arguments("FILE"),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&p.Limiter, "limiter", "", "by whose rule (default: what the history says)")
	completeWords(c, "limiter", target.Names(e.catalogue))
	limit.register(c, 100)
	flags.StringVar(&proof, "certificate", "", "also write the proof that a limit was broken to `FILE`")
	out := newResultFlags(c)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if flags.Changed("limit") || flags.Changed("window") || flags.Changed("burst") {
			l, err := limit.read(flags)
			if err != nil {
				return err
			}
			p.Limit = &l
		}
		if err := out.check(); err != nil {
			return err
		}
		result, err := readInput(c.Context(), e.stdin, args[0], func(r io.Reader) (*experiment.JudgeResult, error) {
			return p.Run(e.experiment(e.progress()), r)
		})
		if err != nil {
			return usage(err)
		}
		err = errors.Join(e.deliver(out, result.Document()), saveCertificate(proof, result.Certificate()))
		if err != nil {
			return err
		}
		return verdictError(result.Verdict)
	}
	return c
}

// saveCertificate writes a certificate, if there is one and a file is named for it.
func saveCertificate(name string, c *certificate.Certificate) error {
	if name == "" || c == nil {
		return nil
	}
	return save(name, func(w io.Writer) error {
		lines := json.NewEncoder(w)
		lines.SetIndent("", "  ")
		return lines.Encode(c)
	})
}
