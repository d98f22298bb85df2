package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/metrics"
)

// log is a log that is kept.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func newLog() *log { return &log{} }

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) lines() *metrics.Lines {
	h := slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	return metrics.NewLines(slog.New(h), metrics.NewRedactor())
}

// taken is what was written since the last look.
func (l *log) taken() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return strings.Split(strings.TrimSuffix(l.text.String(), "\n"), "\n")
}

func failure(class limiter.Class, unknown bool) error {
	return &limiter.Error{Limiter: "gcra", Class: class, Unknown: unknown, Err: errors.New("redis://user:hunter2@db client-1")}
}

// Ten thousand failures a second are a line at once and then one a second, which tells how many there were.
func TestLinesAreFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kept := newLog()
		lines := kept.lines()
		gone := lines.Limiter("gcra", fails(failure(limiter.ClassUnreachable, false)))
		silent := lines.Limiter("gcra", fails(failure(limiter.ClassNoAnswer, true)))
		ask := func(l limiter.Limiter, n int) {
			for range n {
				_, _ = l.Check(t.Context(), "client-1", 1)
			}
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			got := kept.taken()
			if len(got) != len(want) {
				t.Fatalf("%q, want %q", got, want)
			}
			for i := range want {
				if !regexp.MustCompile("^" + want[i] + "$").MatchString(got[i]) {
					t.Errorf("%q, want %q", got[i], want[i])
				}
			}
		}
		const of = `level=WARN msg="not decided" limiter=gcra class=%s calls=%d maybe_counted=%d last_key=[0-9a-f]{10}`
		ask(gone, 10_000)
		expect(fmt.Sprintf(of, "unreachable", 1, 0))
		ask(silent, 3)
		expect(fmt.Sprintf(of, "no-answer", 1, 1))
		time.Sleep(time.Second)
		synctest.Wait()
		got := strings.Join(kept.taken(), "\n")
		for _, want := range []string{fmt.Sprintf(of, "unreachable", 9999, 0), fmt.Sprintf(of, "no-answer", 2, 2)} {
			if !regexp.MustCompile(want).MatchString(got) || strings.Count(got, "\n") != 1 {
				t.Errorf("%s\nwant %s", got, want)
			}
		}
		ask(gone, 5)
		time.Sleep(time.Second)
		expect(fmt.Sprintf(of, "unreachable", 5, 0))
		time.Sleep(time.Minute)
		expect("")
		ask(gone, 1)
		expect(fmt.Sprintf(of, "unreachable", 1, 0))
		ask(gone, 2)
		lines.Flush()
		expect(fmt.Sprintf(of, "unreachable", 2, 0))
		lines.Flush()
		time.Sleep(time.Minute)
		expect("")
		ask(gone, 1)
		expect(fmt.Sprintf(of, "unreachable", 1, 0))
		ask(gone, 3)
		lines.Close()
		expect(fmt.Sprintf(of, "unreachable", 3, 0))
		ask(silent, 1)
		time.Sleep(time.Minute)
		expect("")
	})
}

// However many callers fail at once, the lines add up to all of them.
func TestNoFailureGoesUntold(t *testing.T) {
	t.Parallel()
	kept := newLog()
	lines := kept.lines()
	l := lines.Limiter("gcra", fails(failure(limiter.ClassNoAnswer, true)))
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for range 1000 {
				_, _ = l.Check(t.Context(), "client-1", 1)
			}
		})
	}
	callers.Wait()
	lines.Flush()
	calls, counted, got := 0, 0, kept.taken()
	for _, line := range got {
		var c, u int
		if _, err := fmt.Sscanf(line[strings.Index(line, "calls="):], "calls=%d maybe_counted=%d", &c, &u); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		calls, counted = calls+c, counted+u
	}
	if calls != 16_000 || counted != 16_000 {
		t.Errorf("%d calls in %q", calls, got)
	}
}

// Neither the client nor what an error holds is in a line, and the same client has the same name.
func TestLinesTellNoSecret(t *testing.T) {
	t.Parallel()
	kept := newLog()
	lines := kept.lines()
	digests := map[string]bool{}
	for _, class := range []limiter.Class{limiter.ClassOOM, limiter.ClassBusy, "http-hunter2"} {
		_, _ = lines.Limiter("x", fails(failure(class, true))).Check(t.Context(), "client-1", 1)
	}
	_, _ = lines.Limiter("x", fails(errors.New("client-1"))).Check(t.Context(), "client-1", 1) // counts as another "other"
	got := kept.taken()
	for _, line := range got {
		if strings.Contains(line, "client-1") || strings.Contains(line, "hunter2") {
			t.Error(line)
		}
		digests[regexp.MustCompile(`last_key=\S+`).FindString(line)] = true
	}
	if len(got) != 3 || len(digests) != 1 {
		t.Errorf("%q, one client has the digests %v", got, digests)
	}
	other := newLog()
	_, _ = other.lines().Limiter("x", fails(failure(limiter.ClassOOM, true))).Check(t.Context(), "client-1", 1)
	if line := other.taken()[0]; digests[regexp.MustCompile(`last_key=\S+`).FindString(line)] {
		t.Errorf("another process has the same digest: %s", line)
	}
}

// What is no failure of the limiter has no line.
func TestCallersHaveNoLines(t *testing.T) {
	t.Parallel()
	kept := newLog()
	lines := kept.lines()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = lines.Limiter("x", fails(nil)).Check(t.Context(), "a", 1)
	_, _ = lines.Limiter("x", fails(failure(limiter.ClassInvalid, false))).Check(t.Context(), "a", 1)
	_, _ = lines.Limiter("x", fails(failure(limiter.ClassNoAnswer, true))).Check(gone, "a", 1)
	if got := kept.taken(); len(got) != 1 || got[0] != "" {
		t.Errorf("%q", got)
	}
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, _ = lines.Limiter("x", fails(failure(limiter.ClassNoAnswer, true))).Check(late, "a", 1)
	if got := kept.taken(); len(got) != 1 || got[0] == "" {
		t.Errorf("a deadline has no line: %q", got)
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	r := metrics.NewRedactor()
	a, b := r.Redact("client-1"), r.Redact("client-2")
	if a == b || a != r.Redact("client-1") || !regexp.MustCompile(`^[0-9a-f]{10}$`).MatchString(a) ||
		a == metrics.NewRedactor().Redact("client-1") {
		t.Errorf("%s, %s", a, b)
	}
}
