//go:build !linux

package redisd

import "net"

// reserve finds a port of 127.0.0.1 on which nobody listens. Only Linux can keep it free: here somebody else may take it
// before the server does, which then does not start, or when it died.
func reserve() (port string, release func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, func() error { return nil }, l.Close()
}
