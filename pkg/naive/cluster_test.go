package naive_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

// TestClusterSendsWritesOnce plays a node of a cluster that hangs up when a write comes. The cluster's client, which
// sends commands again by itself, sends none of these again.
func TestClusterSendsWritesOnce(t *testing.T) {
	t.Parallel()
	for _, name := range naives(t, func(e target.Entry) bool { return e.Name != "local-bucket" }) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var writes atomic.Int64
			rdb, err := target.Conn{Port: node(t, &writes), Cluster: true}.Open(0)
			if err != nil {
				t.Fatal(err)
			}
			defer rdb.Close()
			lim, err := entry(t, name).New(rdb, limiter.Limit{Events: 5, Window: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := lim.Check(t.Context(), "c", 1); !limiter.Counted(err) || writes.Load() != 1 {
				t.Errorf("%v, and %d writes came, want one that may have been counted", err, writes.Load())
			}
		})
	}
}

// node is the port of a server that is the only node of a cluster without keys and counts writes.
func node(t *testing.T, writes *atomic.Int64) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	port := ln.Addr().(*net.TCPAddr).Port
	replies := map[string]string{
		"cluster": fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", port),
		"get":     "$-1\r\n", "watch": "+OK\r\n", "hmget": "*4\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n",
		"zcount": ":0\r\n", "zcard": ":0\r\n", "zrange": "*0\r\n", "zremrangebyscore": ":0\r\n",
		"incrby": "", "multi": "", "set": "", "evalsha": "",
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(conn, func(command string) string {
				text, ok := replies[command]
				if !ok {
					return "-ERR unknown command\r\n"
				}
				if text == "" {
					writes.Add(1)
				}
				return text
			})
		}
	}()
	return port
}

// serve answers commands by their names, in lower case. An empty answer hangs up.
func serve(conn net.Conn, reply func(command string) string) {
	defer conn.Close()
	named := false
	for in := bufio.NewScanner(conn); in.Scan(); {
		switch line := in.Text(); {
		case strings.HasPrefix(line, "*"):
			named = true
		case named && !strings.HasPrefix(line, "$"):
			named = false
			text := reply(strings.ToLower(line))
			if _, err := conn.Write([]byte(text)); err != nil || text == "" {
				return
			}
		}
	}
}
