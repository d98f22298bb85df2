// Package redisd runs private Redis servers for experiments and tests.
//
// A private server listens on a Unix socket in a fresh folder that only its owner may enter, has no TCP port, keeps
// nothing on disk, and is killed rather than asked to stop: nothing in it is worth saving. Two ways to run one:
//
//   - [Start] makes the server a direct child. On Linux the kernel kills it with the process that started it, but the
//     folder then stays. Good enough for tests.
//   - [StartKept] puts a small keeper process in between, which takes server and folder away whatever becomes of the
//     process that asked for them. Commands that a user may interrupt or kill use this.
//
// What it gives up: Windows, and a server that outlives its user.
package redisd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startLimit bounds the time from exec to the first answer. A healthy server needs some ten milliseconds.
const startLimit = 10 * time.Second

// maxSocketPath is the longest socket path used, in bytes: sockaddr_un holds 103 on macOS, 107 on Linux.
const maxSocketPath = 100

const socketName = "redis.sock"

// Options say how a private server differs from a plain one.
type Options struct {
	Clock bool     `json:"clock,omitempty"` // with a settable clock: Linux only, and a C compiler must be installed
	Args  []string `json:"args,omitempty"`  // further redis-server options, such as "--maxmemory", "2mb"
	// Sentinel makes it a sentinel that watches nobody yet.
	Sentinel bool `json:"sentinel,omitempty"`
}

// Running is a private server, whoever is its parent: a [Server] or a [Kept].
type Running interface {
	Socket() string
	Dir() string
	Version() string
	PID() int
	Stop() error     // as SIGSTOP does: it keeps its connections and answers nobody, until Continue
	Continue() error // lets a stopped server go on
	Kill() error     // as kill -9 does; the folder stays, for Restart
	Restart(ctx context.Context) error
	Done() <-chan struct{}
	Err() error
	Close() error
}

// where tells a server's folder and kind.
type where struct {
	dir  string
	prog program
}

// Socket returns the absolute path of the server's Unix socket, at most 100 bytes long.
func (w where) Socket() string { return filepath.Join(w.dir, socketName) }

// Dir returns the absolute path of the server's folder, which goes when the server is closed.
func (w where) Dir() string { return w.dir }

// Name returns what the server calls itself: "redis", "valkey" or "redict".
func (w where) Name() string { return w.prog.name }

// Version returns the server's version, such as "7.0.15".
func (w where) Version() string { return w.prog.version }

// Server is a private server that is a direct child of this process.
type Server struct {
	where
	opts  Options
	clock *Clock

	mu   sync.Mutex
	proc *process // the present process, or the last one after Kill
}

// Start runs a private server and returns when it answers. ctx bounds the start alone; Close ends the server.
//
// Errors: [ErrNotFound] when no server is installed, [ErrNoFolder] when none can be made, [ErrNoClock] when a settable
// clock was asked for and cannot be had, else the reason with the server's last log lines. A failed start leaves nothing
// behind.
func Start(ctx context.Context, opts Options) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	prog, err := find(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := makeDir()
	if err != nil {
		return nil, told{"make a folder for the private server: " + err.Error(), ErrNoFolder}
	}
	s := &Server{where: where{dir: dir, prog: prog}, opts: opts}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) (err error) {
	if !s.opts.Clock {
		return s.run(ctx)
	}
	if s.clock, err = newClock(s.dir); err != nil {
		return err
	}
	if err := s.run(ctx); err != nil {
		return err
	}
	if err := preloaded(s.PID()); err != nil {
		return err
	}
	return s.clock.obeyed(ctx, s.Socket())
}

// makeDir makes the server's folder in the system's temporary folder, or in /tmp where the socket's path gets too long.
func makeDir() (string, error) {
	dir, err := os.MkdirTemp("", "rlctl-redis-")
	if err != nil {
		return "", err
	}
	abs, err := filepath.Abs(dir)
	if err == nil && len(filepath.Join(abs, socketName)) <= maxSocketPath {
		return abs, nil
	}
	if err := os.Remove(dir); err != nil {
		return "", err
	}
	return os.MkdirTemp("/tmp", "rlctl-redis-")
}

