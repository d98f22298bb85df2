package wire

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// Cutter stands between clients and a server and passes on what either sends, at once and without looking at it, until
// it is told to lose a reply: the next that comes from the server is thrown away and its connection cut. The server has
// done what the client asked, and the client does not know.
type Cutter struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	running  sync.WaitGroup
	armed    atomic.Int64 // replies to lose
	lost     atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]bool // both ends; nil once closed
}

// NewCutter listens on a Unix socket at path, which must not exist, in front of a server that dial connects to.
func NewCutter(path string, dial func() (net.Conn, error)) (*Cutter, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen in front of the server: %w", err)
	}
	c := &Cutter{listener: l, dial: dial, conns: map[net.Conn]bool{}}
	c.running.Go(c.accept)
	return c, nil
}

// Cut loses the next n replies, each with its connection. The first reply of a connection is passed on: it belongs to
// setting it up. It takes the place of an earlier Cut that has not lost all of its replies; 0 loses none any more.
func (c *Cutter) Cut(n int64) { c.armed.Store(n) }

// Lost is how many replies were lost so far.
func (c *Cutter) Lost() int64 { return c.lost.Load() }

func (c *Cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := c.dial()
		if err != nil {
			client.Close()
			continue
		}
		if !c.keep(client, server) {
			return
		}
		c.running.Go(func() { c.carry(client, server, func() bool { return false }) })
		replies := 0
		c.running.Go(func() {
			c.carry(server, client, func() bool { replies++; return replies > 1 && c.takes() })
		})
	}
}

// keep remembers the connections of one client, unless the cutter was closed.
func (c *Cutter) keep(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		if c.conns == nil {
			conn.Close()
			continue
		}
		c.conns[conn] = true
	}
	return c.conns != nil
}

// takes tells whether a reply is to be lost, and counts it.
func (c *Cutter) takes() bool {
	for {
		n := c.armed.Load()
		if n == 0 {
			return false
		}
		if c.armed.CompareAndSwap(n, n-1) {
			c.lost.Add(1)
			return true
		}
	}
}

// carry passes on what from sends until either end is gone or a piece is to be lost, and closes both.
func (c *Cutter) carry(from, to net.Conn, lose func() bool) {
	defer func() {
		from.Close()
		to.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.conns, from)
	}()
	room := make([]byte, 16<<10)
	for {
		n, err := from.Read(room)
		if n > 0 {
			if lose() {
				return
			}
			if _, err := to.Write(room[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Close cuts all connections, removes the socket and waits until nothing runs any more.
func (c *Cutter) Close() error {
	c.mu.Lock()
	conns := c.conns
	c.conns = nil
	c.mu.Unlock()
	err := c.listener.Close()
	for conn := range conns {
		conn.Close()
	}
	c.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}
