package redisd

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A settable clock makes tests of window edges exact and free of sleeping. A small C library, built by the test and
// preloaded into the server, answers TIME and decides expiry from one 64-bit word that this process shares with the
// server through a memory-mapped file. One atomic store therefore moves both at once, and the next command sees it.
//
// Monotonic clocks stay real, so that the server's own housekeeping goes on; a BLPOP or WAIT timeout under a frozen
// clock waits for a jump. Times measured by the server itself (commandstats) read 0 under a frozen clock.

// ErrNoClock is returned when a settable clock is asked for where there is none.
var ErrNoClock = errors.New("no settable clock")

const (
	libraryName = "clock.so"
	wordName    = "clock.word"
)

//go:embed preload/clock.c
var source string

// library returns the built library. It is built once a process.
var library = sync.OnceValues(build)

// Clock is the wall clock of one server, as the server sees it. Its methods may be called at any time from any
// goroutine, also after the server was closed.
type Clock struct{ word *uint64 }

// The word's mode, in its two highest bits. The other bits hold a signed number of microseconds.
const (
	frozen = 1 << 62
	offset = 2 << 62
	rest   = 1<<62 - 1
)

// Freeze stops the clock at us microseconds after the epoch, 0 ≤ us < 2^53 (the year 2255).
func (c *Clock) Freeze(us int64) { atomic.StoreUint64(c.word, frozen|uint64(us)&rest) }

// Offset lets the clock run d ahead of the real one, or behind it when d is negative, in whole microseconds.
func (c *Clock) Offset(d time.Duration) {
	atomic.StoreUint64(c.word, offset|uint64(d.Microseconds())&rest)
}

// Real gives the server the real time again.
func (c *Clock) Real() { atomic.StoreUint64(c.word, 0) }

// newClock puts the library and the shared word into dir. The mapping lasts as long as this process, so that a Clock
// outlives its server without harm; it is a page a server.
func newClock(dir string) (*Clock, error) {
	lib, err := library()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, libraryName), lib, 0o700); err != nil {
		return nil, fmt.Errorf("write the clock library: %w", err)
	}
	c, err := mapWord(filepath.Join(dir, wordName))
	if err != nil {
		return nil, fmt.Errorf("share the clock: %w", err)
	}
	return c, nil
}

func mapWord(path string) (*Clock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Written, not truncated: storing into a hole of a full disk is a SIGBUS.
	if _, err := f.WriteAt(make([]byte, 8), 0); err != nil {
		return nil, err
	}
	page, err := syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &Clock{word: (*uint64)(unsafe.Pointer(&page[0]))}, nil
}

// preloaded returns an error unless the process runs with the library. A static binary, say, would not.
func preloaded(pid int) error {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return fmt.Errorf("see whether the server took the clock library: %w", err)
	}
	if !strings.Contains(string(maps), libraryName) {
		return fmt.Errorf("%w: the server did not load the library", ErrNoClock)
	}
	return nil
}

// obeyed returns an error if the server answers TIME with anything but what the clock says. Valkey 9.1 does: it reads the
// clock now and then, and counts on in between. A server that refuses TIME does not tell.
func (c *Clock) obeyed(ctx context.Context, socket string) error {
	const seconds, micros = 1_700_000_000, 123_456
	c.Freeze(seconds*1_000_000 + micros)
	defer c.Real()
	reply, err := lines(ctx, socket, "TIME", 5) // *2 $10 1700000000 $6 123456
	switch {
	case err != nil:
		return fmt.Errorf("see whether the server obeys the clock: %w", err)
	case strings.HasPrefix(reply[0], "-"):
		return nil
	case reply[2] != strconv.Itoa(seconds) || reply[4] != strconv.Itoa(micros):
		return fmt.Errorf("%w: this server does not read the clock each time", ErrNoClock)
	}
	return nil
}

// build compiles the library and returns its bytes.
func build() ([]byte, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("%w: it is built for Linux only, this is %s", ErrNoClock, runtime.GOOS)
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		return nil, fmt.Errorf("%w: it needs a C compiler, and cc is not on PATH", ErrNoClock)
	}
	dir, err := os.MkdirTemp("", "rlctl-clock-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the clock library: %w", err)
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, libraryName)
	cmd := exec.Command(cc, "-O2", "-shared", "-fPIC", "-x", "c", "-o", out, "-")
	cmd.Stdin, cmd.Env = strings.NewReader(source), append(os.Environ(), "TMPDIR="+dir)
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w\n%s", ErrNoClock, cmd, err, said)
	}
	return os.ReadFile(out)
}
