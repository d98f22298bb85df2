package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// Command is what a client asked and has no answer to yet: one command, or a whole MULTI block at its EXEC, since its
// commands run together or not at all. It stays parked until Answer or Cut. Its methods are for one goroutine.
type Command struct {
	// Args are the name and the arguments of each command: of one, or of those between MULTI and EXEC.
	Args [][]string
	// Block tells whether the commands ran as a MULTI block.
	Block bool
	// Follows tells whether the client had sent it before it had the answer to the one parked before: in a pipeline.
	Follows bool

	raw  []byte // as it goes to the server
	conn *conn
	done chan struct{} // closed when the client may go on, or is cut off
	cut  bool
}

// Run lets the server execute the command and returns its reply, which the client has not seen yet: of a block, what
// EXEC answered. It may be called once.
func (c *Command) Run() (Value, error) {
	v, err := c.conn.ask(c.raw, c.Replies())
	if err != nil {
		return v, fmt.Errorf("run %s: %w", c.name(), err)
	}
	c.conn.watching = !c.Block && (c.conn.watching || c.name() == "WATCH")
	return v, nil
}

// Bytes are the command as it goes to the server: of a block, from MULTI to EXEC. The server answers it with Replies
// replies, the last of which is the client's.
func (c *Command) Bytes() []byte { return c.raw }

// Replies is how many replies the server gives to Bytes.
func (c *Command) Replies() int {
	if c.Block {
		return len(c.Args) + 2
	}
	return 1
}

// Answer gives the client a reply, of the server or made up, and lets it go on.
func (c *Command) Answer(reply []byte) error {
	defer close(c.done)
	if _, err := c.conn.down.Write(reply); err != nil {
		return fmt.Errorf("answer %s: %w", c.name(), err)
	}
	return nil
}

// Refuse answers with an error, of a command that was Run or not, and lets the connection forget what it watches: a
// client that was told that its WATCH failed may not know that it has to.
func (c *Command) Refuse() error {
	if c.conn.watching {
		c.conn.watching = false
		if _, err := c.conn.ask([]byte("*1\r\n$7\r\nUNWATCH\r\n"), 1); err != nil {
			return fmt.Errorf("end the watch of a client: %w", err)
		}
	}
	return c.Answer([]byte("-ERR refused by the proxy\r\n"))
}

// Cut closes the client's connection: of a command that was not Run before it reached the server, of one that was with
// its reply lost.
func (c *Command) Cut() {
	c.cut = true
	close(c.done)
}

func (c *Command) name() string { return strings.ToUpper(c.Args[0][0]) }

// setUp are commands by which a client prepares itself. They decide nothing and pass at once. TIME is among them since
// a clock that is set does not tell orders apart.
var setUp = map[string]bool{
	"HELLO": true, "AUTH": true, "SELECT": true, "CLIENT": true, "PING": true, "ECHO": true, "UNWATCH": true, "SCRIPT": true,
	"TIME": true, "COMMAND": true, "INFO": true, "READONLY": true, "RESET": true, "QUIT": true,
}

// conn is one connection of a client and the one to the server that it has for itself, so that what a connection holds
// (a WATCH, a database) stays apart.
type conn struct {
	proxy    *Proxy
	down, up net.Conn
	fromDown reader
	fromUp   reader
	block    *Command // since MULTI
	watching bool     // the server may hold a WATCH for it
	behind   bool     // more of the client's bytes had come when its last parked command was answered, and did ever since
}

func newConn(p *Proxy, down, up net.Conn) *conn {
	return &conn{proxy: p, down: down, up: up, fromDown: newReader(down), fromUp: newReader(up)}
}

func (c *conn) close() {
	c.down.Close()
	c.up.Close()
}

// serve reads commands until the client is gone or cut off.
func (c *conn) serve() error {
	for {
		v, err := c.fromDown.value()
		if err != nil {
			return err
		}
		if v.Kind != '*' || len(v.Elems) == 0 {
			return fmt.Errorf("%w: a command is an array of strings", errProtocol)
		}
		cut, err := c.handle(v)
		if cut || err != nil {
			return err
		}
		c.behind = c.behind && c.fromDown.Buffered() > 0
	}
}

// handle answers what passes at once, collects a block, and parks the rest.
func (c *conn) handle(v Value) (cut bool, err error) {
	args := v.strings()
	name := strings.ToUpper(args[0])
	switch {
	case c.block == nil && name == "MULTI":
		c.block = &Command{Block: true, Follows: c.behind, raw: v.Raw, conn: c}
		return false, c.say("+OK\r\n")
	case c.block != nil && name == "DISCARD":
		c.block = nil
		return false, c.say("+OK\r\n")
	case c.block != nil && name == "EXEC" && len(c.block.Args) > 0:
		cmd := c.block
		c.block, cmd.raw = nil, append(cmd.raw, v.Raw...)
		return c.park(cmd)
	case c.block != nil && name != "EXEC":
		c.block.Args, c.block.raw = append(c.block.Args, args), append(c.block.raw, v.Raw...)
		return false, c.say("+QUEUED\r\n")
	case setUp[name]:
		c.watching = c.watching && name != "UNWATCH" && name != "RESET"
		reply, err := c.ask(v.Raw, 1)
		if err != nil {
			return false, err
		}
		return false, c.say(string(reply.Raw))
	}
	c.block = nil // of nothing but MULTI and EXEC: the server says of the EXEC that it has no MULTI
	return c.park(&Command{Args: [][]string{args}, Follows: c.behind, raw: v.Raw, conn: c})
}

// park hands the command over and waits for what becomes of it.
func (c *conn) park(cmd *Command) (cut bool, err error) {
	cmd.done = make(chan struct{})
	c.proxy.park(cmd)
	c.behind = true
	select {
	case <-cmd.done:
		return cmd.cut, nil
	case <-c.proxy.closed:
		return true, nil
	}
}

func (c *conn) say(reply string) error {
	_, err := io.WriteString(c.down, reply)
	return err
}

// ask sends bytes to the server and returns the last of the replies to them. What a server pushes in between is not
// for a client whose commands wait.
func (c *conn) ask(raw []byte, replies int) (v Value, err error) {
	if _, err := c.up.Write(raw); err != nil {
		return v, err
	}
	for replies > 0 {
		if v, err = c.fromUp.value(); err != nil {
			return v, unexpected(err)
		}
		if v.Kind != '>' && v.Kind != '|' {
			replies--
		}
	}
	return v, nil
}

// gone tells an end that is not worth a word from a client that does not speak RESP.
func gone(err error) bool { return !errors.Is(err, errProtocol) }
