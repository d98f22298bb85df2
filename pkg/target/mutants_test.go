package target_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/scripts"
)

// mutant is a limiter with one line wrong. It claims to be atomic under the rule of the one it was made from.
type mutant struct {
	entry target.Entry
	of    target.Entry
	by    []string // the experiments that must catch it
	wrong string
}

// zoo is all mutants: scripts, then clients, then memories.
func zoo() ([]mutant, error) {
	table, err := os.ReadFile("../../testdata/mutants/scripts.txt")
	if err != nil {
		return nil, err
	}
	mutants, err := spoiledScripts(string(table))
	if err != nil {
		return nil, err
	}
	for _, c := range spoiledClients() {
		m, err := c.mutant()
		if err != nil {
			return nil, err
		}
		mutants = append(mutants, m)
	}
	for _, c := range spoiledCaches() {
		m, err := c.mutant()
		if err != nil {
			return nil, err
		}
		mutants = append(mutants, m)
	}
	return mutants, nil
}

// spoiledScripts reads a table: "name: script by experiments", what is wrong, "-" and a line of the script, "+" and
// what stands there instead.
func spoiledScripts(table string) (mutants []mutant, err error) {
	lines := strings.Split(table, "\n")
	for i, line := range lines {
		right, replaced := strings.CutPrefix(line, "-")
		if !replaced {
			continue
		}
		wrong, ok := strings.CutPrefix(lines[min(i+1, len(lines)-1)], "+")
		if i < 2 || !ok {
			return nil, fmt.Errorf("line %d: want a name and what is wrong above, and + below", i+1)
		}
		m, err := spoiledScript(lines[i-2], lines[i-1], right, wrong)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		mutants = append(mutants, m)
	}
	return mutants, nil
}

func spoiledScript(head, says, right, wrong string) (mutant, error) {
	name, rest, _ := strings.Cut(head, ": ")
	of, by, _ := strings.Cut(rest, " by ")
	row, _, holds := strings.Cut(of, "_")
	m, err := newMutant(name, row, says, by)
	if err != nil {
		return m, err
	}
	source, ok := scripts.Source(of)
	if !ok {
		return m, fmt.Errorf("%s: no script %q", name, of)
	}
	if source, err = replaceLine(source, right, wrong); err != nil {
		return m, fmt.Errorf("%s: %s %w", name, of, err)
	}
	m.entry.New = func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
		return limiter.NewScript(rdb, name, source, l, opts...)
	}
	if holds { // one of the semaphore's scripts, beside the two others
		m.entry.New = func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error) {
			return limiter.NewSemaphoreScripts(rdb, name, func(script string) string {
				if script == of {
					return source
				}
				sound, _ := scripts.Source(script)
				return sound
			}, l, opts...)
		}
	}
	return m, nil
}

func newMutant(name, of, wrong, by string) (mutant, error) {
	entry, err := target.Find(target.Catalogue(), of)
	m := mutant{entry: entry, of: entry, by: strings.Fields(by), wrong: wrong}
	m.entry.Name = name
	if err == nil && len(m.by) == 0 {
		err = fmt.Errorf("%s: nothing is said to catch it", name)
	}
	return m, err
}

// replaceLine replaces the one line that is right, but for its indentation.
func replaceLine(source, right, wrong string) (string, error) {
	lines := strings.Split(source, "\n")
	is := func(line string) bool { return strings.TrimSpace(line) == strings.TrimSpace(right) }
	at := slices.IndexFunc(lines, is)
	if at < 0 || slices.ContainsFunc(lines[at+1:], is) {
		return "", fmt.Errorf("has not exactly one line %q", right)
	}
	lines[at] = wrong
	return strings.Join(lines, "\n"), nil
}

func TestATableThatFitsNoScriptIsRefused(t *testing.T) {
	for _, table := range []string{
		"a: gcra by walk\nwrong\n-no such line\n+another",
		"a: gcra by walk\nwrong\n-end\n+many such lines",
		"a: none by walk\nwrong\n-end\n+end",
		"a: gcra\nwrong\n-local f, g, cap = 0, 0, false\n+by nobody",
		"wrong\n-end\n+end",
		"a: gcra by walk\nwrong\n-end",
	} {
		if _, err := spoiledScripts(table); err == nil {
			t.Errorf("accepted:\n%s", table)
		}
	}
}
