package redisd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Group is several private servers that stand in for one another: a cluster, or a master and its replicas under the
// eyes of sentinels. Each listens on a port of 127.0.0.1 that is kept for it, so that nobody answers in its place when it
// is dead, and on a Unix socket, over which the group itself is led. It keeps nothing on disk but what its nodes must
// remember of each other.
//
// Its times are far shorter than those of a deployment, so that a failover takes a second or two. On a machine so busy
// that a node hears nothing for that long, a failover may come that nobody ordered; Masters tells.
//
// What it gives up: a group whose clock is set, since the nodes tell by their clocks who is gone.
type Group struct {
	nodes     []*Node // masters first
	sentinels []*Node
	slots     bool // it is a cluster
}

// Starter starts one server of a group, as Start and StartKept do.
type Starter func(ctx context.Context, opts Options) (Running, error)

// Node is one server of a group.
type Node struct {
	Running
	Addr string // 127.0.0.1:PORT
	Port string
	bus  string // port of the cluster's own traffic
	id   string // in the cluster
	rdb  *redis.Client

	reserved []func() error // what gives its ports back
}

// Client is a client of this node alone, over its socket. It is closed with the group.
func (n *Node) Client() *redis.Client { return n.rdb }

// groupLimit bounds the start of a group and each failover. Healthy ones need one to three seconds.
const groupLimit = 30 * time.Second

// startNode starts one server on ports of its own.
func startNode(ctx context.Context, start Starter, opts Options) (_ *Node, err error) {
	n := &Node{}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.release())
		}
	}()
	if n.Port, err = n.reserve(); err != nil {
		return nil, err
	}
	n.Addr = "127.0.0.1:" + n.Port
	listen := []string{"--bind", "127.0.0.1", "--port", n.Port}
	if slices.Contains(opts.Args, "--cluster-enabled") {
		if n.bus, err = n.reserve(); err != nil {
			return nil, err
		}
		listen = append(listen, "--cluster-port", n.bus)
	}
	opts.Args = slices.Concat(listen, opts.Args)
	if n.Running, err = start(ctx, opts); err != nil {
		return nil, err
	}
	n.rdb = redis.NewClient(&redis.Options{
		Network: "unix", Addr: n.Socket(), Protocol: 2, DisableIdentity: true, DialerRetries: 1, ContextTimeoutEnabled: true,
		MaxRetries:  1, // a node that was killed left dead connections in the pool
		ReadTimeout: 4 * nodeTimeout,
	})
	return n, nil
}

// reserve keeps a port for the node until release.
func (n *Node) reserve() (string, error) {
	port, release, err := reserve()
	if err != nil {
		return "", fmt.Errorf("reserve a port: %w", err)
	}
	n.reserved = append(n.reserved, release)
	return port, nil
}

func (n *Node) release() (err error) {
	for _, release := range n.reserved {
		err = errors.Join(err, release())
	}
	n.reserved = nil
	return err
}

// startNodes starts n servers at once. Where one fails, those that started are closed.
func startNodes(ctx context.Context, start Starter, n int, opts Options) ([]*Node, error) {
	nodes, errs := make([]*Node, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { nodes[i], errs[i] = startNode(ctx, start, opts) })
	}
	wg.Wait()
	nodes = slices.DeleteFunc(nodes, func(n *Node) bool { return n == nil })
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, (&Group{nodes: nodes}).Close())
	}
	return nodes, nil
}

// Nodes are the masters and replicas, those that began as masters first.
func (g *Group) Nodes() []*Node { return g.nodes }

// Sentinels are those that watch; none of a cluster.
func (g *Group) Sentinels() []*Node { return g.sentinels }

// Cluster tells whether the nodes share slots.
func (g *Group) Cluster() bool { return g.slots }

// Entry is the node that a client is to begin with: the first of a cluster, else a sentinel.
func (g *Group) Entry() *Node {
	if g.slots {
		return g.nodes[0]
	}
	return g.sentinels[0]
}

