package wire_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/wire"
)

// TestACutReplyWasExecuted: the client has an error and the server the event.
func TestACutReplyWasExecuted(t *testing.T) {
	t.Parallel()
	server := redisdtest.Start(t, redisd.Options{})
	path := filepath.Join(t.TempDir(), "cut")
	cutter, err := wire.NewCutter(path, func() (net.Conn, error) { return net.Dial("unix", server.Socket()) })
	if err != nil {
		t.Fatal(err)
	}
	defer cutter.Close()
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: path, MaxRetries: -1, Protocol: 2, DisableIdentity: true})
	defer rdb.Close()
	ctx := t.Context()
	for i := range int64(3) {
		if n, err := rdb.Incr(ctx, "k").Result(); err != nil || n != 2*i+1 {
			t.Fatalf("before: %d, %v", n, err)
		}
		cutter.Cut(1)
		if n, err := rdb.Incr(ctx, "k").Result(); err == nil {
			t.Fatalf("the reply %d came through", n)
		}
		if cutter.Lost() != i+1 {
			t.Errorf("%d replies lost, want %d", cutter.Lost(), i+1)
		}
	}
	cutter.Cut(1)
	cutter.Cut(0)
	if n, err := rdb.Get(ctx, "k").Int(); err != nil || n != 6 {
		t.Errorf("counted %d, want 6: %v", n, err)
	}
}

func TestAClosedCutterLeavesNothing(t *testing.T) {
	t.Parallel()
	server := redisdtest.Start(t, redisd.Options{})
	path := filepath.Join(t.TempDir(), "cut")
	cutter, err := wire.NewCutter(path, func() (net.Conn, error) { return net.Dial("unix", server.Socket()) })
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: path, MaxRetries: -1})
	defer rdb.Close()
	if err := rdb.Ping(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := cutter.Close(); err != nil {
		t.Error(err)
	}
	if err := rdb.Ping(context.Background()).Err(); err == nil {
		t.Error("it still answers")
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("it still listens")
	}
}
