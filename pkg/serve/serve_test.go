package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/metrics"
	"github.com/rlctl/rlctl/pkg/policy"
	"github.com/rlctl/rlctl/pkg/target"
)

// rig is a service in this process, with shorter times than a real one has.
type rig struct {
	*testing.T
	at   string
	stop func()       // as a signal does
	done <-chan error // what it ended with
}

// TestOtherMethodsAreRefused, with what may be used instead.
func TestOtherMethodsAreRefused(t *testing.T) {
	asked := 0
	bad := 0
	h := get(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }), func(string) { bad++ })
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "get", "X"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/check?key=a", nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" || !strings.Contains(w.Body.String(), `"status":405`) {
			t.Errorf("%s: %d %v %s", method, w.Code, w.Header(), w.Body)
		}
	}
	for _, method := range []string{"GET", "HEAD"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, "/check?key=a", nil))
	}
	if asked != 2 || bad != 6 {
		t.Errorf("asked %d times, %d were bad", asked, bad)
	}
}

// newRig serves l with these times for reading, writing and stopping.
func newRig(t *testing.T, l limiter.Limiter, read, write, grace time.Duration) *rig {
	t.Helper()
	entry, err := target.Find(target.Catalogue(), "gcra")
	if err != nil {
		t.Fatal(err)
	}
	entry.New = func(redis.UniversalClient, limiter.Limit, ...limiter.Option) (limiter.Limiter, error) { return l, nil }
	log := slog.New(slog.DiscardHandler)
	p := Plan{
		Limiter: "gcra", Limit: limiter.Limit{Events: 100, Window: time.Minute}, Log: log,
		Policy: policy.Policy{Mode: policy.Error, Timeout: time.Minute}, Ready: func(string) error { return nil },
	}
	handler, _, err := p.handler(nil, entry, metrics.NewLines(log, metrics.NewRedactor()))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(handler, 0, log)
	server.ReadTimeout, server.WriteTimeout = read, write
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(4096) // so that a few answers fill it
		return ctx
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := p.serve(ctx, listener, server, grace); done <- err }()
	t.Cleanup(func() { stop(); server.Close() })
	return &rig{t, listener.Addr().String(), stop, done}
}

// allows is a limiter that lets everything pass.
var allows = limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
	return limiter.Decision{Allowed: true, Remaining: 9}, nil
})

func (r *rig) dial() *net.TCPConn {
	r.Helper()
	c, err := net.Dial("tcp", r.at)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return c.(*net.TCPConn)
}

// answer sends text and reads one answer.
func (r *rig) answer(c net.Conn, text string) (*http.Response, string) {
	r.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		r.Fatal(err)
	}
	got, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		r.Fatal(err)
	}
	body, err := io.ReadAll(got.Body)
	if err != nil {
		r.Fatal(err)
	}
	return got, string(body)
}

const request = "GET /check?key=a HTTP/1.1\r\nHost: x\r\n\r\n"

// served asks on a connection of its own and wants to be answered.
func (r *rig) served() {
	r.Helper()
	if got, body := r.answer(r.dial(), request); got.StatusCode != 200 {
		r.Errorf("%s %s", got.Status, body)
	}
}

// ended wants the server to end a connection by then, and says what it sent before.
func (r *rig) ended(c net.Conn, within time.Duration) string {
	r.Helper()
	start := time.Now()
	said, err := io.ReadAll(c)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() || time.Since(start) > within {
		r.Errorf("not ended within %v (%v)", within, err)
	}
	return string(said)
}

