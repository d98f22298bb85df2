package redisd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// nodeTimeout is how long a node of a cluster may be silent before the others take it for gone.
const nodeTimeout = 800 * time.Millisecond

const allSlots = 16384

// StartCluster starts a cluster of masters that share the slots evenly, each with so many replicas, and returns when all
// nodes agree. A master that is gone takes only its own slots along. ctx bounds the start alone. Errors are those of
// [Start].
func StartCluster(ctx context.Context, start Starter, masters, replicas int, args ...string) (*Group, error) {
	ctx, cancel := context.WithTimeout(ctx, groupLimit)
	defer cancel()
	nodes, err := startNodes(ctx, start, masters*(1+replicas), Options{Args: append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", fmt.Sprint(nodeTimeout.Milliseconds()),
		"--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0",
		"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
	}, args...)})
	if err != nil {
		return nil, err
	}
	g := &Group{nodes: nodes, slots: true}
	if err := g.join(ctx, masters); err != nil {
		return nil, errors.Join(fmt.Errorf("form a cluster: %w", err), g.Close())
	}
	return g, nil
}

// join makes a cluster of servers that do not know each other.
func (g *Group) join(ctx context.Context, masters int) (err error) {
	first := g.nodes[0]
	for i, n := range g.nodes {
		if n.id, err = n.rdb.Do(ctx, "CLUSTER", "MYID").Text(); err != nil {
			return err
		}
		if err := n.command(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return err
		}
		if i < masters {
			err = n.command(ctx, "CLUSTER", "ADDSLOTSRANGE", i*allSlots/masters, (i+1)*allSlots/masters-1)
		}
		if err == nil && i > 0 {
			err = n.command(ctx, "CLUSTER", "MEET", "127.0.0.1", first.Port, first.bus)
		}
		if err != nil {
			return err
		}
	}
	for i, n := range g.nodes[masters:] {
		master := g.nodes[i%masters]
		// It is refused until the two have heard of each other.
		err := until(ctx, "a replica knows its master", func() bool { return n.command(ctx, "CLUSTER", "REPLICATE", master.id) == nil })
		if err != nil {
			return err
		}
	}
	return g.Settle(ctx)
}

// agrees tells whether all nodes that live name the same owners, and every replica hears its master and is known.
func (g *Group) agrees(ctx context.Context) bool {
	view := ""
	for _, n := range g.nodes {
		master, linked := n.role(ctx)
		if !master && !linked || !strings.Contains(n.rdb.ClusterInfo(ctx).Val(), "cluster_state:ok") {
			return false
		}
		if n.listed(ctx) != len(g.nodes) {
			return false
		}
		seen := n.view(ctx)
		if view == "" {
			view = seen
		}
		if seen == "" || seen != view || strings.Count(seen, " ") != len(g.nodes)-1 {
			return false
		}
	}
	return true
}

// slotRange are slots with the ids of the nodes that have them, the master first.
type slotRange struct {
	from, to int64
	nodes    []string
}

// ranges is who has which slots as clients are told, by CLUSTER SLOTS; nothing if the node does not answer.
func (n *Node) ranges(ctx context.Context) (all []slotRange) {
	said, _ := n.rdb.Do(ctx, "CLUSTER", "SLOTS").Slice()
	for _, r := range said {
		fields, ok := r.([]any) // from to node…, each node host port id
		if !ok || len(fields) < 3 {
			return nil
		}
		s := slotRange{}
		s.from, _ = fields[0].(int64)
		s.to, _ = fields[1].(int64)
		for _, f := range fields[2:] {
			if node, ok := f.([]any); ok && len(node) > 2 {
				s.nodes = append(s.nodes, fmt.Sprint(node[2]))
			}
		}
		all = append(all, s)
	}
	return all
}

// listed is how many nodes a client learns of from this one: a replica once it has its copy.
func (n *Node) listed(ctx context.Context) int {
	known := map[string]bool{}
	for _, r := range n.ranges(ctx) {
		for _, id := range r.nodes {
			known[id] = true
		}
	}
	return len(known)
}

// view is who has which slots, as a node sees it: a word a node, its id, whose replica it is if any, and its slots.
func (n *Node) view(ctx context.Context) string {
	said, err := n.rdb.ClusterNodes(ctx).Result()
	if err != nil {
		return ""
	}
	words := map[string]string{}
	for line := range strings.Lines(said) {
		f := strings.Fields(line) // id addr flags master ping pong epoch link slots…
		if len(f) < 8 || strings.Contains(f[2], "fail") || strings.Contains(f[2], "handshake") || strings.Contains(f[2], "noaddr") {
			return ""
		}
		words[f[0]] = f[3] + strings.Join(f[8:], ",")
	}
	return fmt.Sprint(words)
}

// Move moves the slot of a key to another master while it is asked, as redis-cli --cluster reshard does: for a while each
// of its keys is at the one or the other and clients are told ASK, then they are told MOVED. pause is what it waits
// between two steps. It returns how many keys moved.
func (g *Group) Move(ctx context.Context, key string, pause time.Duration) (keys int, err error) {
	from, err := g.MasterOf(ctx, key)
	if err != nil {
		return 0, err
	}
	slot, err := from.rdb.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return 0, err
	}
	to := g.after(ctx, from)
	if to == nil {
		return 0, errors.New("move a slot: there is no other master")
	}
	if err := to.command(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.id); err != nil {
		return 0, err
	}
	if err := from.command(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.id); err != nil {
		return 0, err
	}
	idle(ctx, pause)
	for {
		found, err := from.rdb.ClusterGetKeysInSlot(ctx, int(slot), 100).Result()
		if err != nil {
			return keys, err
		}
		if len(found) == 0 {
			break
		}
		for _, k := range found {
			// One that died meanwhile is answered NOKEY, and is no error.
			if err := from.command(ctx, "MIGRATE", "127.0.0.1", to.Port, k, 0, 5000); err != nil {
				return keys, err
			}
			keys++
		}
	}
	idle(ctx, pause)
	// The new owner first: if it died now, the old one would still point to it.
	for _, n := range []*Node{to, from} {
		if err := n.command(ctx, "CLUSTER", "SETSLOT", slot, "NODE", to.id); err != nil {
			return keys, err
		}
	}
	return keys, nil
}

// after is the next master after one, in the order of the nodes; nil if there is no other.
func (g *Group) after(ctx context.Context, master *Node) *Node {
	masters := g.Masters(ctx)
	for i, n := range masters {
		if n == master && len(masters) > 1 {
			return masters[(i+1)%len(masters)]
		}
	}
	return nil
}

func idle(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
