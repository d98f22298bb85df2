package wire

import (
	"fmt"
	"net"
	"strconv"
)

// Upstream is a plain connection to a server, for who has a command as bytes and wants the reply as bytes.
type Upstream struct {
	conn net.Conn
	from reader
}

// NewUpstream speaks over a connection, which it then owns.
func NewUpstream(conn net.Conn) *Upstream { return &Upstream{conn, newReader(conn)} }

// Ask sends commands in one write and returns as many replies. An error reply is a Value, not an error.
func (u *Upstream) Ask(commands []byte, replies int) ([]Value, error) {
	if _, err := u.conn.Write(commands); err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	values := make([]Value, replies)
	for i := range values {
		v, err := u.from.value()
		if err != nil {
			return nil, fmt.Errorf("read the server's reply: %w", unexpected(err))
		}
		values[i] = v
	}
	return values, nil
}

// Close ends the connection.
func (u *Upstream) Close() error { return u.conn.Close() }

// AppendCommand appends a command as it is sent.
func AppendCommand(to []byte, args ...string) []byte {
	to = append(to, '*')
	to = strconv.AppendInt(to, int64(len(args)), 10)
	for _, a := range args {
		to = append(to, "\r\n$"...)
		to = strconv.AppendInt(to, int64(len(a)), 10)
		to = append(to, "\r\n"...)
		to = append(to, a...)
	}
	return append(to, "\r\n"...)
}
