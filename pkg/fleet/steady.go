package fleet

import (
	"context"
	"net"
	"runtime"

	"github.com/redis/go-redis/v9"
)

// steady is a hook that hides from the client library that a connection has a file descriptor. The library otherwise
// asks the kernel before each call whether an idle connection is still alive, which is every fourth system call; under a
// load no connection is idle for long.
type steady struct{}

func (steady) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return struct{ net.Conn }{conn}, nil
	}
}

func (steady) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (steady) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// leaveACore has this process, one of several, use its share of all cores but one, which is for a server on the same
// machine. A client that spreads over the server's core as well takes more from it than it wins.
func leaveACore(j Job) {
	cores := runtime.NumCPU()
	if j.Conn.Loopback() {
		cores--
	}
	runtime.GOMAXPROCS(max(1, cores/j.Measured.Procs))
}
