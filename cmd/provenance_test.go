package cmd

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rlctl/rlctl/pkg/target"
)

// typedAs is how a result quotes a command line.
func typedAs(t *testing.T, args ...string) string {
	e := &env{stdin: strings.NewReader(""), stdout: &output{w: io.Discard}, stderr: io.Discard, catalogue: target.Catalogue()}
	root := newRoot(e)
	c, rest, err := root.Find(args)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ParseFlags(rest); err != nil {
		t.Fatal(err)
	}
	return commandLine(c, c.Flags().Args())
}

func TestACommandLineIsQuotedWithoutSecrets(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"race", "rlctl race"},
		{"race gcra --procs=4 --limit 10/1m --yes", "rlctl race gcra --procs 4 --limit 10/1m0s --yes"},
		{"race --yes=false", "rlctl race --yes=false"},
		{"bench gcra --path allowed,denied --path mixed", "rlctl bench gcra --path allowed --path denied --path mixed"},
		{"race -asesame", "rlctl race --pass ***"},
		{"race -a sesame", "rlctl race --pass ***"},
		{"race --pass=sesame", "rlctl race --pass ***"},
		{"race -u redis://:sesame@h:1/2", "rlctl race --url 'redis://***@h:1/2'"},
		{"race -uredis://sesame@h", "rlctl race --url 'redis://***@h'"},
		{"race --url=redis://u:ses@ame@h", "rlctl race --url 'redis://***@h'"},
		{"race --pass-file - --out it's", `rlctl race --pass-file - --out 'it'\''s'`},
		{"race http://h/{key} --header a:sesame --header=B:sesame:c", "rlctl race 'http://h/{key}' --header 'a: ***' --header 'B: ***'"},
		{"race http://h/{key} --header @file", "rlctl race 'http://h/{key}' --header @file"},
		{"race http://h/{key} --header sesame", "rlctl race 'http://h/{key}' --header '***'"},
		{"race http://u:sesame@h/", "rlctl race 'http://***@h/'"},
	} {
		if got := typedAs(t, strings.Fields(c.args)...); got != c.want {
			t.Errorf("%s: %s, want %s", c.args, got, c.want)
		}
	}
}

// Every flag of every command can be quoted, whatever other commands mean by its name.
func TestEveryFlagCanBeQuoted(t *testing.T) {
	e := &env{stdin: strings.NewReader(""), stdout: &output{w: io.Discard}, stderr: io.Discard, catalogue: target.Catalogue()}
	flags := 0
	for _, c := range newRoot(e).Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			flags++
			for _, text := range flagValues(f) {
				if text != "" && text[0] != ' ' && text[0] != '=' {
					t.Errorf("%s --%s%s", c.Name(), f.Name, text)
				}
			}
		})
	}
	if flags < 100 {
		t.Errorf("only %d flags", flags)
	}
	if got, want := typedAs(t, "replay", "a.csv", "--header"), "rlctl replay a.csv --header"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
