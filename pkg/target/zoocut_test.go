package target_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/pkg/wire"
)

// lossy is a server whose replies can be lost: the command has run, and its client's connection ends without an answer.
type lossy struct {
	*redisd.Server
	near, far redis.UniversalClient
	losing    atomic.Bool // the next reply
}

func newLossy(t *testing.T) *lossy {
	l := &lossy{Server: redisdtest.Start(t, redisd.Options{})}
	socket := filepath.Join(l.Dir(), "lossy")
	proxy, err := wire.Listen(socket, func() (net.Conn, error) { return net.Dial("unix", l.Socket()) }, func(c *wire.Command) {
		reply, err := c.Run()
		if l.losing.CompareAndSwap(true, false) || err != nil || c.Answer(reply.Raw) != nil {
			c.Cut()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	l.near, l.far = l.open(t, l.Socket()), l.open(t, socket)
	return l
}

func (l *lossy) open(t *testing.T, socket string) redis.UniversalClient {
	rdb, err := target.Conn{Socket: socket, Timeout: 20 * time.Second}.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// cut loses the reply to one request of each: it may count once, and its client must not claim to know.
func (z *zooRun) cut(t *testing.T) trials {
	all, l := trials{}, newLossy(t)
	for _, e := range z.env.Catalogue {
		begun := time.Now()
		how, err := l.cut(t.Context(), e)
		if err != nil {
			t.Fatalf("%s: %v", e.Name, err)
		}
		trial := experiment.ZooTrial{Verdict: replay.Held, How: how, ElapsedUS: time.Since(begun).Microseconds()}
		if how != "" {
			trial.Verdict = replay.Broken
		}
		all[e.Name] = trial
	}
	return all
}

// cut tells what e did wrong when a reply was lost.
func (l *lossy) cut(ctx context.Context, e target.Entry) (how string, err error) {
	limit := limiter.Limit{Events: 7, Window: time.Hour}
	far, err := e.New(l.far, limit)
	if err != nil {
		return "", err
	}
	near, err := e.New(l.near, limit)
	if err != nil {
		return "", err
	}
	before, err := far.Check(ctx, "cut", 0) // the script is loaded, and the connection there
	if err != nil {
		return "", err
	}
	l.losing.Store(true)
	_, lost := far.Check(ctx, "cut", 1)
	if l.losing.Swap(false) {
		return "", fmt.Errorf("asked nothing")
	}
	after, err := near.Check(ctx, "cut", 0)
	switch took := before.Remaining - after.Remaining; {
	case err != nil:
		return "", err
	case took > 1:
		return fmt.Sprintf("a request whose reply was lost took %d", took), nil
	case lost == nil:
		return "a decision was told that nobody made", nil
	}
	return "", nil
}
