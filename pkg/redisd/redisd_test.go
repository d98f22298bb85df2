package redisd_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
)

func TestServerIsPrivateAndKeepsNothing(t *testing.T) {
	emptyTemp(t)
	s := redisdtest.Start(t, redisd.Options{Args: []string{"--maxmemory", "7mb"}})
	c := client(t, s.Socket())
	for option, want := range map[string]string{
		"port": "0", "save": "", "appendonly": "no", "lazyfree-lazy-expire": "yes", "maxmemory": "7340032",
	} {
		if got, err := c.ConfigGet(t.Context(), option).Result(); err != nil || got[option] != want {
			t.Errorf("%s: got %q (%v), want %q", option, got[option], err, want)
		}
	}
	for path, want := range map[string]os.FileMode{s.Dir(): 0o700 | os.ModeDir, s.Socket(): 0o700 | os.ModeSocket} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: got %v (%v), want %v", path, info.Mode(), err, want)
		}
	}
	info, err := c.InfoMap(t.Context(), "server").Result()
	if err != nil || !strings.Contains(strings.Join([]string{info["Server"]["redis_version"], info["Server"]["valkey_version"]}, " "), s.Version()) {
		t.Errorf("%s %s is, by its own account, %v (%v)", s.Name(), s.Version(), info["Server"], err)
	}
}

func TestCloseTakesServerAndFolder(t *testing.T) {
	t.Parallel()
	a, b := redisdtest.Start(t, redisd.Options{}), redisdtest.Start(t, redisd.Options{})
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Fatal(err)
	}
	if alive(a.PID()) || exists(a.Dir()) {
		t.Errorf("after Close: process %d %v, folder %v", a.PID(), alive(a.PID()), exists(a.Dir()))
	}
	if err := a.Err(); err != nil {
		t.Errorf("closed by us, but Err says %v", err)
	}
	if err := client(t, b.Socket()).Ping(t.Context()).Err(); err != nil {
		t.Errorf("the other server: %v", err)
	}
}

func TestRestartComesBackEmptyOnTheSameSocket(t *testing.T) {
	t.Parallel()
	s := redisdtest.Start(t, redisd.Options{Clock: true})
	c, ctx := client(t, s.Socket()), t.Context()
	s.Clock().Freeze(5_000_000)
	sha := c.ScriptLoad(ctx, "return 1").Val()
	c.Set(ctx, "k", "v", 0)
	before := s.PID()
	s.Kill()
	if alive(before) {
		t.Fatal("alive after Kill")
	}
	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	c = client(t, s.Socket())
	if n, err := c.Exists(ctx, "k").Result(); n != 0 || err != nil {
		t.Errorf("the key is still there (%v)", err)
	}
	if err := c.EvalSha(ctx, sha, nil).Err(); !redis.HasErrorPrefix(err, "NOSCRIPT") {
		t.Errorf("EVALSHA after a restart: %v", err)
	}
	if now, _ := serverTime(t, c); now != 5_000_000 {
		t.Errorf("the clock went on to %d", now)
	}
	if err := s.Restart(ctx); err != nil || s.PID() == before {
		t.Errorf("restart of a running server: pid %d, was %d (%v)", s.PID(), before, err)
	}
}

func TestServerThatDiesSaysWhy(t *testing.T) {
	t.Parallel()
	s := redisdtest.Start(t, redisd.Options{})
	if err := s.Err(); err != nil {
		t.Errorf("it runs, but Err says %v", err)
	}
	if err := client(t, s.Socket()).Shutdown(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	wantError(t, s.Err(), nil, "-server ended: exit status 0", "ready to exit")
}

// wantError checks what an error is and that its text has all parts.
func wantError(t *testing.T, err, is error, parts ...string) {
	t.Helper()
	if err == nil || is != nil && !errors.Is(err, is) {
		t.Fatalf("got error %v, want %v", err, is)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q:\n%v", part, err)
		}
	}
}

// starts are the two ways to a server, for what must hold of both.
var starts = map[string]func(context.Context, redisd.Options) error{
	"Start": func(ctx context.Context, o redisd.Options) error { _, err := redisd.Start(ctx, o); return err },
	"StartKept": func(ctx context.Context, o redisd.Options) error {
		_, err := redisd.StartKept(ctx, self, o)
		return err
	},
}

