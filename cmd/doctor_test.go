package cmd_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rlctl/rlctl/pkg/doctor"
	"github.com/rlctl/rlctl/pkg/redisd"
)

// doctorOnACluster looks at three masters, each with a replica, and then at a replica alone.
func doctorOnACluster(t *testing.T, g *redisd.Group, at []string) {
	code, stdout, stderr := run(append([]string{"doctor", "--format", "json"}, at...))
	r := parse[doctor.Result](t, []byte(stdout))
	if code != 1 || len(r.Nodes) != 3 {
		t.Fatalf("exit code %d, nodes %v\n%s%s", code, r.Nodes, stdout, stderr)
	}
	seen := map[string]doctor.Level{}
	for _, f := range r.Results {
		seen[f.Check+" "+f.Node] = f.Level
	}
	for _, n := range g.Masters(t.Context()) {
		for check, want := range map[string]doctor.Level{
			"cluster": doctor.Fine, "replication": doctor.Warning, "rights": doctor.Fine, "eviction": doctor.Fine, "persistence": doctor.Warning,
		} {
			if got := seen[check+" "+n.Addr]; got != want {
				t.Errorf("%s of %s: %q, want %q\n%s", check, n.Addr, got, want, stdout)
			}
		}
	}
	masters := g.Masters(t.Context())
	replica := slices.IndexFunc(g.Nodes(), func(n *redisd.Node) bool { return !slices.Contains(masters, n) })
	code, stdout, _ = run([]string{"doctor", "-p", g.Nodes()[replica].Port})
	if code != 1 || !strings.Contains(stdout, "READONLY") || !strings.Contains(stdout, "rlctl doctor --cluster") {
		t.Errorf("the replica alone: exit code %d\n%s", code, stdout)
	}
}
