package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/rlctl/rlctl"

// anythingBelow allows a package everything but the packages of rows further down.
const anythingBelow = "…"

// rows tell whom each package may import of ours, from the bottom of the house to its top. A package without a row, an
// import without a permission and a permission that nobody uses each fail the test, so that every change of the plan
// shows here. What tests import is not looked at.
var rows = []row{
	{"scripts", ""},
	{"pkg/limiter", "scripts"}, // this and go-redis, so that any service can embed it
	{"pkg/model", "pkg/limiter"},
	{"pkg/load", "pkg/limiter"},
	{"pkg/naive", "pkg/limiter scripts"}, // skewed-bucket is the true script on a false clock
	{"pkg/history", "pkg/limiter pkg/model"},
	{"pkg/outside", "pkg/limiter"},
	{"pkg/policy", "pkg/limiter"},
	{"pkg/target", "scripts pkg/limiter pkg/model pkg/naive pkg/outside pkg/policy"},
	{"pkg/replay", "pkg/limiter pkg/model pkg/history"},
	{"pkg/fleet", "pkg/limiter pkg/history pkg/load pkg/outside pkg/target"},
	{"pkg/metrics", "pkg/limiter"},
	{"pkg/answer", "pkg/limiter"},
	{"pkg/httplimit", "pkg/limiter"},
	{"pkg/hold", "pkg/limiter pkg/policy pkg/target"},
	{"pkg/accesslog", "pkg/limiter"},
	{"pkg/serve", "pkg/answer pkg/httplimit pkg/limiter pkg/metrics pkg/policy pkg/target"},
	{"pkg/redisd", ""},
	{"pkg/redisd/redisdtest", "pkg/redisd"},
	{"pkg/wire", ""},
	{"pkg/explore", "pkg/limiter pkg/model pkg/outside pkg/redisd pkg/target pkg/wire"},
	{"pkg/certificate", ""}, // it shares nothing with what it checks
	{"pkg/report", ""},
	{"pkg/doctor", "scripts pkg/limiter pkg/target pkg/report"},
	{"internal/check", ""},
	{"internal/results", ""},
	{"examples/workers/go", "pkg/limiter"},
	{"pkg/experiment", anythingBelow},
	{"internal/madelog", "pkg/accesslog"},
	{"internal/whatif", "scripts internal/madelog pkg/accesslog pkg/experiment pkg/limiter pkg/redisd pkg/report"},
	{"internal/matrix", "pkg/experiment pkg/redisd pkg/report"},
	{"cmd", anythingBelow},
	{".", "cmd"},
}

type row struct{ name, allowed string }

// packages maps each package to what it imports: our own packages by their folder, all others by their path.
type packages map[string][]string

func TestImportsFollowTheTable(t *testing.T) {
	for _, v := range violations(rows, list(t)) {
		t.Error(v)
	}
}

// list asks the go command for the packages of this module.
func list(t *testing.T) packages {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := packages{}
	for in := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		switch err := in.Decode(&p); err {
		case io.EOF:
			return all
		case nil:
			all[folder(p.ImportPath)] = folders(p.Imports)
		default:
			t.Fatalf("go list: %v", err)
		}
	}
}

func folders(paths []string) (out []string) {
	for _, p := range paths {
		out = append(out, folder(p))
	}
	return out
}

func folder(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

// violations compares the packages with the table.
func violations(rows []row, all packages) (out []string) {
	say := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	below := []string{}
	known := map[string]bool{}
	for _, r := range rows {
		known[r.name] = true
		imports, ok := all[r.name]
		if !ok {
			say("%s has a row and no package", r.name)
		}
		allowed := strings.Fields(r.allowed)
		if r.allowed == anythingBelow {
			allowed = below
		} else {
			for _, a := range allowed {
				if ok && !slices.Contains(imports, a) {
					say("%s may import %s and does not", r.name, a)
				}
			}
		}
		for _, i := range imports {
			switch _, ours := all[i]; {
			case ours && !slices.Contains(allowed, i):
				say("%s may not import %s", r.name, i)
			case forTests(i) && !forTests(r.name):
				say("%s is no test and imports %s", r.name, i)
			}
		}
		if !forTests(r.name) {
			below = append(below, r.name)
		}
	}
	for name := range all {
		if !known[name] {
			say("%s has no row", name)
		}
	}
	return out
}

// forTests tells a package that no program may contain.
func forTests(name string) bool { return name == "testing" || strings.HasSuffix(name, "test") }

func TestViolationsAreSeen(t *testing.T) {
	table := []row{{"a", ""}, {"b", "a"}, {"dtest", "a"}, {"c", anythingBelow}, {"d", ""}}
	for _, c := range []struct {
		all  packages
		want string
	}{
		{packages{"a": {"fmt"}, "b": {"a"}, "dtest": {"a", "testing"}, "c": {"a", "b"}, "d": nil}, ""},
		{packages{"a": nil, "b": {"a"}, "dtest": {"a"}, "c": nil, "d": {"a"}}, "d may not import a"},
		{packages{"a": nil, "b": nil, "dtest": {"a"}, "c": nil, "d": nil}, "b may import a and does not"},
		{packages{"a": nil, "b": {"a"}, "dtest": {"a"}, "c": {"d"}, "d": nil}, "c may not import d"},
		{packages{"a": nil, "b": {"a"}, "dtest": {"a"}, "c": {"dtest"}, "d": nil}, "c may not import dtest"},
		{packages{"a": {"testing"}, "b": {"a"}, "dtest": {"a"}, "c": nil, "d": nil}, "a is no test and imports testing"},
		{packages{"a": nil, "b": {"a"}, "dtest": {"a"}, "c": nil, "d": nil, "e": nil}, "e has no row"},
		{packages{"a": nil, "b": {"a"}, "dtest": {"a"}, "c": nil}, "d has a row and no package"},
	} {
		if got := strings.Join(violations(table, c.all), "; "); got != c.want {
			t.Errorf("%v:\n got %q\nwant %q", c.all, got, c.want)
		}
	}
}
