package cmd_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
)

// crowdSize is how many keep-alive connections a service has to bear.
const crowdSize = 10_000

// crowd is a client of many keep-alive connections, as a process of its own: `crowd ADDRESS COUNT`. It opens them all and
// writes a line. Then it reads numbers: of each it lets every connection ask once, so many of them at a time, and writes
// an account of that.
func crowd() {
	count, _ := strconv.Atoi(os.Args[2])
	conns := make([]net.Conn, count)
	err := each(count, 64, func(i int, _ *bufio.Reader) (err error) {
		conns[i], err = net.Dial("tcp", os.Args[1])
		return err
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("open")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		together, _ := strconv.Atoi(in.Text())
		_ = json.NewEncoder(os.Stdout).Encode(askAll(conns, together))
	}
}

// account is what came of asking once on every connection.
type account struct {
	Answered         int           // with 200, and with keys of their own
	Failed           string        // the first that was not
	Took             time.Duration // all of it
	Half, Most, Last time.Duration // within which half, 99 of 100, and all were answered
}

func askAll(conns []net.Conn, together int) account {
	took := make([]time.Duration, len(conns))
	start := time.Now()
	err := each(len(conns), together, func(i int, r *bufio.Reader) error {
		began := time.Now()
		defer func() { took[i] = time.Since(began) }()
		return askOn(conns[i], r, i)
	})
	a := account{Answered: len(conns), Took: time.Since(start)}
	if err != nil {
		a.Answered, a.Failed = 0, err.Error()
	}
	slices.Sort(took)
	a.Half, a.Most, a.Last = took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
	return a
}

// askOn asks on one connection for a key of its own, and wants that to be allowed on a connection that stays.
func askOn(c net.Conn, r *bufio.Reader, i int) error {
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := fmt.Fprintf(c, "GET /check?key=crowd-%d HTTP/1.1\r\nHost: x\r\n\r\n", i); err != nil {
		return err
	}
	r.Reset(c)
	got, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(got.Body)
	if err == nil && (got.StatusCode != 200 || got.Close || !strings.Contains(string(body), fmt.Sprintf(`"crowd-%d"`, i))) {
		err = fmt.Errorf("connection %d: %s, %s", i, got.Status, body)
	}
	return err
}

// each does something for 0 to n-1, so many at a time, and returns an error of it.
func each(n, together int, do func(i int, r *bufio.Reader) error) (first error) {
	var all sync.WaitGroup
	var once sync.Once
	for w := range together {
		all.Go(func() {
			r := bufio.NewReaderSize(nil, 1024)
			for i := w; i < n; i += together {
				if err := do(i, r); err != nil {
					once.Do(func() { first = err })
					return
				}
			}
		})
	}
	all.Wait()
	return first
}

// started is a process that the test speaks with in lines.
type started struct {
	*testing.T
	pid int
	in  io.Writer
	out *bufio.Reader
}

// start starts this binary under another name.
func start(t *testing.T, name string, args ...string) started {
	t.Helper()
	c := rlctl(t, args...)
	c.Args[0], c.Stderr = name, os.Stderr
	if name == "rlctl" {
		c.Stderr = nil
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return started{t, c.Process.Pid, in, bufio.NewReader(out)}
}

func (s started) line() string {
	s.Helper()
	text, err := s.out.ReadString('\n')
	if err != nil {
		s.Fatalf("%v after %q", err, text)
	}
	return strings.TrimSpace(text)
}

// filesFor lets this process and those that it starts open that many files. A machine that forbids it fails the test:
// what cannot be tried is not shown.
func filesFor(t *testing.T, n uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Max < n {
		allowed := limit.Max
		limit.Max = n // root may
		limit.Cur = n
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatalf("a process may open %d files here, and %d connections want %d (%v): raise the hard limit, ulimit -Hn %d",
				allowed, crowdSize, n, err, n)
		}
	}
}

// idlers are clients that cost others nothing but memory: some send a header byte by byte, some announce a body that
// never comes, some ask and never read.
func idlers(t *testing.T, at string, each int) {
	t.Helper()
	for i := range 3 * each {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		switch i % 3 {
		case 0:
			_, err = io.WriteString(c, "GET /check?key=byte")
			go func() {
				for err := error(nil); err == nil; _, err = io.WriteString(c, "y") {
					time.Sleep(50 * time.Millisecond)
				}
			}()
		case 1:
			_, err = io.WriteString(c, "GET /check?key=body HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
		case 2:
			_ = c.(*net.TCPConn).SetReadBuffer(4096)
			_, err = io.WriteString(c, strings.Repeat("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 1000))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// memory is what the service's process holds, by its own account.
func memory(t *testing.T, url string) float64 {
	t.Helper()
	_, page, err := get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^process_resident_memory_bytes (\S+)$`).FindSubmatch(page)
	if found == nil {
		t.Fatalf("no memory in\n%s", page)
	}
	bytes, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// Ten thousand connections stay open, and each is answered, one after the other and all at once, while others dawdle.
func TestTenThousandConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("two processes with ten thousand connections each")
	}
	filesFor(t, crowdSize+500)
	server := redisdtest.Start(t, redisd.Options{})
	url := start(t, "rlctl", "serve", "--listen", "127.0.0.1:0", "--limiter", "gcra", "--timeout", "10s", "-s", server.Socket()).line()
	at := strings.TrimPrefix(url, "http://")
	before := memory(t, url)
	begun := time.Now()
	clients := start(t, "crowd", at, strconv.Itoa(crowdSize))
	if said := clients.line(); said != "open" {
		t.Fatal(said)
	}
	t.Logf("%d connections are open after %v", crowdSize, time.Since(begun).Round(time.Millisecond))
	ask := func(together int) account {
		t.Helper()
		fmt.Fprintln(clients.in, together)
		var a account
		if err := json.Unmarshal([]byte(clients.line()), &a); err != nil {
			t.Fatal(err)
		}
		t.Logf("%5d at a time: %d of %d answered in %v; half within %v, 99 %% within %v, all within %v", together, a.Answered, crowdSize,
			a.Took.Round(time.Millisecond), a.Half, a.Most, a.Last)
		if a.Answered != crowdSize {
			t.Fatalf("%d at a time: %s", together, a.Failed)
		}
		return a
	}
	idlers(t, at, 50)
	ask(64)
	held := (memory(t, url) - before) / crowdSize
	t.Logf("%.1f KiB a connection", held/1024)
	if held < 1 || held > 64*1024 {
		t.Errorf("%.0f bytes a connection", held)
	}
	ask(crowdSize)
}
