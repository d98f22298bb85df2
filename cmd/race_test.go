package cmd_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/scripts"
)

// withOutput is rlctl with its outputs kept and a temporary folder of its own.
func withOutput(t *testing.T, args ...string) (c *exec.Cmd, stdout, stderr *bytes.Buffer) {
	c, stdout, stderr = rlctl(t, args...), &bytes.Buffer{}, &bytes.Buffer{}
	c.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	c.Stdout, c.Stderr = stdout, stderr
	return c, stdout, stderr
}

// raceJSON is what the tests read of a result.
type raceJSON struct {
	Results []struct {
		Limiter  string
		Verdict  string
		Expected bool
		Attempts int64
		Allowed  int64
		Unknown  int64
		Rounds   []struct {
			Verdict string
			Reason  string
			Deaths  []struct{ Cause string }
		}
	}
	Verdict string
	Partial bool
}

func parseRace(t *testing.T, out []byte) raceJSON { return parse[raceJSON](t, out) }

// until waits for a condition that must come true.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// underWay starts a long race of gcra on a server of the test's own and returns when calls are being decided.
func underWay(t *testing.T, args ...string) (c *exec.Cmd, stdout, stderr *bytes.Buffer, rdb *redis.Client) {
	t.Helper()
	s := redisdtest.Start(t, redisd.Options{})
	rdb = redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})
	t.Cleanup(func() { rdb.Close() })
	args = append([]string{"race", "gcra", "-s", s.Socket(), "--procs", "3", "--attempts", "1000000", "--seed", "abc", "--format", "json"}, args...)
	c, stdout, stderr = withOutput(t, args...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the first decision", func() bool { return rdb.Exists(t.Context(), "ratelimit:{rlctl-abc-1}:gcra").Val() == 1 })
	return c, stdout, stderr, rdb
}

func TestAnInterruptedRacePrintsWhatThereIs(t *testing.T) {
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		c, stdout, stderr, rdb := underWay(t)
		c.Process.Signal(signal)
		c.Wait()
		if got := c.ProcessState.ExitCode(); got != code {
			t.Errorf("%v: exit code %d, want %d: %s", signal, got, code, stderr)
		}
		if r := parseRace(t, stdout.Bytes()); !r.Partial || r.Verdict == "held" || len(r.Results) != 1 || r.Results[0].Attempts == 0 {
			t.Errorf("%v: %s", signal, stdout)
		}
		if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) != 0 {
			t.Errorf("%v: left behind: %v", signal, keys)
		}
	}
}

func TestARacesDeadWorkerIsReported(t *testing.T) {
	c, stdout, stderr, _ := underWay(t, "--attempts", "20000")
	victim := children(t, c.Process.Pid)[0]
	syscall.Kill(victim, syscall.SIGKILL)
	c.Wait()
	r := parseRace(t, stdout.Bytes())
	if len(r.Results) != 1 || len(r.Results[0].Rounds) != 1 || len(r.Results[0].Rounds[0].Deaths) != 1 {
		t.Fatalf("%s%s", stdout, stderr)
	}
	row := r.Results[0]
	if row.Unknown > 1 || row.Verdict == "broken" || !strings.Contains(row.Rounds[0].Deaths[0].Cause, "killed") {
		t.Errorf("%+v", row)
	}
	if code := c.ProcessState.ExitCode(); code != map[string]int{"held": 0, "inconclusive": 3}[row.Verdict] {
		t.Errorf("exit code %d at verdict %s", code, row.Verdict)
	}
}

// TestAKilledParentLeavesNothing kills a race in the middle, as an out-of-memory killer would.
func TestAKilledParentLeavesNothing(t *testing.T) {
	c, _, _ := withOutput(t, "race", "gcra", "--procs", "5", "--attempts", "1000000")
	tmp := strings.TrimPrefix(c.Env[len(c.Env)-1], "TMPDIR=")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var family []int
	until(t, "keeper, server and five workers", func() bool {
		family = descendants(t, c.Process.Pid)
		return len(family) == 7
	})
	c.Process.Kill()
	c.Wait()
	start := time.Now()
	until(t, "all of them gone", func() bool {
		for _, pid := range family {
			if alive(pid) {
				return false
			}
		}
		left, _ := filepath.Glob(filepath.Join(tmp, "*"))
		return len(left) == 0
	})
	took := time.Since(start)
	t.Logf("everything was gone after %v", took)
	if took > 5*time.Second { // promised: one; five times that is the watchdog
		t.Errorf("it took %v", took)
	}
}

func TestTwoRacesAtOnce(t *testing.T) {
	var commands [2]*exec.Cmd
	for i := range commands {
		c, stdout, stderr := withOutput(t, "race", "gcra", "--procs", "8", "--limit", "50", "--format", "json")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		commands[i] = c
		defer func() {
			if r := parseRace(t, stdout.Bytes()); r.Verdict != "held" {
				t.Errorf("%s%s", stdout, stderr)
			}
		}()
	}
	for _, c := range commands {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
}

func children(t *testing.T, parent int) (pids []int) {
	t.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	if len(stats) == 0 {
		t.Skip("needs /proc to find the processes")
	}
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it is gone
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		var state string
		var ppid int
		fmt.Sscan(rest, &state, &ppid)
		if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))); ppid == parent && state != "Z" {
			pids = append(pids, pid)
		}
	}
	return pids
}

