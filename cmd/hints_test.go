package cmd

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

func refused(at string, class limiter.Class, err error) error {
	return redisError{at, fmt.Errorf("check: %w", &limiter.Error{
		Limiter: "gcra", Class: class, Unknown: class == limiter.ClassNoAnswer, Err: err,
	})}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, c := range []struct {
		err  error
		want string
		code int
	}{{
		refused("127.0.0.1:6379", limiter.ClassUnreachable, dial),
		"rlctl: cannot reach redis at 127.0.0.1:6379 (connection refused)\n" +
			"  start one: redis-server &    or point elsewhere: rlctl check client-1 -u redis://HOST:PORT\n",
		69,
	}, {
		refused("db:6379", limiter.ClassUnreachable, &net.DNSError{Err: "no such host", Name: "db"}),
		"rlctl: cannot reach redis at db:6379 (no such host)\n" +
			"  is it running there?    or point elsewhere: rlctl check client-1 -u redis://HOST:PORT\n",
		69,
	}, {
		refused(privateServer, limiter.ClassUnreachable, os.NewSyscallError("connect", syscall.ENOENT)),
		"rlctl: cannot reach redis at its private socket (no such file or directory)\n" +
			"  it ended during the run; try again    or point elsewhere: rlctl check client-1 -u redis://HOST:PORT\n",
		69,
	}, {
		refused("db:6379", limiter.ClassNoAnswer, os.ErrDeadlineExceeded),
		"rlctl: redis at db:6379 did not answer (timed out); the request may have been counted\n" +
			"  wait longer: --timeout 5s    a server that wants TLS: --tls\n",
		69,
	}, {
		refused("db:6379", limiter.ClassNoAnswer, io.EOF),
		"rlctl: redis at db:6379 ended the connection (EOF); the request may have been counted\n" +
			"  is it running there?    or point elsewhere: rlctl check client-1 -u redis://HOST:PORT\n",
		69,
	}, {
		refused(privateServer, limiter.ClassNoAnswer, os.NewSyscallError("read", syscall.ECONNRESET)),
		"rlctl: redis at its private socket ended the connection (connection reset by peer); the request may have been counted\n" +
			"  it ended during the run; try again    or point elsewhere: rlctl check client-1 -u redis://HOST:PORT\n",
		69,
	}, {
		refused("db:6379", limiter.ClassNoAnswer, os.NewSyscallError("read", syscall.ECONNRESET)),
		"rlctl: redis at db:6379 ended the connection (connection reset by peer); the request may have been counted\n" +
			"  is it a server that wants TLS? --tls    does it take no more connections? redis-cli CONFIG GET maxclients\n",
		69,
	}, {
		refused("unix:/run/redis.sock", limiter.ClassNoAnswer, os.NewSyscallError("read", syscall.ECONNRESET)),
		"rlctl: redis at unix:/run/redis.sock ended the connection (connection reset by peer); the request may have been counted\n" +
			"  it hung up: does it take no more connections? redis-cli CONFIG GET maxclients\n",
		69,
	}, {
		refused("db:6379", limiter.ClassLoading, errors.New("LOADING Redis is loading the dataset in memory")),
		"rlctl: redis at db:6379 is not ready: LOADING Redis is loading the dataset in memory\n" +
			"  try again in a moment\n",
		69,
	}, {
		refused("db:6379", limiter.ClassAuth, errors.New("NOAUTH Authentication required.")),
		"rlctl: redis at db:6379 refused: NOAUTH Authentication required.\n" +
			"  log in: REDISCLI_AUTH=... or --pass-file FILE, with --user NAME    rights: redis-cli ACL WHOAMI\n",
		77,
	}, {
		refused("db:26379 sentinel m", limiter.ClassAuth, errors.New("NOAUTH Authentication required.")),
		"rlctl: redis at db:26379 sentinel m refused: NOAUTH Authentication required.\n" +
			"  log in: REDISCLI_AUTH=... or --pass-file FILE    at the sentinels themselves: --sentinel-pass-file FILE\n",
		77,
	}, {
		refused("db:6379 sentinel m", limiter.ClassOther, errors.New("unknown command 'sentinel'")),
		"rlctl: redis at db:6379 sentinel m: it is no sentinel\n" +
			"  ask one, often on port 26379, or leave out --sentinel-master m\n",
		69,
	}, {
		refused("10.0.0.1:6379 cluster", limiter.ClassUnreachable, &net.OpError{Op: "dial", Net: "tcp",
			Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 6379}, Err: dial.Err}),
		"rlctl: cannot reach 10.0.0.2:6379, a node of redis at 10.0.0.1:6379 cluster (connection refused)\n" +
			"  which nodes are down: rlctl doctor --cluster\n",
		69,
	}, {
		refused("db:6379", limiter.ClassReadOnly, errors.New("gcra.lua:134: MISCONF Redis is configured to save RDB snapshots")),
		"rlctl: redis at db:6379 refuses writes: gcra.lua:134: MISCONF Redis is configured to save RDB snapshots\n" +
			"  it could not save to its disk: redis-cli INFO persistence    what else: rlctl doctor\n",
		69,
	}, {
		refused("db:6379", limiter.ClassReadOnly, errors.New("gcra.lua:134: NOREPLICAS Not enough good replicas to write.")),
		"rlctl: redis at db:6379 refuses writes: gcra.lua:134: NOREPLICAS Not enough good replicas to write.\n" +
			"  fewer replicas follow than min-replicas-to-write wants: rlctl doctor\n",
		69,
	}, {
		refused("db:6379", limiter.ClassWrongType, errors.New("WRONGTYPE wrong")),
		"rlctl: redis at db:6379: WRONGTYPE wrong\n" +
			"  the key belongs to something else; take another word: --prefix WORD\n",
		69,
	}, {
		refused("db:6379", limiter.ClassOther, errors.New("ERR \x1b[31m")),
		"rlctl: redis at db:6379: ERR \\x1b[31m\n",
		69,
	}, {
		refused("db:6379", limiter.ClassInvalid, &limiter.FieldError{Field: "key", Problem: "must not be empty"}),
		"rlctl: KEY must not be empty\n",
		64,
	}, {
		writeError{"out.json", &os.PathError{Op: "open", Path: "out.json", Err: syscall.EACCES}},
		"rlctl: cannot write to out.json (permission denied)\n",
		74,
	}, {
		listenError{"127.0.0.1:80", &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EACCES)}},
		"rlctl: cannot listen on 127.0.0.1:80 (permission denied)\n" +
			"  ports below 1024 want a right of their own (CAP_NET_BIND_SERVICE); take a higher one: --listen HOST:PORT\n",
		74,
	}, {
		usageError{errors.New("--x: no"), "try --y"},
		"rlctl: --x: no\n  try --y\n",
		64,
	}, {
		errors.New("lost"),
		"rlctl: lost\n  this is a defect of rlctl: please report it with the command that you typed\n",
		70,
	}} {
		if got := explain(c.err, "rlctl check client-1"); got != c.want {
			t.Errorf("explained as\n%swant\n%s", got, c.want)
		}
		if code := exitCode(c.err); code != c.code {
			t.Errorf("%v: exit code %d, want %d", c.err, code, c.code)
		}
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errBroken, 1},
		{fmt.Errorf("race: %w", errInconclusive), 3},
		{errors.Join(errBroken, writeError{"x", syscall.ENOSPC}), 74},
		{Signal{syscall.SIGINT}, 130},
		{errors.Join(errInconclusive, Signal{syscall.SIGTERM}), 143},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
	for _, class := range []limiter.Class{
		limiter.ClassNoAnswer, limiter.ClassBusy, limiter.ClassReadOnly, limiter.ClassOOM, limiter.ClassCluster,
		limiter.ClassNoScript, limiter.ClassContention, limiter.ClassScript, limiter.ClassOther,
	} {
		if got := exitCode(refused("db:6379", class, errors.New("no"))); got != 69 {
			t.Errorf("%s: exit code %d, want 69", class, got)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	names := []string{"sliding-log", "sliding-counter", "gcra", "--limit", "--limiter"}
	for word, want := range map[string]string{
		"sliding-lgo": "did you mean sliding-log?",
		"GCRA":        "did you mean gcra?",
		"gcar":        "did you mean gcra?",
		"--limt":      "did you mean --limit?",
		"--limite":    "did you mean --limit?",
		"sliding-c":   "did you mean sliding-counter?",
		"nothing":     "",
		"":            "",
	} {
		if got := didYouMean(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "500ms": 500 * time.Millisecond, "1m30s": 90 * time.Second, "1d": day, "1d12h": day + 12*time.Hour,
		"366d": 366 * day, "-1s": -time.Second, "0d1us": time.Microsecond, "10000d": 10000 * day,
	} {
		if got, err := parseDuration(text); got != want || err != nil {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "1", "-1d", "1.5d", "1h1d", "1d-25h", "1d 1h", "106752d", "99999999999999999999d", "nan"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"redis://user:secret@host:1/2": "redis://***@host:1/2",
		"redis://:a/b@c@host":          "redis://***@host",
		"plain":                        "plain",
		"a@b":                          "a@b",
	} {
		if got := redacted(word); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
