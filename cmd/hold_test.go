package cmd_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
)

// held is a command for hold to run. It notes on the server, with the server's time, that it began, waits until the test
// lets it go, and notes that it ended. Its one argument is the server's socket.
func held() {
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: os.Args[1], MaxRetries: -1, ReadTimeout: -1})
	note := func(what string) {
		err := rdb.Eval(context.Background(), `local t = redis.call('TIME')
			redis.call('RPUSH', 'notes', string.format('%.0f ', t[1] * 1000000 + t[2]) .. ARGV[1])`, nil, what).Err()
		if err != nil && err != redis.Nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	note("began")
	if err := rdb.BLPop(context.Background(), 0, "go").Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	note("ended")
}

// gate is a server on which commands that are held note what they do, and wait to be let go.
type gate struct {
	*testing.T
	server *redisd.Server
	rdb    *redis.Client
}

func newGate(t *testing.T) *gate {
	server := redisdtest.Start(t, redisd.Options{})
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: server.Socket()})
	t.Cleanup(func() { rdb.Close() })
	return &gate{t, server, rdb}
}

// start starts a process of rlctl hold.
func (g *gate) start(flags ...string) *exec.Cmd {
	g.Helper()
	path, err := os.Executable()
	if err != nil {
		g.Fatal(err)
	}
	args := slices.Concat([]string{"hold", "key", "-s", g.server.Socket()}, flags, []string{"--", "held", g.server.Socket()})
	c := rlctl(g.T, args...)
	c.Stderr = &bytes.Buffer{}
	c.WaitDelay = 5 * time.Second // a command that outlives its hold keeps stderr open
	c.Env = append(os.Environ(), "PATH="+commands(g.T, path))
	if err := c.Start(); err != nil {
		g.Fatal(err)
	}
	return c
}

// commands is a folder in which the test binary is called "held".
func commands(t *testing.T, binary string) string {
	dir := t.TempDir()
	if err := os.Symlink(binary, dir+"/held"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// until waits until something is true of the server.
func (g *gate) until(what string, is func() bool) {
	g.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			g.Fatalf("waited too long until %s", what)
		}
	}
}

// noted counts a word in what was noted.
func (g *gate) noted(word string) (n int) {
	for _, note := range g.notes() {
		if strings.HasSuffix(note, " "+word) {
			n++
		}
	}
	return n
}

func (g *gate) notes() []string {
	return g.rdb.LRange(g.Context(), "notes", 0, -1).Val()
}

func (g *gate) letGo(n int) {
	for range n {
		g.rdb.RPush(g.Context(), "go", "go")
	}
}

// calls is how often a script was run, by whomever.
func (g *gate) calls() (n int) {
	stats := g.rdb.Info(g.Context(), "commandstats").Val()
	if _, stat, found := strings.Cut(stats, "cmdstat_evalsha:"); found {
		fmt.Sscanf(stat, "calls=%d,", &n)
	}
	return n
}

// askAgain waits until those who wait have asked some more.
func (g *gate) askAgain() {
	g.Helper()
	before := g.calls()
	g.until("they have asked again", func() bool { return g.calls() >= before+20 })
}

// most is the highest number of commands that ran at one instant of the server's clock.
func (g *gate) most() (most int) {
	running, last := 0, ""
	for _, note := range g.notes() {
		at, what, _ := strings.Cut(note, " ")
		if at < last {
			g.Errorf("the server's clock went back from %s to %s", last, at)
		}
		last = at
		if what == "began" {
			running++
		} else {
			running--
		}
		most = max(most, running)
	}
	return most
}

// TestHoldLetsNoMoreIn starts twenty processes on three slots. They ask as they like; each command runs until it is let go.
func TestHoldLetsNoMoreIn(t *testing.T) {
	if testing.Short() {
		t.Skip("its callers are processes: there is nothing for the race detector to see beyond hold.txtar")
	}
	t.Parallel()
	g := newGate(t)
	var all []*exec.Cmd
	for range 20 {
		all = append(all, g.start("--limit", "3", "--wait", "1m"))
	}
	for ended := 0; ended < len(all); ended++ {
		running := min(3, len(all)-ended)
		g.until("as many run as may", func() bool { return g.noted("began")-g.noted("ended") >= running })
		if running == 3 && ended < 5 {
			g.askAgain()
		}
		g.letGo(1)
		g.until("one has ended", func() bool { return g.noted("ended") > ended })
	}
	for _, c := range all {
		if err := c.Wait(); err != nil {
			t.Errorf("%v: %s", err, c.Stderr)
		}
	}
	if most := g.most(); most != 3 {
		t.Errorf("%d ran at once, want 3", most)
	}
	if left := g.rdb.Exists(t.Context(), "ratelimit:{key}:semaphore").Val(); left != 0 {
		t.Error("all have ended, and a slot is taken")
	}
}

