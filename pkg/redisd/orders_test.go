package redisd_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/redisd"
)

func dialKept(t *testing.T, socket string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// TestAKeptServerComesBackWithWhatItHadWritten: kill -9 loses nothing that was answered.
func TestAKeptServerComesBackWithWhatItHadWritten(t *testing.T) {
	t.Parallel()
	k, p := startKept(t, redisd.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	rdb := dialKept(t, k.Socket())
	for range 3 {
		if err := rdb.Incr(t.Context(), "n").Err(); err != nil {
			t.Fatal(err)
		}
		before := k.PID()
		if err := k.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if alive(before) || k.PID() == before || !alive(k.PID()) {
			t.Errorf("process %d, before %d", k.PID(), before)
		}
	}
	if n, err := dialKept(t, k.Socket()).Get(t.Context(), "n").Int(); err != nil || n != 3 {
		t.Errorf("has %d, want 3: %v", n, err)
	}
	p.PID = k.PID()
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, p)
}

// TestAStoppedServerGoesOn, and answers what was sent meanwhile.
func TestAStoppedServerGoesOn(t *testing.T) {
	t.Parallel()
	k, _ := startKept(t, redisd.Options{})
	rdb := dialKept(t, k.Socket())
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := k.Stop(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := rdb.Incr(ctx, "n").Err(); err == nil {
		t.Error("it answered although it was stopped")
	}
	if err := k.Continue(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command sent meanwhile runs", func() bool {
		n, err := dialKept(t, k.Socket()).Get(context.Background(), "n").Int()
		return err == nil && n == 1
	})
}

// TestAStoppedServerGoesWithItsParent: what does not run cannot clean up, and must be killed.
func TestAStoppedServerGoesWithItsParent(t *testing.T) {
	t.Parallel()
	k, p := startKept(t, redisd.Options{})
	if err := k.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, p)
	if err := k.Stop(); err == nil {
		t.Error("a server that is gone was stopped")
	}
}
