package cmd_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheWorkerInGo races this module's library behind the protocol for workers. Those in other languages are raced by a
// script; this one has to be built first.
func TestTheWorkerInGo(t *testing.T) {
	t.Parallel()
	worker := filepath.Join(t.TempDir(), "worker")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", worker, "../examples/workers/go").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c, stdout, stderr := withOutput(t, "race", "exec:"+worker, "gcra", "--as", "gcra", "--mix", "--procs", "4", "--clients", "3", "--limit", "60", "--burst", "20")
	if err := c.Run(); err != nil || !strings.Contains(stdout.String(), "held   1,440 replayed") {
		t.Errorf("%v: %s%s", err, stdout, stderr)
	}
}
