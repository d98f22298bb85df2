package redisd

import (
	"os"
	"strconv"
	"syscall"
)

// reserve keeps a port of 127.0.0.1 for the server that is told to listen on it, from before it starts until release is
// called, however often it dies in between: connections are refused meanwhile.
//
// The socket is bound and never listens. Linux gives its port to nobody who asks for any, and lets one who names it listen
// there all the same if both sockets have SO_REUSEADDR, which Redis sets.
func reserve() (port string, release func() error, err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, os.NewSyscallError("socket", err)
	}
	s := os.NewFile(uintptr(fd), "reserved port")
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var at syscall.Sockaddr
	if err == nil {
		at, err = syscall.Getsockname(fd)
	}
	if err != nil {
		s.Close()
		return "", nil, os.NewSyscallError("bind", err)
	}
	return strconv.Itoa(at.(*syscall.SockaddrInet4).Port), s.Close, nil
}