// run starts the server's process and waits for its first answer.
func (s *Server) run(ctx context.Context) error {
	args := []string{
		"--port", "0", "--unixsocket", socketName, "--unixsocketperm", "700",
		"--save", "", "--appendonly", "no", "--lazyfree-lazy-expire", "yes",
		"--daemonize", "no", "--logfile", "", "--loglevel", "notice",
	}
	if s.opts.Sentinel {
		if err := s.writeState(); err != nil {
			return err
		}
		args = append([]string{sentinelState, "--sentinel"}, args...)
	}
	if s.clock != nil { // its background thread sleeps until a time of day, which under a clock that stands still is never
		args = append(args, "--jemalloc-bg-thread", "no")
	}
	cmd := exec.Command(s.prog.path, append(args, s.opts.Args...)...)
	// The server works in its folder and is told relative paths only, which no TMPDIR can make too long or unfit.
	// An unknown locale would stop a server from 7.2 on.
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "LC_ALL=C")
	if s.clock != nil {
		cmd.Env = append(cmd.Env, "LD_PRELOAD=./"+libraryName, "RLCTL_CLOCK=./"+wordName)
	}
	proc, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.prog.path, err)
	}
	s.proc = proc
	if err := answers(ctx, s.Socket(), proc.done); err != nil {
		proc.kill()
		return s.diagnose(proc, err)
	}
	return nil
}

// diagnose adds to err what the server said last.
func (s *Server) diagnose(p *process, err error) error {
	if p.died {
		err = fmt.Errorf("%s ended: %s", filepath.Base(s.prog.path), p.cmd.ProcessState)
	}
	if log := p.log.last(5); len(log) > 0 {
		return fmt.Errorf("%w; its last words:\n    %s", err, strings.Join(log, "\n    "))
	}
	return err
}

// PID returns the process id of the server, which Restart changes.
func (s *Server) PID() int { return s.current().cmd.Process.Pid }

// Done returns a channel that is closed when the present server process has ended.
func (s *Server) Done() <-chan struct{} { return s.current().done }

// Err tells, once Done is closed, how the server ended: nil when it was killed by Close, Kill or Restart, else the
// reason and its last log lines.
func (s *Server) Err() error {
	p := s.current()
	select {
	case <-p.done:
	default:
		return nil
	}
	if p.died {
		return s.diagnose(p, nil)
	}
	return nil
}

// Log returns the last lines the server wrote, at most 50.
func (s *Server) Log() []string { return s.current().log.last(keptLines) }

// Clock returns the server's settable clock, nil unless Options asked for one. It starts as the real time.
func (s *Server) Clock() *Clock { return s.clock }

func (s *Server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// Kill ends the server as kill -9 does and waits until it is gone. The folder stays, for Restart. It returns nil.
func (s *Server) Kill() error {
	if p := s.current(); p != nil {
		p.kill()
	}
	return nil
}

// Stop stops the server as SIGSTOP does: it keeps its connections and answers nobody, until Continue.
func (s *Server) Stop() error { return s.signal(syscall.SIGSTOP) }

// Continue lets a stopped server go on.
func (s *Server) Continue() error { return s.signal(syscall.SIGCONT) }

// sentinelState is the file in which a sentinel keeps what it knows.
const sentinelState = "sentinel.conf"

// writeState makes that file, without which no sentinel starts, unless an earlier run left it.
func (s *Server) writeState() error {
	f, err := os.OpenFile(filepath.Join(s.dir, sentinelState), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("keep what the sentinel knows: %w", err)
	}
	return f.Close()
}

func (s *Server) signal(sig syscall.Signal) error {
	if err := s.current().cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signal the server: %w", err)
	}
	return nil
}

// Restart kills the server if it still runs and starts it again on the same socket, in the same folder and with the
// same clock. It comes back empty unless Options made it write to its folder.
func (s *Server) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.kill()
	return s.run(ctx)
}

// Close kills the server and removes its folder. Closing again does nothing.
func (s *Server) Close() error {
	s.Kill()
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove the private server's folder: %w", err)
	}
	return nil
}
