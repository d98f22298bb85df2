package redisd_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/rlctl/rlctl/pkg/redisd"
)

// A reserved port refuses connections before and after a server listens there, which only one that names it can.
func TestAReservedPortIsNobodyElses(t *testing.T) {
	port, release, err := redisd.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	addr := "127.0.0.1:" + port
	for range 3 {
		if c, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("%v, %v: somebody listens", c, err)
		}
		server, err := net.Listen("tcp", addr) // with SO_REUSEADDR, as Redis does
		if err != nil {
			t.Fatal(err)
		}
		if c, err := net.Dial("tcp", addr); err != nil {
			t.Error(err)
		} else {
			c.Close()
		}
		server.Close()
	}
	// The kernel is as strict when it looks for any free port as it is without SO_REUSEADDR.
	strict := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0) })
		return err
	}}
	if _, err := strict.Listen(t.Context(), "tcp", addr); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v: the port can be taken", err)
	}
}
