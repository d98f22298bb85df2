package cmd_test

import (
	"strings"
	"testing"

	"github.com/rlctl/rlctl/pkg/doctor"
)

// doctorOnACluster looks at two masters, of which the first has a replica.
func doctorOnACluster(t *testing.T, ports []string) {
	t.Helper()
	code, stdout, stderr := run([]string{"doctor", "--cluster", "-p", ports[0], "--format", "json"})
	r := parse[doctor.Result](t, []byte(stdout))
	if code != 1 || len(r.Nodes) != 2 {
		t.Fatalf("exit code %d, nodes %v\n%s%s", code, r.Nodes, stdout, stderr)
	}
	seen := map[string]doctor.Level{}
	for _, f := range r.Results {
		_, port, _ := strings.Cut(f.Node, ":")
		seen[f.Check+" "+port] = f.Level
	}
	for what, want := range map[string]doctor.Level{
		"cluster " + ports[0]: doctor.Fine, "cluster " + ports[1]: doctor.Warning, // without a replica
		"replication " + ports[0]: doctor.Warning, "replication " + ports[1]: doctor.Fine,
		"rights " + ports[0]: doctor.Fine, "eviction " + ports[1]: doctor.Fine, "persistence " + ports[1]: doctor.Warning,
	} {
		if seen[what] != want {
			t.Errorf("%s: %q, want %q\n%s", what, seen[what], want, stdout)
		}
	}
	code, stdout, _ = run([]string{"doctor", "-p", ports[2]})
	if code != 1 || !strings.Contains(stdout, "READONLY") || !strings.Contains(stdout, "rlctl doctor --cluster") {
		t.Errorf("the replica alone: exit code %d\n%s", code, stdout)
	}
}
