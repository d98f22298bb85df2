package redisd_test

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
)

// startParent runs a process with a kept server, in a process group of its own as a shell would.
func startParent(t *testing.T) (*exec.Cmd, *json.Decoder, place) {
	t.Helper()
	cmd := self("parent")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	said := json.NewDecoder(bufio.NewReader(out))
	var p place
	if err := said.Decode(&p); err != nil {
		t.Fatalf("the parent did not start its server: %v", err)
	}
	if !alive(p.PID) || !alive(p.Keeper) || !exists(p.Socket) {
		t.Fatalf("not running: %+v", p)
	}
	return cmd, said, p
}

func wantGone(t *testing.T, p place) {
	t.Helper()
	eventually(t, "server, keeper and folder gone", func() bool { return !alive(p.PID) && !alive(p.Keeper) && !exists(p.Dir) })
}

func TestKilledParentLeavesNothing(t *testing.T) {
	t.Parallel()
	cmd, _, p := startParent(t)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	wantGone(t, p)
	t.Logf("gone %v after kill -9", time.Since(at))
}

func TestInterruptOfTheGroupLeavesTheServerToTheParent(t *testing.T) {
	t.Parallel()
	cmd, said, p := startParent(t)
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var still bool
	if err := said.Decode(&still); err != nil || !still {
		t.Errorf("the server went with the signal (%v)", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the parent: %v", err)
	}
	if alive(p.PID) || alive(p.Keeper) || exists(p.Dir) {
		t.Errorf("left behind: %+v", p)
	}
}

func startKept(t *testing.T, opts redisd.Options) (*redisd.Kept, place) {
	t.Helper()
	k, err := redisd.StartKept(t.Context(), self, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k, place{k.Socket(), k.Dir(), k.PID(), k.KeeperPID()}
}

func TestNoTerminalReachesKeeperOrServer(t *testing.T) {
	t.Parallel()
	_, p := startKept(t, redisd.Options{})
	if sid, err := unix.Getsid(p.Keeper); err != nil || sid != p.Keeper {
		t.Errorf("the keeper %d is in session %d (%v)", p.Keeper, sid, err)
	}
	if sid, err := unix.Getsid(p.PID); err != nil || sid != p.Keeper {
		t.Errorf("the kept server is in session %d, not in its keeper's %d (%v)", sid, p.Keeper, err)
	}
	s := redisdtest.Start(t, redisd.Options{})
	if group, err := syscall.Getpgid(s.PID()); err != nil || group != s.PID() {
		t.Errorf("the server %d is in process group %d (%v)", s.PID(), group, err)
	}
}

func TestKeeperIgnoresSignals(t *testing.T) {
	t.Parallel()
	k, p := startKept(t, redisd.Options{})
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if err := syscall.Kill(p.Keeper, signal); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if err := k.Err(); err != nil { // a keeper that a signal ended would say so here
		t.Error(err)
	}
	wantGone(t, p)
}

func TestKilledKeeperTakesTheServerAlong(t *testing.T) {
	t.Parallel()
	k, p := startKept(t, redisd.Options{})
	if err := syscall.Kill(p.Keeper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-k.Done()
	wantError(t, k.Err(), nil, "the keeper", "signal: killed")
	if runtime.GOOS == "linux" { // elsewhere Close tells the server to go
		eventually(t, "server gone with its keeper", func() bool { return !alive(p.PID) })
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, p)
}

func TestKeptServerThatDiesSaysWhy(t *testing.T) {
	t.Parallel()
	k, p := startKept(t, redisd.Options{})
	if err := k.Err(); err != nil {
		t.Errorf("it runs, but Err says %v", err)
	}
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-k.Done()
	wantError(t, k.Err(), nil, "-server ended: signal: killed", "accept connections")
	wantGone(t, p)
}

func TestTwoKeptAtOnce(t *testing.T) {
	t.Parallel()
	a, pa := startKept(t, redisd.Options{})
	b, pb := startKept(t, redisd.Options{})
	if err := client(t, a.Socket()).Set(t.Context(), "k", "a", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := client(t, b.Socket()).Exists(t.Context(), "k").Result(); n != 0 || err != nil {
		t.Errorf("one server under two sockets (%v)", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, pa)
	if !alive(pb.PID) || !exists(pb.Socket) {
		t.Error("closing one server took the other along")
	}
}

func TestKeptClock(t *testing.T) {
	t.Parallel()
	k, _ := startKept(t, redisd.Options{Clock: true})
	k.Clock().Freeze(1_234_567_890)
	if now, _ := serverTime(t, client(t, k.Socket())); now != 1_234_567_890 {
		t.Errorf("TIME says %d", now)
	}
}

func TestProgramThatCannotKeep(t *testing.T) {
	emptyTemp(t)
	for name, c := range map[string]struct {
		self func(...string) *exec.Cmd
		want string
	}{
		"no such command": {func(...string) *exec.Cmd { return self("mute") }, "no such command"},
		"no such program": {func(...string) *exec.Cmd { return exec.Command("/nonexistent/rlctl") }, "/nonexistent/rlctl"},
	} {
		_, err := redisd.StartKept(t.Context(), c.self, redisd.Options{})
		t.Log(name)
		wantError(t, err, nil, "keeper", c.want)
	}
}
