package experiment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/pkg/wire"
)

// Server is what an experiment ran on.
type Server struct {
	Version string `json:"version"`
	Private bool   `json:"private"`
	At      string `json:"at"` // where it is, without secrets
}

// where is for the reader.
func (s Server) where() string {
	if s.Private {
		return "private, " + s.At
	}
	return s.At
}

// server is a Redis to experiment on.
type server struct {
	Server
	conn target.Conn
	rdb  redis.UniversalClient
	kept *redisd.Kept   // nil of a named server, and of a group
	way  *wire.Distance // that conn leads over; nil without

	group *redisd.Group // a private cluster, or a private master under sentinels; nil of others
}

// openServer connects to the server that conn names, or starts a private one, or a private cluster, of which conn only
// bounds the waits.
func openServer(ctx context.Context, env Env, conn target.Conn, private bool) (*server, error) {
	if !private {
		return connect(ctx, &server{Server: Server{At: conn.String()}, conn: conn})
	}
	if conn.Cluster {
		return openGroup(ctx, env, conn, false)
	}
	return openPrivate(ctx, env, conn.Timeout, redisd.Options{})
}

// openPrivate starts a private server and connects to it.
func openPrivate(ctx context.Context, env Env, timeout time.Duration, opts redisd.Options) (*server, error) {
	kept, err := redisd.StartKept(ctx, env.Self, opts)
	if err != nil {
		return nil, &limiter.Error{Class: limiter.ClassUnreachable, Err: err}
	}
	conn := target.Conn{Socket: kept.Socket(), Timeout: timeout}
	s, err := connect(ctx, &server{Server: Server{Private: true, At: "unix socket"}, conn: conn, kept: kept})
	if err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	env.Note(fmt.Sprintf("started a private redis-server %s (%s); it goes when this ends", s.Version, kept.Socket()))
	return s, nil
}

// moveAway lays a way of that round trip time before a private server. What the experiment itself asks does not take it.
func (s *server) moveAway(rtt time.Duration) (err error) {
	near := filepath.Join(s.kept.Dir(), "far")
	socket := s.kept.Socket()
	if s.way, err = wire.Lay(near, func() (net.Conn, error) { return net.Dial("unix", socket) }, rtt/2); err == nil {
		s.conn.Socket = near
	}
	return err
}

func connect(ctx context.Context, s *server) (*server, error) {
	rdb, err := s.conn.Open(1)
	if err != nil {
		return nil, err
	}
	info, err := rdb.Info(ctx, "server").Result()
	if err != nil && !redis.HasErrorPrefix(err, "NOPERM") { // the version is no reason to want more rights than the scripts do
		return nil, errors.Join(uncounted(err), rdb.Close())
	}
	s.rdb, s.Version = rdb, version(info)
	return s, nil
}

// version finds the server's version in its INFO; Valkey and Redict tell there, too, which Redis they equal.
func version(info string) string {
	for _, field := range []string{"valkey_version:", "redict_version:", "redis_version:"} {
		if _, rest, ok := strings.Cut(info, "\n"+field); ok {
			v, _, _ := strings.Cut(rest, "\r")
			return v
		}
	}
	return "unknown"
}

// now reads the clock of the node that holds a key. The nodes of a group have the clock of this machine, which is read
// without asking one that may be dead.
func (s *server) now(ctx context.Context, key string) (r history.Reading, err error) {
	if s.group != nil {
		r.Before = history.Now()
		r.Server = time.Now().Truncate(time.Microsecond)
		r.After = history.Now()
		return r, nil
	}
	node, err := s.node(ctx, key)
	if err != nil {
		return r, uncounted(err)
	}
	r.Before = history.Now()
	r.Server, err = node.Time(ctx).Result()
	r.After = history.Now()
	return r, uncounted(err)
}

// node is the one that holds a key. Of a group it is known even when a client would still ask the one before.
func (s *server) node(ctx context.Context, key string) (redis.Cmdable, error) {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	switch {
	case s.group != nil:
		n, err := s.group.MasterOf(ctx, key)
		if err != nil {
			return nil, err
		}
		return n.Client(), nil
	case ok:
		return cluster.MasterForKey(ctx, key)
	}
	return s.rdb, nil
}

// noTTL is the TTL of a key that has none: what it counts it would count for ever.
const noTTL time.Duration = -1

// ttl is a key's time to live: noTTL, or -2 if there is no key.
func (s *server) ttl(ctx context.Context, key string) (time.Duration, error) {
	node, err := s.node(ctx, key)
	if err != nil {
		return 0, uncounted(err)
	}
	ttl, err := node.PTTL(ctx, key).Result()
	return ttl, uncounted(err)
}

// ttlOf is the time to live of what a limiter keeps for a client: noTTL if a key has none, else the longest. What keys one
// from outside has is not known: of a private server all are looked at that name the client, and of another none.
func (s *server) ttlOf(ctx context.Context, e target.Entry, client, key string) (longest time.Duration, err error) {
	keys := []string{key}
	if e.Outside != nil {
		if keys = nil; s.Private {
			keys, err = s.keys(ctx, "*"+client+"*")
		}
	}
	longest = -2
	for i := 0; i < len(keys) && err == nil; i++ {
		var ttl time.Duration
		if ttl, err = s.ttl(ctx, keys[i]); ttl == noTTL {
			return noTTL, err
		}
		longest = max(longest, ttl)
	}
	return longest, uncounted(err)
}

// keys are those of all nodes that match a pattern.
func (s *server) keys(ctx context.Context, pattern string) ([]string, error) {
	if s.group == nil {
		return s.rdb.Keys(ctx, pattern).Result()
	}
	var all []string
	for _, n := range s.group.Masters(ctx) {
		found, err := n.Client().Keys(ctx, pattern).Result()
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// uncounted classifies the error of a command that takes nothing from anybody.
func uncounted(err error) error {
	err = limiter.Classify("", err, false)
	var e *limiter.Error
	if errors.As(err, &e) {
		e.Unknown = false
	}
	return err
}

// whileItLives ends with ctx, or with why a private server died. Without it workers would go on to ask nobody.
func (s *server) whileItLives(ctx context.Context) (context.Context, func()) {
	switch {
	case s.group != nil:
		return untilOneDies(ctx, s.group)
	case s.kept == nil:
		return context.WithCancel(ctx)
	}
	return untilItDies(ctx, s.kept)
}

func untilItDies(ctx context.Context, kept *redisd.Kept) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-kept.Done():
			cancel(&limiter.Error{Class: limiter.ClassUnreachable, Err: kept.Err()})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

func (s *server) close() error {
	err := s.rdb.Close()
	if s.way != nil {
		err = errors.Join(err, s.way.Close())
	}
	if s.kept != nil {
		err = errors.Join(err, s.kept.Close())
	}
	if s.group != nil {
		err = errors.Join(err, s.group.Close())
	}
	return err
}
