package cmd_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rlctl/rlctl/cmd"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
)

// run is one command line in this process, and its exit code.
func run(args []string, entries ...target.Entry) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = cmd.Main(context.Background(), args, strings.NewReader(""), &out, &err, entries...)
	return code, out.String(), err.String()
}

func TestOutputKeepsItsSchema(t *testing.T) {
	t.Parallel()
	server := redisdtest.Start(t, redisd.Options{})
	at := []string{"-s", server.Socket(), "--format", "json"}
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"version", "--format", "json"}, 0},
		{[]string{"list", "--format", "json"}, 0},
		{append([]string{"check", "a"}, at...), 0},
		{append([]string{"check", "a", "--limit", "1"}, at...), 1},
		{append([]string{"check", "a", "--cost", "101"}, at...), 1},
		{append([]string{"check", "a", "--peek", "--cost", "100"}, at...), 1},
		{append([]string{"check", "a", "--limiter", "naive-bucket", "--burst", "3", "--count", "5"}, at...), 1},
		{append([]string{"script", "load"}, at...), 0},
		{append([]string{"script", "verify"}, at...), 0},
		{append([]string{"script", "flush", "--yes"}, at...), 0},
		{append([]string{"script", "list"}, at...), 0},
	} {
		code, stdout, stderr := run(c.args)
		if code != c.code {
			t.Errorf("%v: exit code %d, want %d; %s", c.args, code, c.code, stderr)
		}
		if !strings.HasSuffix(stdout, "}\n") {
			t.Errorf("%v: does not end in one newline: %q", c.args, stdout)
		}
		for _, fault := range validate(t, stdout) {
			t.Errorf("%v: %v\n%s", c.args, fault, stdout)
		}
	}
}

// validate checks each JSON document of an output against the schema that it names.
func validate(t *testing.T, output string) (faults []error) {
	t.Helper()
	documents := json.NewDecoder(strings.NewReader(output))
	for n := 0; ; n++ {
		var raw json.RawMessage
		if err := documents.Decode(&raw); err != nil {
			if errors.Is(err, io.EOF) && n > 0 {
				return faults
			}
			return append(faults, err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		name, _ := value.(map[string]any)["schema"].(string)
		schema, err := jsonschema.NewCompiler().Compile(filepath.Join("../docs/schemas", strings.ReplaceAll(name, "/", ".")+".json"))
		if err != nil {
			return append(faults, err)
		}
		if err := schema.Validate(value); err != nil {
			faults = append(faults, err)
		}
		if !bytes.HasPrefix(bytes.TrimLeft(raw, "{ \n"), []byte(`"schema"`)) {
			faults = append(faults, errors.New("schema is not the first field"))
		}
	}
}

func TestSchemasRefuse(t *testing.T) {
	t.Parallel()
	for _, output := range []string{
		`{"schema":"rlctl.version/v1"}`,
		`{"schema":"rlctl.none/v1"}`,
		`{"schema":"rlctl.list/v1","results":[]}`,
		``,
	} {
		if len(validate(t, output)) == 0 {
			t.Errorf("%s: accepted", output)
		}
	}
}

// Another module adds limiters of its own.
func TestFurtherEntries(t *testing.T) {
	t.Parallel()
	server := redisdtest.Start(t, redisd.Options{})
	mine := target.Entry{
		Name: "mine", Summary: "refuses all", BrokenBy: target.Nothing, Rule: model.FixedWindow(),
		New: func(redis.UniversalClient, limiter.Limit, ...limiter.Option) (limiter.Limiter, error) {
			return limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
				return limiter.Decision{RetryAfter: 1500 * time.Microsecond}, nil
			}), nil
		},
	}
	code, stdout, _ := run([]string{"check", "a", "--limiter", "mine", "-s", server.Socket()}, mine)
	if code != 1 || !strings.HasPrefix(stdout, "denied    0 of 100 left   retry in 2ms   (mine, ") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
	if _, stdout, _ := run([]string{"list"}, mine); !strings.Contains(stdout, "\nmine ") {
		t.Errorf("list leaves it out:\n%s", stdout)
	}
	asked := 0
	mine.New = func(redis.UniversalClient, limiter.Limit, ...limiter.Option) (limiter.Limiter, error) {
		return limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
			asked++
			return limiter.Decision{Allowed: asked == 2, RetryAfter: time.Duration(2-asked) * time.Second}, nil
		}), nil
	}
	if code, _, _ := run([]string{"check", "a", "--limiter", "mine", "--count", "2"}, mine); code != 1 || asked != 2 {
		t.Errorf("denied, then allowed: exit code %d after %d, want 1 after 2", code, asked)
	}
	if code, _, stderr := run([]string{"list"}, mine, mine); code != 70 || !strings.Contains(stderr, `"mine"`) {
		t.Errorf("the same name twice: exit code %d, %q", code, stderr)
	}
}

// rlctl is the command as a process of its own.
func rlctl(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, path, args...)
	c.Args[0] = "rlctl"
	return c
}

// A signal ends the run with its own exit code, and every line that was begun is whole.
func TestSignals(t *testing.T) {
	t.Parallel()
	server := redisdtest.Start(t, redisd.Options{})
	for _, c := range []struct {
		signal  syscall.Signal
		code    int
		message string
	}{{syscall.SIGINT, 130, "rlctl: interrupted\n"}, {syscall.SIGTERM, 143, "rlctl: terminated\n"}} {
		proc := rlctl(t, "check", "a", "--count", "1000000000", "--format", "json", "-s", server.Socket())
		var stderr bytes.Buffer
		proc.Stderr = &stderr
		pipe, err := proc.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := proc.Start(); err != nil {
			t.Fatal(err)
		}
		stdout := bufio.NewReader(pipe)
		first, err := stdout.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if err := proc.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(stdout)
		if err != nil {
			t.Fatal(err)
		}
		if faults := validate(t, first+string(rest)); len(faults) > 0 {
			t.Errorf("%v: %v", c.signal, faults[0])
		}
		var exit *exec.ExitError
		if err := proc.Wait(); !errors.As(err, &exit) || exit.ExitCode() != c.code || stderr.String() != c.message {
			t.Errorf("%v: %v, %q; want exit code %d", c.signal, err, stderr.String(), c.code)
		}
	}
}

