package cmd_test

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/rlctl/rlctl/pkg/experiment"
)

// A replay of a pipe that is interrupted shows what there was, marked partial.
func TestReplayIsInterrupted(t *testing.T) {
	t.Parallel()
	proc := rlctl(t, "replay", "-", "--format", "json", "--time", "1", "--key", "2", "--limit", "1/1m")
	stdin, err := proc.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stderr, err := proc.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	proc.Stdout = &stdout
	if err := proc.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(stdin, "1764485932,a\n1764485933,a\n"); err != nil {
		t.Fatal(err)
	}
	seen := make([]byte, 512)
	n, err := stderr.Read(seen) // it has looked at the first lines
	if err != nil {
		t.Fatal(err)
	}
	if err := proc.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(stderr)
	said := string(seen[:n]) + string(rest)
	var exit *exec.ExitError
	if err := proc.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 || !strings.HasSuffix(said, "rlctl: interrupted\n") {
		t.Fatalf("%v, %q", err, said)
	}
	if r := parse[experiment.ReplayResult](t, stdout.Bytes()); !r.Partial || r.Complete || r.Log.Requests > 2 {
		t.Errorf("%+v", r)
	}
}