// A client that sends its header byte by byte is cut off when its time is over, and others do not notice.
func TestHeaderByteByByte(t *testing.T) {
	t.Parallel()
	r := newRig(t, allows, time.Second, time.Minute, 0)
	c := r.dial()
	sent := make(chan int)
	go func() {
		n := 0
		for ; n < len(request)-1; n++ { // it would take 3.7 s
			if _, err := c.Write([]byte{request[n]}); err != nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		sent <- n
	}()
	r.served()
	if said := r.ended(c, 5*time.Second); strings.Contains(said, "200 OK") {
		t.Error("it was answered")
	}
	c.Close()
	if n := <-sent; n >= len(request)-1 {
		t.Error("it could send all of its header")
	}
	r.served()
}

// A body is not waited for: its client is answered at once, and the connection ends.
func TestBodyThatNeverComes(t *testing.T) {
	t.Parallel()
	patient, brief := newRig(t, allows, time.Hour, time.Hour, 0), newRig(t, allows, time.Second, time.Hour, 0)
	for _, head := range []string{"Content-Length: 100", "Content-Length: 9999999999999", "Transfer-Encoding: chunked"} {
		text := "GET /check?key=a HTTP/1.1\r\nHost: x\r\n" + head + "\r\n\r\n"
		got, _ := patient.answer(patient.dial(), text)
		if got.StatusCode != 200 || !got.Close {
			t.Errorf("%s: %s, closes %v", head, got.Status, got.Close)
		}
		c := brief.dial()
		brief.answer(c, text)
		brief.ended(c, 5*time.Second)
	}
	brief.served()
}

// A client that asks and asks and never reads is cut off when it has kept an answer waiting for too long.
func TestReaderWhoNeverReads(t *testing.T) {
	t.Parallel()
	r := newRig(t, allows, time.Minute, 2*time.Second, 0)
	const ask = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
	var all sync.WaitGroup
	for range 6 {
		c := r.dial()
		_ = c.SetReadBuffer(4096)
		all.Go(func() {
			var err error
			for asks := []byte(strings.Repeat(ask, 100)); err == nil; {
				_, err = c.Write(asks)
			}
			if late := (net.Error)(nil); errors.As(err, &late) && late.Timeout() {
				t.Error("it was never cut off")
			}
		})
	}
	cut := make(chan bool)
	go func() { all.Wait(); close(cut) }()
	for going := true; going; {
		r.served()
		if got, _ := r.answer(r.dial(), ask); got.StatusCode != 200 {
			t.Fatalf("others are told %s", got.Status)
		}
		select {
		case <-cut:
			going = false
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Headers and keys have a longest length, and below it nothing is refused.
func TestBounds(t *testing.T) {
	t.Parallel()
	r := newRig(t, allows, time.Minute, time.Minute, 0)
	for _, c := range []struct {
		key, header int
		status      int
	}{{4096, 0, 200}, {4097, 0, 400}, {1, 8 << 10, 200}, {1, 32 << 10, 431}, {32 << 10, 0, 431}} {
		got, _ := r.answer(r.dial(), fmt.Sprintf("GET /check?key=%s HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n",
			strings.Repeat("k", c.key), strings.Repeat("h", c.header)))
		if got.StatusCode != c.status {
			t.Errorf("key of %d, header of %d: %s", c.key, c.header, got.Status)
		}
	}
}

// slow is a limiter whose calls wait until they are let go.
type slow struct{ asked, letGo chan bool }

func newSlow() slow { return slow{make(chan bool, 10), make(chan bool)} }

func (s slow) Check(context.Context, string, int64) (limiter.Decision, error) {
	s.asked <- true
	<-s.letGo
	return limiter.Decision{Allowed: true}, nil
}

// A service that is stopped takes nobody new, and answers those who have asked.
func TestStopAnswersWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	s := newSlow()
	r := newRig(t, s, time.Minute, time.Minute, time.Minute)
	c, idle := r.dial(), r.dial()
	if got, _ := r.answer(idle, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); got.StatusCode != 200 {
		t.Errorf("health: %s", got.Status)
	}
	go func() { <-s.asked; r.stop() }()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	r.ended(idle, 10*time.Second) // so it is stopping
	if late, err := net.Dial("tcp", r.at); err == nil {
		late.Close()
		t.Error("it takes new clients")
	}
	close(s.letGo)
	got, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || got.StatusCode != 200 {
		t.Errorf("what was under way: %v, %v", got, err)
	}
	if err := <-r.done; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// What takes longer than the grace is cut off, and that is said.
func TestStopCutsOff(t *testing.T) {
	t.Parallel()
	s := newSlow()
	defer close(s.letGo)
	r := newRig(t, s, time.Minute, time.Minute, 50*time.Millisecond)
	c := r.dial()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	<-s.asked
	r.stop()
	if err := <-r.done; !errors.Is(err, ErrCutOff) {
		t.Errorf("it ended with %v", err)
	}
	r.ended(c, 10*time.Second)
}

// No time that a client can take is without end.
func TestTimesEnd(t *testing.T) {
	t.Parallel()
	s := newServer(http.NotFoundHandler(), time.Second, slog.New(slog.DiscardHandler))
	for name, d := range map[string]time.Duration{"read": s.ReadTimeout, "write": s.WriteTimeout, "idle": s.IdleTimeout} {
		if d <= time.Second || d > 2*time.Minute {
			t.Errorf("%s: %v", name, d)
		}
	}
}
