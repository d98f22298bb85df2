package cmd_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

type serviceOf struct{}

// served is the rlctl serve of one script.
type served struct{ process *exec.Cmd }

// serveCommand is `serve start` and `serve stop` of the scripts.
func serveCommand(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value(serviceOf{}).(*served)
	switch {
	case !neg && len(args) > 0 && args[0] == "start":
		s.start(ts, args[1:])
	case !neg && len(args) == 3 && args[0] == "stop":
		s.stop(ts, args[1], args[2])
	default:
		ts.Fatalf("usage: serve start [FLAG...], serve stop SIGNAL CODE")
	}
}

func (s *served) start(ts *testscript.TestScript, flags []string) {
	path, err := os.Executable()
	ts.Check(err)
	log, err := os.Create(ts.MkAbs("LOG"))
	ts.Check(err)
	defer log.Close()
	c := exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...)...)
	c.Args[0], c.Stderr, c.Dir = "rlctl", log, ts.MkAbs(".")
	for _, name := range []string{"RLCTL_URL", "REDISCLI_AUTH"} {
		c.Env = append(c.Environ(), name+"="+ts.Getenv(name))
	}
	pipe, err := c.StdoutPipe()
	ts.Check(err)
	ts.Check(c.Start())
	s.process = c
	ts.Defer(func() { _ = c.Process.Kill(); _ = c.Wait() })
	url, err := bufio.NewReader(pipe).ReadString('\n')
	if err != nil {
		ts.Fatalf("serve says no address: %s", ts.ReadFile("LOG"))
	}
	ts.Setenv("SERVE", strings.TrimSpace(url))
}

func (s *served) stop(ts *testscript.TestScript, signal, code string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT}
	ts.Check(s.process.Process.Signal(signals[signal]))
	_ = s.process.Wait()
	if got := strconv.Itoa(s.process.ProcessState.ExitCode()); got != code {
		ts.Fatalf("exit code %s, want %s: %s", got, code, ts.ReadFile("LOG"))
	}
}

// getCommand is `get URL [COUNT]` of the scripts.
func getCommand(ts *testscript.TestScript, neg bool, args []string) {
	count := 1
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		count = n
	}
	if neg || len(args) == 0 {
		ts.Fatalf("usage: get URL [COUNT]")
	}
	for range count {
		head, body, err := get(args[0])
		ts.Check(err)
		fmt.Fprintf(ts.Stdout(), "%s\n%s\n", head, body)
		ts.Check(os.WriteFile(ts.MkAbs("body"), body, 0o600))
	}
}

// get is an answer, as curl -i writes it.
func get(url string) (head string, body []byte, err error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(url)
	if err != nil {
		return "", nil, err
	}
	defer r.Body.Close()
	body, err = io.ReadAll(r.Body)
	var fields []string
	for name, values := range r.Header {
		fields = append(fields, name+": "+strings.Join(values, ", ")+"\n")
	}
	slices.Sort(fields)
	return r.Proto + " " + r.Status + "\n" + strings.Join(fields, ""), bytes.TrimSpace(body), err
}

// untilCommand is `until PATTERN URL` of the scripts.
func untilCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until PATTERN URL")
	}
	pattern, end := regexp.MustCompile("(?m)"+args[0]), time.Now().Add(20*time.Second)
	for {
		head, body, err := get(args[1])
		ts.Check(err)
		if answer := head + string(body); pattern.MatchString(answer) {
			return
		} else if time.Now().After(end) {
			ts.Fatalf("not in 20 s, but\n%s", answer)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
