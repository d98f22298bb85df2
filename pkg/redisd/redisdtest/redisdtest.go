// Package redisdtest gives tests a private Redis server of their own.
package redisdtest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/rlctl/rlctl/pkg/redisd"
)

// Start runs a private server for the length of the test. The test fails where no server or, on Linux, no C compiler
// for the settable clock is installed; elsewhere a test that needs that clock is skipped and says so.
func Start(t testing.TB, opts redisd.Options) *redisd.Server {
	t.Helper()
	s, err := redisd.Start(t.Context(), opts)
	if errors.Is(err, redisd.ErrNoClock) && runtime.GOOS != "linux" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server's last words:\n%s", strings.Join(s.Log(), "\n"))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Cluster runs a cluster for the length of the test: masters, each with so many replicas.
func Cluster(t testing.TB, masters, replicas int, args ...string) *redisd.Group {
	t.Helper()
	g, err := redisd.StartCluster(t.Context(), Plain, masters, replicas, args...)
	return keep(t, g, err)
}

// Watched runs a master with so many replicas under so many sentinels for the length of the test.
func Watched(t testing.TB, replicas, sentinels int, args ...string) *redisd.Group {
	t.Helper()
	g, err := redisd.StartWatched(t.Context(), Plain, replicas, sentinels, args...)
	return keep(t, g, err)
}

// Plain starts the servers of a group as children of the test.
func Plain(ctx context.Context, opts redisd.Options) (redisd.Running, error) {
	s, err := redisd.Start(ctx, opts)
	if err != nil {
		return nil, err // an interface that holds a nil server would be no nil
	}
	return s, nil
}

func keep(t testing.TB, g *redisd.Group, err error) *redisd.Group {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}