func descendants(t *testing.T, pid int) (pids []int) {
	for _, child := range children(t, pid) {
		pids = append(append(pids, child), descendants(t, child)...)
	}
	return pids
}

// alive tells whether a process runs; one that is dead and was not yet waited for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// TestWhyThereIsNoPrivateServer names what is missing on this machine, which is no defect of rlctl.
func TestWhyThereIsNoPrivateServer(t *testing.T) {
	for _, c := range []struct {
		variable, says string
		code           int
	}{
		{"PATH=/nonexistent", "neither redis-server nor valkey-server is on PATH\n  install one: ", 69},
		{"TMPDIR=/nonexistent", "make a folder for the private server: stat /nonexistent: no such file or directory\n  name a folder ", 74},
	} {
		cmd, stdout, stderr := withOutput(t, "race", "gcra")
		cmd.Env = append(cmd.Env, c.variable)
		cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != c.code || stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "rlctl: "+c.says) {
			t.Errorf("%s: exit code %d\n%s%s", c.variable, code, stdout, stderr)
		}
	}
}

// TestADeadPrivateServerEndsTheRun kills the server, or its keeper, long before the run would be over.
func TestADeadPrivateServerEndsTheRun(t *testing.T) {
	for whom, run := range map[string]struct {
		args   []string
		family int // keeper, server, workers
	}{
		"keeper":     {[]string{"race", "gcra", "--procs", "3", "--attempts", "5000000"}, 5},
		"redis.sock": {[]string{"race", "gcra", "--procs", "3", "--attempts", "5000000"}, 5},
		"redis.soc":  {[]string{"prove", "watch-bucket", "--clients", "4"}, 2},
	} {
		c, _, stderr := withOutput(t, append(run.args, "--format", "json")...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		var victim int
		until(t, "the "+whom, func() bool {
			family := descendants(t, c.Process.Pid)
			i := slices.IndexFunc(family, func(pid int) bool {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				return strings.Contains(string(line), whom)
			})
			if len(family) == run.family && i >= 0 {
				victim = family[i]
			}
			return victim != 0
		})
		syscall.Kill(victim, syscall.SIGKILL)
		c.Wait()
		told := regexp.MustCompile(`(?ms)^rlctl: (cannot reach redis at its private socket|redis at its private socket ended the connection) \(.*\n  it ended`)
		if code := c.ProcessState.ExitCode(); code != 69 || !told.Match(stderr.Bytes()) {
			t.Errorf("%s: exit code %d: %s", whom, code, stderr)
		}
		if left, _ := filepath.Glob(strings.TrimPrefix(c.Env[len(c.Env)-1], "TMPDIR=") + "/*"); len(left) > 0 {
			t.Errorf("%s: left behind: %v", whom, left)
		}
	}
}

// TestARaceNeedsNoMoreThanAScriptsRights and, for its own keys, DEL.
func TestARaceNeedsNoMoreThanAScriptsRights(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})
	defer rdb.Close()
	for _, name := range scripts.Limiters() {
		args := []any{"ACL", "SETUSER", name, "reset", "on", ">pw"}
		for word := range strings.FieldsSeq(target.ACLRule(name, "ratelimit", "+del")) {
			args = append(args, word)
		}
		if err := rdb.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
		c, stdout, stderr := withOutput(t, "race", name, "-s", s.Socket(), "--user", name, "--procs", "5", "--limit", "20")
		c.Env = append(c.Env, "REDISCLI_AUTH=pw")
		c.Run()
		if code := c.ProcessState.ExitCode(); code != 0 && code != 3 || stderr.Len() > 0 { // 3: nobody overlapped
			t.Errorf("%s: exit code %d: %s%s", name, code, stdout, stderr)
		}
	}
}

// TestAKeyOfAnEarlierRunIsNotJudged: a race that was killed leaves its key, and the same seed names it again.
func TestAKeyOfAnEarlierRunIsNotJudged(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	stale, _, stderr := withOutput(t, "check", "rlctl-abc-1", "--limiter", "gcra", "--limit", "20", "-s", s.Socket())
	if err := stale.Run(); err != nil {
		t.Fatal(err, stderr)
	}
	c, stdout, stderr := withOutput(t, "race", "gcra", "-s", s.Socket(), "--procs", "5", "--limit", "20", "--seed", "abc", "--format", "json")
	c.Run()
	if r := parseRace(t, stdout.Bytes()); len(r.Results) != 1 || r.Results[0].Allowed < 20 || r.Results[0].Verdict == "broken" {
		t.Errorf("%s%s", stdout, stderr)
	}
}
