package cmd

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/outside"
	"github.com/rlctl/rlctl/pkg/report"
)

// provenance is what this program says of itself in a result.
func (e *env) provenance() experiment.Provenance {
	b := readBuild()
	return experiment.Provenance{
		Command: e.typed, Version: b.Version, Commit: b.Commit, Modified: b.Modified, Go: b.Go, OS: b.OS, Arch: b.Arch,
	}
}

// commandLine is the command as it was understood: its arguments, then the flags that were given, by their long names
// and without secrets. It is made of what was parsed, since -asecret, -a secret and --pass=secret are one.
func commandLine(c *cobra.Command, args []string) string {
	words := strings.Fields(c.CommandPath())
	for _, a := range args {
		words = append(words, report.ShellWord(redacted(a)))
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		for _, value := range flagValues(f) {
			words = append(words, "--"+f.Name+value)
		}
	})
	return strings.Join(words, " ")
}

// flagValues are what follows the flag's name each time: a value after a space, nothing if it needs none and was set.
func flagValues(f *pflag.Flag) (texts []string) {
	list, many := f.Value.(pflag.SliceValue)
	switch {
	case f.Name == "pass":
		return []string{" ***"}
	case f.Name == "header" && many:
		for _, value := range list.GetSlice() {
			if !strings.HasPrefix(value, "@") { // which names a file
				value = outside.WithoutValue(value)
			}
			texts = append(texts, " "+report.ShellWord(value))
		}
		return texts
	case many:
		for _, value := range list.GetSlice() {
			texts = append(texts, " "+report.ShellWord(redacted(value)))
		}
		return texts
	case f.NoOptDefVal == f.Value.String():
		return []string{""}
	case f.NoOptDefVal != "":
		return []string{"=" + report.ShellWord(f.Value.String())}
	}
	return []string{" " + report.ShellWord(redacted(f.Value.String()))}
}
