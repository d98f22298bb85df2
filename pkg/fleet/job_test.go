package fleet_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/limiter"
)

// An error keeps its class, its words and its cause on the way from a worker.
func TestAnErrorOfAWorkerKeepsItsCause(t *testing.T) {
	reset := &net.OpError{Op: "read", Net: "unix", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	silent := &net.OpError{Op: "read", Net: "unix", Err: os.ErrDeadlineExceeded}
	for _, c := range []struct{ err, cause error }{
		{reset, syscall.ECONNRESET}, {fmt.Errorf("read: %w", io.EOF), io.EOF}, {silent, os.ErrDeadlineExceeded}, {errors.New("ERR"), nil},
	} {
		for _, told := range []error{c.err, limiter.Classify("gcra", c.err, false)} {
			got, failed := fleet.Carried(told)
			var e, want *limiter.Error
			if failed != nil || !errors.As(got, &e) || e.Err.Error() != c.err.Error() {
				t.Fatalf("%v: %v, %v", told, got, failed)
			}
			if errors.As(told, &want) && (e.Class != want.Class || e.Limiter != want.Limiter) {
				t.Errorf("%v: %+v", told, e)
			}
			for _, is := range []error{syscall.ECONNRESET, io.EOF, os.ErrDeadlineExceeded} {
				if errors.Is(got, is) != (is == c.cause) {
					t.Errorf("%v: it is %v: %t", told, is, errors.Is(got, is))
				}
			}
		}
	}
}
