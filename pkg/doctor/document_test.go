package doctor_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rlctl/rlctl/pkg/doctor"
	"github.com/rlctl/rlctl/pkg/report"
)

// shown is a result as a terminal of that width has it.
func shown(t *testing.T, nodes []string, all []doctor.Finding, width int) string {
	t.Helper()
	r := doctor.Result{Redis: "127.0.0.1:7001 cluster", Limiter: "gcra", Limit: 100, Burst: 100, WindowUS: 1e6, Nodes: nodes, Results: all}
	var b strings.Builder
	if err := r.Document().Write(&b, report.TableFormat, report.Style{Width: width}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// On three masters a narrow terminal breaks lines as it does for one server.
func TestManyNodesFitANarrowTerminal(t *testing.T) {
	const width = 60
	nodes := []string{"127.0.0.1:17001", "127.0.0.1:17002", "127.0.0.1:17003"}
	var all []doctor.Finding
	for i, node := range nodes {
		f := healthy()
		inCluster()(&f)
		f.Node = node
		trips(time.Duration(i+1)*time.Millisecond, 0)(&f)
		if i < 2 {
			change("maxmemory-policy=allkeys-lru")(&f)
		}
		all = append(all, doctor.Examine(f)...)
	}
	text := shown(t, nodes, all, width)
	for line := range strings.Lines(text[:strings.LastIndex(text, "what is set so")]) {
		if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > width {
			t.Errorf("over the edge: %s", line)
		}
	}
	for _, want := range []string{"what names no master is so on each\n", "on 127.0.0.1:17001 127.0.0.1:17002\n", "on 127.0.0.1:17003\n"} {
		if !strings.Contains(shown(t, nodes, all, 0), want) {
			t.Errorf("want %q in\n%s", want, shown(t, nodes, all, 0))
		}
	}
	alone := healthy()
	change("info:redis_mode=sentinel")(&alone)
	if sentinel := shown(t, nodes[:1], doctor.Examine(alone), 0); strings.Contains(sentinel, "after a restart") {
		t.Errorf("nothing is set of a sentinel:\n%s", sentinel)
	}
	if one := shown(t, nodes[:1], doctor.Examine(healthy()), 0); strings.Contains(one, " on 127") || strings.Contains(one, "no master") {
		t.Errorf("of one server the node stands above:\n%s", one)
	}
}
