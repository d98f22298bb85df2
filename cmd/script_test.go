package cmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rlctl/rlctl/cmd"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/target"
)

// TestMain makes the test binary rlctl when it is called by that name, so that the scripts run the real command as
// real processes.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"rlctl": func() { main() }, "rlctl-spoiled": func() { main(spoiled()) }, "stubborn": stubborn,
		"held": held, "crowd": crowd,
	})
}

// main is that of the program, or of one with further limiters.
func main(entries ...target.Entry) {
	ctx, stop := cmd.WithSignals(context.Background())
	defer stop()
	os.Exit(cmd.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, entries...))
}

var update = flag.Bool("update", false, "rewrite what the scripts compare with")

// TestScripts runs testdata/script: each file is a promise to the user. ROOT is the module's folder. Beyond testscript's
// own commands they have
//
//	redis start [OPTION...]   a private server for this script, with a settable clock at 2023-11-14 22:13:20; sets SOCK and RLCTL_URL
//	redis tls CERT [OPTION...] the same on its real clock, and on a port with TLS: it shows CERT.pem and demands certificates; sets PORT
//	redis clock DURATION|real move its frozen clock, or let it run
//	redis stop                kill it
//	redis restart             start it again where it was, empty
//	redis freeze|thaw         let it stand still (SIGSTOP), or go on
//	redis do WORD...          send a command and print the reply
//	service KIND [tls]        a limiter behind HTTP, of a kind in services_test.go; sets SERVICE, and writes ca.pem for tls
//	nginx BURST               an nginx that limits ?key= to 60 a minute; sets NGINX
//	serve start [FLAG...]     an rlctl serve on a free port; sets SERVE, and its log is the file LOG
//	serve stop SIGNAL CODE    stop it, and hold it to its exit code
//	get URL [COUNT]           ask COUNT times; writes each answer as curl -i does, headers sorted, and its body to the file body
//	until PATTERN URL         ask until the answer fits
//	certificates              write ca.pem, server.pem, client.pem and others, with their keys
//	exits CODE COMMAND...     run a command that ends with this exit code
//	keeps SCHEMA FILE         hold each JSON document of a file against a schema in docs/schemas
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../testdata/script",
		UpdateScripts:       *update,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"redis": redisCommand, "exits": exits, "keeps": keeps, "service": serviceCommand, "nginx": nginxCommand,
			"serve": serveCommand, "get": getCommand, "until": untilCommand,
			"certificates": certificates,
		},
		Condition: func(name string) (bool, error) {
			if name != "pty" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0) // a bare chroot has none
			if err == nil {
				f.Close()
			}
			return err == nil, nil
		},
		Setup: func(env *testscript.Env) error {
			env.Values[serverOf{}] = &scripted{}
			env.Values[serviceOf{}] = &served{}
			root, err := filepath.Abs("..")
			env.Setenv("ROOT", root)
			return err
		},
	})
}

type serverOf struct{}

// scripted is the private server of one script.
type scripted struct {
	server *redisd.Server
	now    int64 // µs
}

const scriptStart = 1_700_000_000_000_000

func redisCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: redis start|clock|stop|restart|freeze|thaw|do")
	}
	s := ts.Value(serverOf{}).(*scripted)
	switch args[0] {
	case "start":
		s.start(ts, args[1:])
	case "tls":
		s.tls(ts, args[1], args[2:])
	case "clock":
		s.clock(ts, args[1])
	case "stop":
		s.server.Kill()
	case "restart":
		ts.Check(s.server.Restart(context.Background()))
	case "freeze":
		ts.Check(syscall.Kill(s.server.PID(), syscall.SIGSTOP))
	case "thaw":
		ts.Check(syscall.Kill(s.server.PID(), syscall.SIGCONT))
	case "do":
		s.do(ts, args[1:])
	default:
		ts.Fatalf("redis: unknown %q", args[0])
	}
}

func (s *scripted) start(ts *testscript.TestScript, options []string) {
	server, err := redisd.Start(context.Background(), redisd.Options{Clock: true, Args: options})
	ts.Check(err)
	ts.Defer(func() { ts.Check(server.Close()) })
	s.server, s.now = server, scriptStart
	server.Clock().Freeze(s.now)
	ts.Setenv("SOCK", server.Socket())
	ts.Setenv("RLCTL_URL", "unix://"+server.Socket())
}

// tls starts a server on a port that was free a moment before, or on another if somebody took it.
func (s *scripted) tls(ts *testscript.TestScript, cert string, options []string) {
	var err error
	for range 5 {
		l, listening := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(listening)
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ts.Check(l.Close())
		args := append([]string{"--bind", "127.0.0.1", "--tls-port", port, "--tls-cert-file", ts.MkAbs(cert + ".pem"),
			"--tls-key-file", ts.MkAbs(cert + ".key"), "--tls-ca-cert-file", ts.MkAbs("ca.pem")}, options...)
		if s.server, err = redisd.Start(context.Background(), redisd.Options{Args: args}); err == nil {
			ts.Setenv("PORT", port)
			break
		}
	}
	ts.Check(err)
	server := s.server
	ts.Defer(func() { ts.Check(server.Close()) })
	ts.Setenv("SOCK", server.Socket())
}

func (s *scripted) clock(ts *testscript.TestScript, move string) {
	if move == "real" {
		s.server.Clock().Real()
		return
	}
	d, err := time.ParseDuration(move)
	ts.Check(err)
	s.now += d.Microseconds()
	s.server.Clock().Freeze(s.now)
}

func (s *scripted) do(ts *testscript.TestScript, words []string) {
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.server.Socket(), Protocol: 2, DisableIdentity: true})
	defer rdb.Close()
	args := make([]any, len(words))
	for i, w := range words {
		args[i] = w
	}
	reply, err := rdb.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		ts.Fatalf("redis do %s: %v", strings.Join(words, " "), err)
	}
	fmt.Fprintln(ts.Stdout(), reply)
}

func keeps(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: keeps SCHEMA FILE")
	}
	schema, err := schemaOf(args[0])
	ts.Check(err)
	documents, n := json.NewDecoder(strings.NewReader(ts.ReadFile(args[1]))), 0
	for ; documents.More(); n++ {
		var raw json.RawMessage
		ts.Check(documents.Decode(&raw))
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		ts.Check(err)
		if err := schema.Validate(value); (err != nil) != neg {
			ts.Fatalf("document %d of %s: %v", n+1, args[1], err)
		}
	}
	if n == 0 {
		ts.Fatalf("%s is empty", args[1])
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
