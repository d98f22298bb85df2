package cmd_test

import (
	"context"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/scripts"
)

// On a cluster load reaches every node, the replica too, and verify finds the one node that lost its scripts.
func TestScriptsOnACluster(t *testing.T) {
	t.Parallel()
	ports := cluster(t, 2)
	at := []string{"--cluster", "-p", ports[0], "--format", "csv"}
	code, stdout, stderr := finish(t, append([]string{"script", "load"}, at...)...)
	all := len(scripts.Names())
	if n := strings.Count(stdout, ",true\n"); code != 0 || n != 3*all {
		t.Fatalf("load: exit code %d, %d scripts on three nodes, want %d each\n%s%s", code, n, all, stdout, stderr)
	}
	if code, stdout, stderr := finish(t, append([]string{"script", "verify"}, at...)...); code != 0 {
		t.Errorf("verify: exit code %d\n%s%s", code, stdout, stderr)
	}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + ports[1]})
	defer rdb.Close()
	if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ = finish(t, "script", "verify", "--cluster", "-p", ports[0])
	lost := regexp.MustCompile(`(?m)^gcra +[0-9a-f]{40}  no   127\.0\.0\.1:` + ports[1] + `$`)
	if code != 1 || !lost.MatchString(stdout) || strings.Count(stdout, "  yes  ") != 2*all {
		t.Errorf("verify after a flush: exit code %d\n%s", code, stdout)
	}
	if code, stdout, stderr := finish(t, "check", "a", "--cluster", "-p", ports[0]); code != 0 {
		t.Errorf("check: exit code %d\n%s%s", code, stdout, stderr)
	}
	doctorOnACluster(t, ports)
}

// cluster starts n masters on loopback that share the slots and a replica of the first, and returns their ports when
// they agree.
func cluster(t *testing.T, n int) (ports []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var nodes []*redis.Client
	do := func(node *redis.Client, words ...any) string {
		reply, err := node.Do(ctx, words...).Text()
		if err != nil {
			t.Fatalf("%v: %v", words, err)
		}
		return reply
	}
	for i := range n + 1 {
		port, bus := freePort(t), freePort(t)
		redisdtest.Start(t, redisd.Options{Args: []string{
			"--bind", "127.0.0.1", "--port", port, "--cluster-enabled", "yes", "--cluster-port", bus,
			"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
		}})
		node := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
		t.Cleanup(func() { node.Close() })
		ports, nodes = append(ports, port), append(nodes, node)
		do(node, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < n {
			do(node, "CLUSTER", "ADDSLOTSRANGE", i*16384/n, (i+1)*16384/n-1)
		}
		do(nodes[0], "CLUSTER", "MEET", "127.0.0.1", port, bus)
	}
	first := do(nodes[0], "CLUSTER", "MYID")
	until(t, "the replica knows its master", func() bool { return strings.Contains(do(nodes[n], "CLUSTER", "NODES"), first) })
	do(nodes[n], "CLUSTER", "REPLICATE", first)
	for _, node := range nodes {
		until(t, "a node is content", func() bool { return strings.Contains(do(node, "CLUSTER", "INFO"), "cluster_state:ok") })
		until(t, "all nodes have slots, the replica too, which is listed once it has its copy", func() bool {
			ranges, err := node.Do(ctx, "CLUSTER", "SLOTS").Slice()
			if err != nil {
				t.Fatal(err)
			}
			listed := 0
			for _, r := range ranges {
				listed += len(r.([]any)) - 2 // beside its bounds
			}
			return len(ranges) == n && listed == n+1
		})
	}
	return ports
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// On a cluster a bench asks all nodes what they counted, and leaves out the replica, which repeats its master's writes.
func TestABenchOnACluster(t *testing.T) {
	t.Parallel()
	ports := cluster(t, 2)
	for _, how := range []string{"--pipeline=4", "--autopipeline"} {
		code, stdout, stderr := finish(t, "bench", "gcra", "--path", "allowed", "--duration", "40ms", "--rounds", "1", "--clients", "4",
			"--cluster", "-p", ports[0], "--format", "json", how)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		row := parseBench(t, stdout).row(t, "gcra", "allowed")
		if row.Unmeasured != "" || row.Errors != 0 || row.Commands == nil || *row.Commands < 2.8 || *row.Commands > 3.2 {
			t.Errorf("%s: %+v, want the 3 commands of a script", how, row)
		}
	}
	for _, port := range ports {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
		defer rdb.Close()
		if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) > 0 && port != ports[2] { // the replica may be behind
			t.Errorf("left behind: %d keys, such as %s", len(keys), keys[0])
		}
	}
}