// stubborn is a command that goes on after the first signal.
func stubborn() {
	ctx, _ := cmd.WithSignals(context.Background())
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println(context.Cause(ctx))
	time.Sleep(time.Hour)
}

func TestSecondSignalKills(t *testing.T) {
	t.Parallel()
	proc := rlctl(t)
	proc.Args[0] = "stubborn"
	pipe, err := proc.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := proc.Start(); err != nil {
		t.Fatal(err)
	}
	stdout := bufio.NewReader(pipe)
	for _, want := range []string{"ready\n", "interrupted\n"} {
		if line, err := stdout.ReadString('\n'); line != want {
			t.Fatalf("%q, %v; want %q", line, err, want)
		}
		if err := proc.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	var exit *exec.ExitError
	if err := proc.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("ended with %v, want SIGINT", err)
	}
}

// The first signal ends a wait for an answer that does not come, however long the timeout.
func TestSignalEndsAWait(t *testing.T) {
	t.Parallel()
	server := redisdtest.Start(t, redisd.Options{})
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: server.Socket()})
	defer rdb.Close()
	if err := rdb.Do(t.Context(), "CLIENT", "PAUSE", "1000000", "WRITE").Err(); err != nil {
		t.Fatal(err)
	}
	proc := rlctl(t, "check", "a", "--timeout", "1h", "-s", server.Socket())
	var stdout, stderr bytes.Buffer
	proc.Stdout, proc.Stderr = &stdout, &stderr
	if err := proc.Start(); err != nil {
		t.Fatal(err)
	}
	for blocked := false; !blocked; {
		info, err := rdb.Info(t.Context(), "clients").Result()
		if err != nil {
			t.Fatal(err)
		}
		blocked = strings.Contains(info, "blocked_clients:1\r")
	}
	if err := proc.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := proc.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 || stdout.Len() > 0 {
		t.Errorf("%v, %q, %q", err, stdout.String(), stderr.String())
	}
}

// On a cluster load reaches every node, the replica too, and verify finds the one node that lost its scripts.
func TestScriptsOnACluster(t *testing.T) {
	t.Parallel()
	ports := cluster(t, 2)
	at := []string{"--cluster", "-p", ports[0], "--format", "csv"}
	code, stdout, stderr := run(append([]string{"script", "load"}, at...))
	if n := strings.Count(stdout, ",true\n"); code != 0 || n != 18 {
		t.Fatalf("load: exit code %d, %d scripts on three nodes, want 18\n%s%s", code, n, stdout, stderr)
	}
	if code, stdout, stderr := run(append([]string{"script", "verify"}, at...)); code != 0 {
		t.Errorf("verify: exit code %d\n%s%s", code, stdout, stderr)
	}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + ports[1]})
	defer rdb.Close()
	if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ = run([]string{"script", "verify", "--cluster", "-p", ports[0]})
	lost := regexp.MustCompile(`(?m)^gcra +[0-9a-f]{40}  no   127\.0\.0\.1:` + ports[1] + `$`)
	if code != 1 || !lost.MatchString(stdout) || strings.Count(stdout, "  yes  ") != 12 {
		t.Errorf("verify after a flush: exit code %d\n%s", code, stdout)
	}
	if code, stdout, stderr := run([]string{"check", "a", "--cluster", "-p", ports[0]}); code != 0 {
		t.Errorf("check: exit code %d\n%s%s", code, stdout, stderr)
	}
}

// cluster starts n masters on loopback that share the slots and a replica of the first, and returns their ports when
// they agree.
func cluster(t *testing.T, n int) (ports []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var nodes []*redis.Client
	do := func(node *redis.Client, words ...any) string {
		reply, err := node.Do(ctx, words...).Text()
		if err != nil {
			t.Fatalf("%v: %v", words, err)
		}
		return reply
	}
	for i := range n + 1 {
		port, bus := freePort(t), freePort(t)
		redisdtest.Start(t, redisd.Options{Args: []string{
			"--bind", "127.0.0.1", "--port", port, "--cluster-enabled", "yes", "--cluster-port", bus,
			"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
		}})
		node := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
		t.Cleanup(func() { node.Close() })
		ports, nodes = append(ports, port), append(nodes, node)
		do(node, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < n {
			do(node, "CLUSTER", "ADDSLOTSRANGE", i*16384/n, (i+1)*16384/n-1)
		}
		do(nodes[0], "CLUSTER", "MEET", "127.0.0.1", port, bus)
	}
	until := func(there func() bool) {
		for !there() {
			time.Sleep(10 * time.Millisecond)
		}
	}
	first := do(nodes[0], "CLUSTER", "MYID")
	until(func() bool { return strings.Contains(do(nodes[n], "CLUSTER", "NODES"), first) })
	do(nodes[n], "CLUSTER", "REPLICATE", first)
	for _, node := range nodes {
		until(func() bool { return strings.Contains(do(node, "CLUSTER", "INFO"), "cluster_state:ok") })
		until(func() bool { // a replica is listed once it has its copy
			slots, err := node.ClusterSlots(ctx).Result()
			if err != nil {
				t.Fatal(err)
			}
			return len(slots) == n && len(slots[0].Nodes)+len(slots[1].Nodes) == n+1
		})
	}
	return ports
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
