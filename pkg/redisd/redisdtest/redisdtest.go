// Package redisdtest gives tests a private Redis server of their own.
package redisdtest

import (
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