func TestFailedStartSaysWhyAndLeavesNothing(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	brief, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	noTools, noCC, garbage := t.TempDir(), t.TempDir(), t.TempDir()
	link(t, installed(t), noCC, "redis-server")
	if err := os.WriteFile(filepath.Join(garbage, "redis-server"), []byte("not a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	link(t, "true", other, "redis-server")

	for _, c := range []struct {
		name  string
		ctx   context.Context
		path  string
		opts  redisd.Options
		is    error
		parts []string
	}{
		{"bad option", t.Context(), "", redisd.Options{Args: []string{"--bogus", "yes"}}, nil, []string{"-server ended: exit status 1", "bogus", "Bad directive"}},
		{"canceled", canceled, "", redisd.Options{}, context.Canceled, nil},
		{"no answer", brief, "", redisd.Options{Args: []string{"--unixsocket", "elsewhere"}}, context.DeadlineExceeded, nil},
		{"not installed", t.Context(), noTools, redisd.Options{}, redisd.ErrNotFound, nil},
		{"no compiler", t.Context(), noCC, redisd.Options{Clock: true}, redisd.ErrNoClock, []string{"C compiler"}},
		{"not a program", t.Context(), garbage, redisd.Options{}, nil, []string{garbage, "exec format error"}},
		{"another program", t.Context(), other, redisd.Options{}, nil, []string{other, "--version"}},
	} {
		for way, start := range starts {
			if c.name == "no compiler" && way == "Start" {
				continue // this process has built its library; TestBuildWithoutCompiler asks anew
			}
			t.Run(c.name+"/"+way, func(t *testing.T) {
				emptyTemp(t)
				if c.path != "" {
					t.Setenv("PATH", c.path)
				}
				wantError(t, start(c.ctx, c.opts), c.is, c.parts...)
			})
		}
	}
}

// installed names the server of this machine.
func installed(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"redis-server", "valkey-server"} {
		if _, err := exec.LookPath(name); err == nil {
			return name
		}
	}
	t.Fatal(redisd.ErrNotFound)
	return ""
}

// link puts an installed program into dir under a name of its own.
func link(t *testing.T, program, dir, name string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		err = os.Symlink(path, filepath.Join(dir, name))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestBuildWithoutCompiler(t *testing.T) {
	emptyTemp(t)
	none, broken := t.TempDir(), t.TempDir()
	link(t, "false", broken, "cc")
	for _, path := range []string{none, broken} {
		t.Setenv("PATH", path)
		_, err := redisd.Build()
		wantError(t, err, redisd.ErrNoClock)
	}
}

func TestTemporaryFolderOfAnyKind(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	for name, c := range map[string]struct {
		tmp   string
		under string
	}{
		"plain":    {filepath.Join(root, "t"), root},
		"spaces":   {filepath.Join(root, "a b:c"), root},
		"relative": {"t2", root},
		"long":     {filepath.Join(root, strings.Repeat("long", 25)), "/tmp"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.Mkdir(c.tmp, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("TMPDIR", c.tmp)
			for way, start := range map[string]func() (server, error){
				"Start":     func() (server, error) { return redisd.Start(t.Context(), redisd.Options{Clock: true}) },
				"StartKept": func() (server, error) { return redisd.StartKept(t.Context(), self, redisd.Options{Clock: true}) },
			} {
				s, err := start()
				if err != nil {
					t.Fatalf("%s: %v", way, err)
				}
				if !strings.HasPrefix(s.Socket(), c.under+"/") || len(s.Socket()) > 100 || filepath.Dir(s.Socket()) != s.Dir() {
					t.Errorf("%s: socket %s in folder %s", way, s.Socket(), s.Dir())
				}
				s.Clock().Freeze(42)
				if now, _ := serverTime(t, client(t, s.Socket())); now != 42 {
					t.Errorf("%s: frozen at 42, TIME says %d", way, now)
				}
				if err := s.Close(); err != nil || exists(s.Dir()) {
					t.Errorf("%s: folder left: %v (%v)", way, exists(s.Dir()), err)
				}
			}
			if left, err := os.ReadDir(c.tmp); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v (%v)", left, err)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Setenv("TMPDIR", filepath.Join(root, "nowhere"))
		for way, start := range starts {
			if err := start(t.Context(), redisd.Options{}); !errors.Is(err, os.ErrNotExist) && !strings.Contains(err.Error(), "nowhere") {
				t.Errorf("%s: %v", way, err)
			}
		}
	})
}

// server is what Server and Kept have in common.
type server interface {
	Socket() string
	Dir() string
	Name() string
	Version() string
	PID() int
	Clock() *redisd.Clock
	Done() <-chan struct{}
	Err() error
	Close() error
}

func TestValkeyWhereThereIsNoRedis(t *testing.T) {
	emptyTemp(t)
	bin := t.TempDir()
	link(t, installed(t), bin, "valkey-server")
	t.Setenv("PATH", bin)
	s := redisdtest.Start(t, redisd.Options{})
	if err := client(t, s.Socket()).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

// A server from 7.2 on refuses to start in a locale that is not installed; an older one does not care.
func TestUnknownLocale(t *testing.T) {
	t.Setenv("LC_ALL", "xx_YY.utf8")
	redisdtest.Start(t, redisd.Options{})
}

func TestStoppedServerIsClosed(t *testing.T) {
	t.Parallel()
	s := redisdtest.Start(t, redisd.Options{})
	if err := syscall.Kill(s.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil || alive(s.PID()) {
		t.Errorf("a stopped server outlives Close (%v)", err)
	}
}
