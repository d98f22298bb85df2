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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rlctl/rlctl/cmd"
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
		schema, err := schemaOf(name)
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

// schemaOf is the schema of that name, as in rlctl.race/v1.
func schemaOf(name string) (*jsonschema.Schema, error) {
	return jsonschema.NewCompiler().Compile(filepath.Join("../docs/schemas", strings.ReplaceAll(name, "/", ".")+".json"))
}

// parse reads an output that must keep its schema.
func parse[R any](t *testing.T, out []byte) (r R) {
	t.Helper()
	for _, fault := range validate(t, string(out)) {
		t.Errorf("%v in %s", fault, out)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return r
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

// finish runs a command to its end.
func finish(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := rlctl(t, args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
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

// A server that takes the connection and says nothing is given up within two seconds.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, port, _ := net.SplitHostPort(silent.Addr().String())
	for _, args := range [][]string{{"check", "a"}, {"script", "list"}} {
		start := time.Now()
		code, stdout, stderr := finish(t, append(args, "-p", port)...)
		if code != 69 || stdout != "" || !strings.Contains(stderr, port+" (timed out)\n") &&
			!strings.Contains(stderr, port+" did not answer (timed out)\n") {
			t.Errorf("%v: exit code %d, %q, %q", args, code, stdout, stderr)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%v: took %v, the budget is 2 s", args, took)
		}
	}
}
