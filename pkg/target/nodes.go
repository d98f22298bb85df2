package target

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Node is one server behind a client.
type Node struct {
	Addr string // host:port, or the path of a socket
	*redis.Client
}

// Masters returns the servers that take writes: the one that a client is connected to, or each master of a cluster,
// sorted by address. They are closed with the client they came from.
func Masters(ctx context.Context, rdb redis.UniversalClient) ([]Node, error) {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return gather(ctx, cluster.ForEachMaster)
	}
	return single(rdb)
}

// Nodes returns the masters and the replicas of a cluster, or the one server that a client is connected to.
func Nodes(ctx context.Context, rdb redis.UniversalClient) ([]Node, error) {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return gather(ctx, cluster.ForEachShard)
	}
	return single(rdb)
}

func single(rdb redis.UniversalClient) ([]Node, error) {
	client, ok := rdb.(*redis.Client)
	if !ok {
		return nil, fmt.Errorf("list the nodes of a %T: not supported", rdb)
	}
	return []Node{{client.Options().Addr, client}}, nil
}

func gather(ctx context.Context, each func(context.Context, func(context.Context, *redis.Client) error) error) ([]Node, error) {
	var mu sync.Mutex
	var nodes []Node
	err := each(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, Node{c.Options().Addr, c})
		return nil
	})
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Addr, b.Addr) })
	return nodes, err
}