// Version returns the servers' version.
func (g *Group) Version() string { return g.nodes[0].Version() }

// Masters are the nodes that take writes now, in the order of Nodes.
func (g *Group) Masters(ctx context.Context) (masters []*Node) {
	for _, n := range g.nodes {
		if master, _ := n.role(ctx); master {
			masters = append(masters, n)
		}
	}
	return masters
}

// role tells whether a node takes itself for a master, and whether it is a replica that hears its master.
func (n *Node) role(ctx context.Context) (master, linked bool) {
	said, err := n.rdb.Do(ctx, "ROLE").Slice()
	if err != nil || len(said) < 3 {
		return false, false
	}
	return said[0] == "master", said[0] == "slave" && len(said) > 3 && said[3] == "connected"
}

// MasterOf is the node that a key is written to now.
func (g *Group) MasterOf(ctx context.Context, key string) (*Node, error) {
	masters := g.Masters(ctx)
	if len(masters) == 0 {
		return nil, errors.New("no node of the group is a master")
	}
	if !g.slots {
		return masters[0], nil
	}
	for _, n := range masters {
		slot, err := n.rdb.ClusterKeySlot(ctx, key).Result()
		if err != nil {
			return nil, fmt.Errorf("ask for the slot of a key: %w", err)
		}
		if n.owns(ctx, slot) {
			return n, nil
		}
	}
	return nil, errors.New("no node of the cluster has the slot of the key")
}

// owns tells whether a master of a cluster takes a slot for its own.
func (n *Node) owns(ctx context.Context, slot int64) bool {
	return slices.ContainsFunc(n.ranges(ctx), func(r slotRange) bool {
		return r.from <= slot && slot <= r.to && len(r.nodes) > 0 && r.nodes[0] == n.id
	})
}

// replicaOf is a node that hears a master, nil if none does.
func (g *Group) replicaOf(ctx context.Context, master *Node) *Node {
	for _, n := range g.nodes {
		said, err := n.rdb.Do(ctx, "ROLE").Slice()
		if err == nil && len(said) > 3 && said[0] == "slave" && fmt.Sprint(said[1], ":", said[2]) == master.Addr && said[3] == "connected" {
			return n
		}
	}
	return nil
}

// Settle waits until every node that lives is a master or hears one, and all of a cluster agree on who has what.
func (g *Group) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, groupLimit)
	defer cancel()
	if g.slots {
		return until(ctx, "the cluster agrees", func() bool { return g.agrees(ctx) })
	}
	return until(ctx, "the replicas hear their master and the sentinels know them", func() bool { return g.watched(ctx) })
}

// until asks again and again whether a condition holds.
func until(ctx context.Context, what string, holds func() bool) error {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		}
	}
	return nil
}

// Err returns why the first of the servers died that nobody killed, nil while all are well.
func (g *Group) Err() error {
	for _, n := range slices.Concat(g.nodes, g.sentinels) {
		select {
		case <-n.Done():
			if err := n.Err(); err != nil {
				return err
			}
		default:
		}
	}
	return nil
}

// Close kills all servers and removes their folders. Closing again does nothing.
func (g *Group) Close() error {
	all := slices.Concat(g.sentinels, g.nodes)
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, n := range all {
		wg.Go(func() { errs[i] = errors.Join(ignoreClosed(n.rdb.Close()), n.Running.Close(), n.release()) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, redis.ErrClosed) {
		return nil
	}
	return err
}

// command runs a command on a node, of which only the error counts.
func (n *Node) command(ctx context.Context, words ...any) error {
	if err := n.rdb.Do(ctx, words...).Err(); err != nil {
		return fmt.Errorf("%s: %w", strings.TrimSpace(fmt.Sprintln(words[:min(2, len(words))]...)), err)
	}
	return nil
}
