package cmd_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
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
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP}
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

// startServe starts a service that logs to log, and returns its URL.
func startServe(t *testing.T, log *os.File, flags ...string) (service *exec.Cmd, url string) {
	t.Helper()
	c := rlctl(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...)...)
	c.Stderr = log
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	line, err := bufio.NewReader(pipe).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return c, strings.TrimSpace(line)
}

// logged are the lines of a service's log that was told to stop.
func logged(t *testing.T, log *os.File) []string {
	t.Helper()
	text, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func logFile(t *testing.T) *os.File {
	log, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

// A service goes on when nobody reads its log any more, and ends well.
func TestServeOutlivesTheReaderOfItsLog(t *testing.T) {
	t.Parallel()
	reader, log, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c, url := startServe(t, log, "-s", "nobody")
	log.Close()
	reader.Close()
	if head, _, err := get(url + "/check?key=a"); err != nil || !strings.Contains(head, " 503 ") { // it has a line
		t.Errorf("%s, %v", head, err)
	}
	if err := c.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// What was counted for a line comes before the last one.
func TestServeLogEndsWithItsEnd(t *testing.T) {
	t.Parallel()
	log := logFile(t)
	c, url := startServe(t, log, "-s", "nobody")
	for range 3 {
		if _, _, err := get(url + "/check?key=a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	lines := logged(t, log)
	if last := lines[len(lines)-1]; !strings.Contains(last, `msg="stopped, and all requests were answered"`) {
		t.Errorf("the last line is %s", last)
	}
	if all := strings.Join(lines, "\n"); !strings.Contains(all, `class=unreachable error="no such file or directory"`) || !strings.Contains(all, "calls=2") {
		t.Errorf("not in\n%s", all)
	}
}

// A second signal ends a service at once, and its log says so.
func TestServeSecondSignal(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("unix", t.TempDir()+"/silent")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	log := logFile(t)
	c, url := startServe(t, log, "-s", silent.Addr().String(), "--timeout", "1h")
	cut := make(chan error, 1)
	go func() {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := client.Get(url + "/check?key=a")
		if err == nil {
			r.Body.Close()
		}
		cut <- err
	}()
	for range 2 { // the request, and what /healthz knows
		if _, err := silent.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	for _, word := range []string{"stopping", ""} {
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for word != "" && !strings.Contains(strings.Join(logged(t, log), "\n"), "msg="+word) {
			time.Sleep(time.Millisecond)
		}
	}
	_ = c.Wait()
	lines := logged(t, log)
	last := lines[len(lines)-1]
	if code := c.ProcessState.ExitCode(); code != 143 || !strings.Contains(last, `level=WARN msg="stopped, and requests were cut off" after=`) {
		t.Errorf("exit code %d, the last line is %s", code, last)
	}
	if err := <-cut; err == nil {
		t.Error("the request was answered")
	}
}
