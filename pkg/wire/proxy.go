// Package wire stands between a client and a Redis and decides when each command runs.
//
// A Proxy listens on a Unix socket. It reads what a client sends command by command, parks each, and hands it to its
// owner, who lets the server run it (Command.Run), gives the client an answer (Answer), or cuts the connection (Cut),
// before the command ran or after. So any order of several clients' commands can be had, and every place at which a
// client or its connection can die, in whatever language the client is written. A client is known by its proxy, since
// it may have several connections; each has one of its own to the server.
//
// What a client does to prepare itself passes at once (HELLO, AUTH, SCRIPT LOAD, …). Commands in a pipeline are parked
// one after the other, which is rarer on a real server than it is here; Command.Follows tells. The commands between
// MULTI and EXEC are answered OK and QUEUED at once and parked as one at EXEC; a command that the server would have
// refused to queue therefore shows first in EXEC's reply.
//
// What it gives up: inline commands, subscriptions and anything else that a server sends unasked, streamed RESP3
// values, and speed: a round trip costs two more writes and two more reads.
package wire

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

// Proxy stands between one client and a server.
type Proxy struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	park     func(*Command)
	closed   chan struct{}
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns map[*conn]bool // nil once closed
	fault error          // the first client that did not speak RESP
}

// Listen starts a proxy on a Unix socket at path, which must not exist, for a server that dial connects to. Every
// command goes to park, from the goroutine of its connection, so that park must not wait for the command itself.
func Listen(path string, dial func() (net.Conn, error), park func(*Command)) (*Proxy, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for a client: %w", err)
	}
	p := &Proxy{listener: l, dial: dial, park: park, closed: make(chan struct{}), conns: map[*conn]bool{}}
	p.serving.Go(p.accept)
	return p, nil
}

func (p *Proxy) accept() {
	for {
		down, err := p.listener.Accept()
		if err != nil {
			return
		}
		up, err := p.dial()
		if err != nil {
			down.Close()
			continue
		}
		c := newConn(p, down, up)
		p.mu.Lock()
		open := p.conns != nil
		if open {
			p.conns[c] = true
			p.serving.Go(func() { p.serve(c) })
		}
		p.mu.Unlock()
		if !open {
			c.close()
		}
	}
}

func (p *Proxy) serve(c *conn) {
	defer c.close()
	err := c.serve()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	if !gone(err) && p.fault == nil {
		p.fault = err
	}
}

// Err is why a client was cut off that did not speak RESP, nil if none was.
func (p *Proxy) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// Close cuts all connections, removes the socket and waits until nothing runs any more. Parked commands are never
// answered.
func (p *Proxy) Close() error {
	p.mu.Lock()
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	if conns == nil {
		return nil
	}
	close(p.closed)
	err := p.listener.Close()
	for c := range conns {
		c.close()
	}
	p.serving.Wait()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}
