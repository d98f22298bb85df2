package cmd

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rlctl/rlctl/pkg/report"
)

// resultFlags say how the result of an experiment is shown, and where it is kept.
type resultFlags struct {
	format *choice
	out    string
}

// newResultFlags adds the flags to a command.
func newResultFlags(c *cobra.Command) *resultFlags {
	f := &resultFlags{format: formatFlag(c)}
	c.Flags().StringVar(&f.out, "out", "", "also write the result to `FILE`, as --format json prints it")
	return f
}

// check refuses a file that cannot be written before anything is measured for it.
func (f *resultFlags) check() error {
	if f.out == "" {
		return nil
	}
	if err := writable(f.out); err != nil {
		return writeError{f.out, err}
	}
	return nil
}

// deliver shows a result and keeps it. What cannot be kept was shown.
func (e *env) deliver(f *resultFlags, d report.Document) error {
	err := e.show(f.format, d)
	if f.out != "" {
		err = errors.Join(err, save(f.out, func(w io.Writer) error { return d.Write(w, report.JSONFormat, report.Style{}) }))
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
	if err := put(behind(name), write); err != nil {
		return writeError{name, err}
	}
	return nil
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