// TestHoldersKilled kills three holders of three slots. Their commands stop at once, and their slots are back when their
// leases end: not much later, and not before.
func TestHoldersKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("its callers are processes: there is nothing for the race detector to see beyond hold.txtar")
	}
	t.Parallel()
	const lease = 1500 * time.Millisecond
	g := newGate(t)
	var holders, heirs []*exec.Cmd
	for range 3 {
		holders = append(holders, g.start("--limit", "3", "--lease", lease.String()))
	}
	g.until("three hold", func() bool { return g.noted("began") == 3 })
	for range 3 {
		heirs = append(heirs, g.start("--limit", "3", "--lease", lease.String(), "--wait", "1m"))
	}
	g.askAgain()
	ends := g.rdb.ZRangeWithScores(t.Context(), "ratelimit:{key}:semaphore", 0, -1).Val()
	killed := time.Now()
	for _, c := range holders {
		if err := c.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		c.Wait()
	}
	g.until("the heirs hold", func() bool { return g.noted("began") == 6 })
	if took := time.Since(killed); took > lease+5*time.Second {
		t.Errorf("the slots came back after %v, the lease is %v", took, lease)
	}
	earliest := int64(ends[1].Score) // after the member that keeps the time
	var first int64
	fmt.Sscan(g.notes()[3], &first)
	if first < earliest {
		t.Errorf("a slot was given away at %d, the first lease ended at %d", first, earliest)
	}
	g.letGo(6) // the killed ones' commands have stopped and do not take theirs
	for _, c := range heirs {
		if err := c.Wait(); err != nil {
			t.Errorf("%v: %s", err, c.Stderr)
		}
	}
	if ended := g.noted("ended"); ended != 3 {
		t.Errorf("%d commands ended by themselves, want those of the 3 that were not killed", ended)
	}
}

// TestHoldHeedsSignalsWhileRedisIsSilent: the first ends the wait for an answer, after which hold tries to give back what
// it may have taken, and the second ends that.
func TestHoldHeedsSignalsWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	for signal, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		silent, err := net.Listen("unix", t.TempDir()+"/silent")
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		_ = silent.(*net.UnixListener).SetDeadline(time.Now().Add(20 * time.Second))
		proc := rlctl(t, "hold", "key", "-s", silent.Addr().String(), "--timeout", "1h", "--lease", "10m", "--on-failure", "open", "--", "echo", "never")
		var stdout, stderr bytes.Buffer
		proc.Stdout, proc.Stderr = &stdout, &stderr
		if err := proc.Start(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			called, err := silent.Accept() // the second call is to give back
			if err != nil {
				t.Fatal(err)
			}
			defer called.Close()
			for _, answer := range []string{"-ERR unknown command 'hello'\r\n", ""} {
				if _, err := called.Read(make([]byte, 4096)); err != nil {
					t.Fatal(err)
				}
				_, _ = called.Write([]byte(answer))
			}
			if err := proc.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
		_ = proc.Wait()
		told := regexp.MustCompile(`^rlctl: one may have been taken: the slot was not given back \(.*\); it comes back when its lease of 10m0s ends\nrlctl: .+\n$`)
		if got := proc.ProcessState.ExitCode(); got != code || stdout.Len() > 0 || !told.MatchString(stderr.String()) {
			t.Errorf("%v: exit code %d, want %d; %q, %q", signal, got, code, stdout.String(), stderr.String())
		}
	}
}

// TestHoldThatStoodStill does not blame Redis for a lease that it did not renew itself.
func TestHoldThatStoodStill(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	c := g.start("--lease", "600ms", "--on-failure", "open")
	g.until("it holds", func() bool { return g.noted("began") == 1 })
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	g.until("its lease has ended", func() bool { return g.rdb.Exists(t.Context(), "ratelimit:{key}:semaphore").Val() == 0 })
	if err := c.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	want := regexp.MustCompile(`^rlctl: the lease was lost: hold stood still for \d.*s, as when it is stopped .*; the command is told to stop\n$`)
	if code := c.ProcessState.ExitCode(); code != 76 || !want.MatchString(fmt.Sprint(c.Stderr)) {
		t.Errorf("exit code %d, %q", code, c.Stderr)
	}
}
