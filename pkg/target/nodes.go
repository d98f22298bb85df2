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

// Nodes returns the one server that a client is connected to, or every master and replica of a cluster, sorted by
// address. They are closed with the client they came from.
func Nodes(ctx context.Context, rdb redis.UniversalClient) ([]Node, error) {
	switch client := rdb.(type) {
	case *redis.ClusterClient:
		return gather(ctx, client)
	case *redis.Client:
		return []Node{{client.Options().Addr, client}}, nil
	}
	return nil, fmt.Errorf("list the nodes of a %T: not supported", rdb)
}

func gather(ctx context.Context, cluster *redis.ClusterClient) (nodes []Node, err error) {
	var mu sync.Mutex
	err = cluster.ForEachShard(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, Node{c.Options().Addr, c})
		return nil
	})
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Addr, b.Addr) })
	return nodes, err
}
