package cmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/report"
)

// resultFlags say how the result of an experiment is shown, and where it is kept or drawn.
type resultFlags struct {
	format         *choice
	out, svg, html string
}

// newResultFlags adds the flags to a command, with what it has beyond the usual forms.
func newResultFlags(c *cobra.Command, further ...report.Format) *resultFlags {
	f := &resultFlags{format: formatFlag(c, further...)}
	c.Flags().StringVar(&f.out, "out", "", "also write the result to `FILE`, as --format json prints it")
	c.Flags().StringVar(&f.svg, "svg", "", "also draw the result into this `FILE`")
	c.Flags().StringVar(&f.html, "html", "", "also write a page with pictures to `FILE`; it loads nothing")
	return f
}

// check refuses a file that cannot be written before anything is measured for it.
func (f *resultFlags) check() error {
	for _, name := range []string{f.out, f.svg, f.html} {
		if name == "" {
			continue
		}
		if err := writable(name); err != nil {
			return writeError{name, err}
		}
	}
	return nil
}

// deliver shows results and keeps them. The first of several is what they show together, and all that is drawn alone.
// What cannot be kept was shown.
func (e *env) deliver(f *resultFlags, documents ...report.Document) (err error) {
	for _, d := range documents {
		if f.format.format() == report.BenchfmtFormat && d.Benchfmt == nil {
			return usagef("--format benchfmt: only a result of bench has it")
		}
		err = errors.Join(err, e.show(f.format, d))
	}
	for _, kept := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{f.out, func(w io.Writer) error { return documents[0].Write(w, report.JSONFormat, report.Style{}) }},
		{f.svg, func(w io.Writer) error { return nothingToDraw(report.WriteSVG(w, documents[0].Charts)) }},
		{f.html, func(w io.Writer) error { return report.WriteHTML(w, e.typed, documents...) }},
	} {
		if kept.name != "" {
			err = errors.Join(err, save(kept.name, kept.write))
		}
	}
	return err
}

func nothingToDraw(err error) error {
	if errors.Is(err, report.ErrNothingToDraw) {
		return usageError{err: fmt.Errorf("--svg: %w", err)}
	}
	return err
}

// save writes a file of mode 0644 so that it is there as a whole or, after an error, as it was before: into a new file
// beside it that takes its name at the end. A device or a pipe is written as it is.
func save(name string, write func(io.Writer) error) error {
	put := replace
	if special(name) {
		put = overwrite
	}
	err := put(behind(name), write)
	if err == nil || is[usageError](err) {
		return err
	}
	return writeError{name, err}
}

func overwrite(name string, write func(io.Writer) error) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

func replace(name string, write func(io.Writer) error) error {
	beside, err := newBeside(name)
	if err != nil {
		return err
	}
	defer os.Remove(beside.Name()) // unless it has the other name by then
	err = errors.Join(write(beside), beside.Chmod(0o644), beside.Sync(), beside.Close())
	if err != nil {
		return err
	}
	return os.Rename(beside.Name(), name)
}

// writable tries what save will do, and changes nothing.
func writable(name string) error {
	if special(name) {
		return nil
	}
	name = behind(name)
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return syscall.EISDIR
	}
	beside, err := newBeside(name)
	if err != nil {
		return err
	}
	return errors.Join(beside.Close(), os.Remove(beside.Name()))
}

func newBeside(name string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
}

// behind is the file that a symbolic link names, which stays one.
func behind(name string) string {
	if file, err := filepath.EvalSymlinks(name); err == nil {
		return file
	}
	return name
}

// special tells a device or a pipe, of which there is no whole to replace.
func special(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}
