package redisd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/redisd"
)

// TestMain lets this binary be, by its first argument, the other processes of the tests.
func TestMain(m *testing.M) {
	roles := map[string]func() error{
		redisd.KeeperCommand: func() error { return redisd.Keep(os.Stdin, os.Stdout) },
		"parent":             parent,
		"mute":               func() error { return errors.New("no such command") },
	}
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		if err := roles[os.Args[1]](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// self runs this binary in another role. A process under the race detector would else take a second to exit.
func self(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	return cmd
}

// place is what the parent role tells of its server.
type place struct {
	Socket, Dir string
	PID, Keeper int
}

// parent starts a kept server and tells where. Upon SIGINT it says whether the server still answers, and closes it.
func parent() error {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	k, err := redisd.StartKept(context.Background(), self, redisd.Options{})
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(place{k.Socket(), k.Dir(), k.PID(), k.KeeperPID()}); err != nil {
		return err
	}
	<-interrupted
	if err := out.Encode(alive(k.PID())); err != nil {
		return err
	}
	return k.Close()
}

// alive tells whether the process runs. One that has ended and waits to be reaped does not.
func alive(pid int) bool {
	if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil {
		_, state, _ := strings.Cut(string(stat), ") ")
		return !strings.HasPrefix(state, "Z")
	}
	return syscall.Kill(pid, 0) == nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// eventually waits until the condition holds, at most five times the second in which everything must be gone.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline, again := time.After(5*time.Second), time.NewTicker(2*time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		case <-again.C:
		}
	}
}

// emptyTemp makes an empty folder the temporary one for the length of the test, which must leave it empty.
func emptyTemp(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v (%v)", left, err)
		}
	})
	return dir
}
