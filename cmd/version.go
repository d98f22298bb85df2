package cmd

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/report"
)

// build says which rlctl this is.
type build struct {
	Schema   string  `json:"schema"`
	Version  string  `json:"version"` // "(devel)" when built from a work tree
	Commit   *string `json:"commit"`
	Time     *string `json:"commit_time"`
	Modified *bool   `json:"modified"` // the work tree differed from the commit
	Go       string  `json:"go"`
	OS       string  `json:"os"`
	Arch     string  `json:"arch"`
}

// readBuild reads what the Go linker wrote into the binary.
func readBuild() build {
	b := build{
		Schema: "rlctl.version/v1", Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = new(s.Value)
		case "vcs.time":
			b.Time = new(s.Value)
		case "vcs.modified":
			b.Modified = new(s.Value == "true")
		}
	}
	return b
}

func newVersion(e *env) *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Say which rlctl this is", Args: arguments()}
	format := formatFlag(c)
	c.RunE = func(*cobra.Command, []string) error { return e.show(format, readBuild().document()) }
	return c
}

func (b build) document() report.Document {
	d := report.Document{Data: b, Records: []any{b}, Head: []report.Line{report.Text("rlctl %s", b.Version)}}
	if b.Commit != nil {
		line := "commit " + *b.Commit
		if b.Modified != nil && *b.Modified {
			line += ", modified"
		}
		d.Head = append(d.Head, report.Text("%s", line))
	}
	d.Head = append(d.Head, report.Text("%s %s/%s", b.Go, b.OS, b.Arch))
	return d
}
