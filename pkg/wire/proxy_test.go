package wire_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/wire"
)

// rig is a client behind a proxy, the server, and what is parked.
type rig struct {
	proxy  *wire.Proxy
	path   string
	rdb    *redis.Client // behind the proxy
	direct *redis.Client
	parked chan *wire.Command
}

func newRig(t *testing.T, protocol int) *rig {
	t.Helper()
	s := redisdtest.Start(t, redisd.Options{})
	r := &rig{path: filepath.Join(s.Dir(), "proxy"), parked: make(chan *wire.Command, 16)}
	dial := func() (net.Conn, error) { return net.Dial("unix", s.Socket()) }
	p, err := wire.Listen(r.path, dial, func(c *wire.Command) { r.parked <- c })
	if err != nil {
		t.Fatal(err)
	}
	r.proxy = p
	r.rdb = redis.NewClient(&redis.Options{Network: "unix", Addr: r.path, Protocol: protocol, MaxRetries: -1, ReadTimeout: -1})
	r.direct = redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})
	t.Cleanup(func() {
		for _, err := range []error{r.rdb.Close(), p.Close(), p.Close(), r.direct.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

// next is what is parked next.
func (r *rig) next(t *testing.T) *wire.Command {
	t.Helper()
	select {
	case c := <-r.parked:
		return c
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is parked")
		return nil
	}
}

// pass lets the next command through and returns what it was and what it was answered.
func (r *rig) pass(t *testing.T) string {
	t.Helper()
	c := r.next(t)
	v, err := c.Run()
	if err == nil {
		err = c.Answer(v.Raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return describe(c, v)
}

func describe(c *wire.Command, v wire.Value) string {
	var names []string
	for _, args := range c.Args {
		names = append(names, strings.Join(args, " "))
	}
	text := strings.Join(names, "; ")
	if c.Block {
		text = "(" + text + ")"
	}
	if c.Follows {
		text = "then " + text
	}
	return text + " = " + v.String()
}

func TestACommandWaitsUntilItIsLetThrough(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		r := newRig(t, protocol)
		done := make(chan error, 1)
		go func() { done <- r.rdb.Incr(t.Context(), "n").Err() }()
		c := r.next(t) // HELLO and CLIENT passed
		if n := r.direct.Exists(t.Context(), "n").Val(); n != 0 {
			t.Error("it ran while it was parked")
		}
		v, err := c.Run()
		if err != nil || v.Text != "1" {
			t.Fatal(v, err)
		}
		select {
		case err := <-done:
			t.Fatalf("the client went on before its answer: %v", err)
		default:
		}
		if n := r.direct.Get(t.Context(), "n").Val(); n != "1" {
			t.Errorf("it did not run: %q", n)
		}
		if err := c.Answer(v.Raw); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestWhatPassesAtOnceLeadsNobody: only after what was parked can a command follow.
func TestWhatPassesAtOnceLeadsNobody(t *testing.T) {
	r := newRig(t, 2)
	for _, c := range []struct{ pipeline, parked string }{
		{"time; get a", "get a = nil"},
		{"get a; time", "get a = nil"},
		{"get a", "get a = nil"},
		{"get a; time; get b", "get a = nil, then get b = nil"},
	} {
		done := make(chan error, 1)
		go func() {
			_, err := r.rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				for command := range strings.SplitSeq(c.pipeline, "; ") {
					p.Do(t.Context(), slices.Collect(func(yield func(any) bool) {
						for word := range strings.FieldsSeq(command) {
							yield(word)
						}
					})...)
				}
				return nil
			})
			done <- err
		}()
		var parked []string
		for range strings.Count(c.parked, "=") {
			parked = append(parked, r.pass(t))
		}
		if got := strings.Join(parked, ", "); got != c.parked {
			t.Errorf("%s: parked %s, want %s", c.pipeline, got, c.parked)
		}
		<-done // of a key that is not there, redis.Nil
	}
}

func TestPipelinesComeApartAndBlocksDoNot(t *testing.T) {
	r := newRig(t, 2)
	done := make(chan error, 1)
	go func() {
		_, err := r.rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Set(t.Context(), "a", 1, 0)
			p.Get(t.Context(), "a")
			return nil
		})
		_, err2 := r.rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Incr(t.Context(), "a")
			p.Do(t.Context(), "incr", "a", "b") // refused when it is queued, which shows at EXEC
			return nil
		})
		_, err3 := r.rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Incr(t.Context(), "a")
			p.Get(t.Context(), "a")
			return nil
		})
		if !redis.HasErrorPrefix(err2, "EXECABORT") {
			err2 = fmt.Errorf("want EXECABORT, got %w", err2)
		} else {
			err2 = nil
		}
		done <- errors.Join(err, err2, err3)
	}()
	for _, want := range []string{
		"set a 1 = OK", "then get a = 1",
		"(incr a; incr a b) = EXECABORT Transaction discarded because of previous errors.",
		"(incr a; get a) = [2 2]",
	} {
		if got := r.pass(t); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWatchHoldsOnItsOwnConnection(t *testing.T) {
	r := newRig(t, 2)
	done := make(chan error, 1)
	go func() {
		done <- r.rdb.Watch(t.Context(), func(tx *redis.Tx) error {
			_, err := tx.TxPipelined(t.Context(), func(p redis.Pipeliner) error { return p.Set(t.Context(), "k", "mine", 0).Err() })
			return err
		}, "k")
	}()
	r.pass(t)
	if err := r.direct.Set(t.Context(), "k", "theirs", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got := r.pass(t); got != "(set k mine) = nil" {
		t.Error(got)
	}
	if err := <-done; !errors.Is(err, redis.TxFailedErr) {
		t.Error(err)
	}
}

func TestACutBeforeOrAfterTheCommandRan(t *testing.T) {
	for ran, want := range map[bool]string{false: "", true: "1"} {
		r := newRig(t, 2)
		done := make(chan error, 1)
		go func() { done <- r.rdb.Incr(t.Context(), "n").Err() }()
		c := r.next(t)
		if ran {
			if _, err := c.Run(); err != nil {
				t.Fatal(err)
			}
		}
		c.Cut()
		if err := <-done; err == nil {
			t.Error("the client had an answer")
		}
		if n := r.direct.Get(t.Context(), "n").Val(); n != want {
			t.Errorf("ran %v: n is %q", ran, n)
		}
	}
}

func TestAMadeUpAnswer(t *testing.T) {
	r := newRig(t, 2)
	done := make(chan string, 1)
	go func() { done <- r.rdb.Get(t.Context(), "n").Val() }()
	if err := r.next(t).Answer([]byte("$4\r\nmine\r\n")); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got != "mine" {
		t.Error(got)
	}
}

func TestWhoDoesNotSpeakRESPIsCutOffAndNamed(t *testing.T) {
	r := newRig(t, 2)
	for _, said := range []string{"GET a\r\n", ":1\r\n", "*0\r\n"} {
		c, err := net.Dial("unix", r.path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(said)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%q: %d bytes of an answer", said, n)
		}
		c.Close()
	}
	if err := r.proxy.Err(); err == nil || !strings.Contains(err.Error(), "not RESP") {
		t.Error(err)
	}
}

// TestClosingFreesWhoIsParked: the client gets an error, and nothing goes on waiting.
func TestClosingFreesWhoIsParked(t *testing.T) {
	r := newRig(t, 2)
	done := make(chan error, 1)
	go func() { done <- r.rdb.Incr(context.Background(), "n").Err() }()
	r.next(t)
	if err := r.proxy.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the client had an answer")
	}
	if r.rdb.Incr(t.Context(), "n").Err() == nil {
		t.Error("a closed proxy took a connection")
	}
}
