package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// explainJSON is what the tests read of an explanation.
type explainJSON struct {
	Results []struct {
		Limiter string
		Verdict string
		First   struct {
			Kind, Schedule string
			Steps          []struct{ Allowed *bool }
		}
	}
	Verdict string
	Partial bool
}

func parseExplain(t *testing.T, out []byte) explainJSON { return parse[explainJSON](t, out) }

func TestExplainKeepsItsSchema(t *testing.T) {
	c, stdout, stderr := withOutput(t, "race", "--explain", "--limit", "3/1s", "--format", "json")
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	r := parseExplain(t, stdout.Bytes())
	broken := map[string]bool{}
	for _, row := range r.Results {
		broken[row.Limiter] = row.Verdict == "broken"
		admitted := 0
		for _, step := range row.First.Steps {
			if step.Allowed != nil && *step.Allowed {
				admitted++
			}
		}
		if over := admitted > 1; over != (row.First.Kind == "over") || (row.Verdict == "broken") != (row.First.Kind != "") {
			t.Errorf("%s: %d admitted, %s, %q", row.Limiter, admitted, row.Verdict, row.First.Kind)
		}
	}
	for _, name := range []string{"naive-log", "naive-pipeline", "naive-counter", "naive-bucket", "local-bucket", "charging-log", "naive-semaphore"} {
		if !broken[name] {
			t.Errorf("%s was not seen to fail", name)
		}
		delete(broken, name)
	}
	for name, is := range broken {
		if is {
			t.Errorf("%s is accused", name)
		}
	}
	if r.Verdict != "held" || len(broken) < 9 {
		t.Errorf("verdict %s of %d others", r.Verdict, len(broken))
	}
	if left, _ := filepath.Glob(strings.TrimPrefix(c.Env[len(c.Env)-1], "TMPDIR=") + "/*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestProveKeepsItsSchema, with two clients and deaths.
func TestProveKeepsItsSchema(t *testing.T) {
	c, stdout, stderr := withOutput(t, "prove", "--clients", "2", "--format", "json")
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	r := parseExplain(t, stdout.Bytes())
	if r.Verdict != "held" || len(r.Results) < 30 {
		t.Errorf("verdict %s of %d", r.Verdict, len(r.Results))
	}
}

// TestExplainInterrupted stops it while it takes a million events first.
func TestExplainInterrupted(t *testing.T) {
	c, stdout, stderr := withOutput(t, "race", "gcra", "sliding-log", "--explain", "--limit", "1000000", "--format", "json")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	tmp := strings.TrimPrefix(c.Env[len(c.Env)-1], "TMPDIR=")
	until(t, "a client's socket", func() bool {
		found, _ := filepath.Glob(filepath.Join(tmp, "*", "client-1"))
		return len(found) > 0
	})
	c.Process.Signal(syscall.SIGINT)
	c.Wait()
	if code := c.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if r := parseExplain(t, stdout.Bytes()); !r.Partial || r.Verdict != "inconclusive" {
		t.Errorf("%s", stdout)
	}
	if left, _ := filepath.Glob(tmp + "/*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestExplainWithoutACompiler says what is missing. The server is on PATH, the compiler is not.
func TestExplainWithoutACompiler(t *testing.T) {
	server, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip(err) // the machine has valkey-server
	}
	bin := t.TempDir()
	if err := os.Symlink(server, filepath.Join(bin, "redis-server")); err != nil {
		t.Fatal(err)
	}
	c, stdout, stderr := withOutput(t, "race", "gcra", "--explain")
	c.Env = append(c.Env, "PATH="+bin)
	c.Run()
	if code := c.ProcessState.ExitCode(); code != 69 || stdout.Len() > 0 || !strings.Contains(stderr.String(), "\n  a clock that can be set wants ") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}
