package cmd

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// connects marks a command that talks to a server. The help of the others leaves the connection flags out.
const connects = "connects"

func online() map[string]string { return map[string]string{connects: "yes"} }

// usageTemplate is cobra's, but the connection flags come last and in the order of register.
const usageTemplate = `Usage: {{.UseLine}}
{{- if .HasExample}}

Examples:
{{.Example}}{{end}}
{{- if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}
{{- if and .HasParent .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}
{{- if or (not .HasParent) (index .Annotations "` + connects + `")}}

Connection and other flags of all commands:
{{.Root.PersistentFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}
{{- if .HasAvailableSubCommands}}

More of a command: {{.CommandPath}} COMMAND --help{{end}}
`

// newHelp is cobra's help command, but a topic that does not exist is a usage error.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help for a command",
		RunE: func(c *cobra.Command, args []string) error {
			topic, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return subcommand(topic, rest)
			}
			return topic.Help()
		},
	}
}

// bareHelp lets a bare -h at the end print help, as in redis-cli; with a value -h is the host.
func bareHelp(args []string) []string {
	last := len(args) - 1
	completes := last >= 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd)
	if last < 0 || args[last] != "-h" || completes || slices.Contains(args, "--") {
		return args
	}
	return append(slices.Clone(args[:last]), "--help")
}
