package cmd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlctl/rlctl/pkg/experiment"
)

// benchFile keeps a bench of six rounds, in which a limiter made that many calls a second, more or less.
func benchFile(t *testing.T, perSecond, spread float64) string {
	t.Helper()
	made := experiment.Provenance{Command: "rlctl bench", Time: "2026-01-02T03:04:05Z", Version: "v1", Go: "go1", OS: "linux", Arch: "amd64", Cores: 2}
	row := experiment.BenchRow{Limiter: "gcra", Path: "allowed", Clients: 1, Procs: 1, Pipeline: 1, Rounds: 6}
	for i := range 6 {
		v := perSecond * (1 + spread*(float64(i)-2.5)/5)
		row.Samples = append(row.Samples, experiment.BenchFigures{OpsPerSec: &v})
	}
	row.P50, row.P99 = new(20.0), new(2000.0)
	text, err := json.Marshal(experiment.BenchResult{Schema: "rlctl.bench/v1", Env: made, Results: []experiment.BenchRow{row}})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "bench.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The gate can fail, can hold, and says when it cannot tell.
func TestTheGateOfReport(t *testing.T) {
	before := benchFile(t, 100_000, 0.02)
	for _, c := range []struct {
		after, gate string
		code        int
		says        string
	}{
		{benchFile(t, 80_000, 0.02), "5%", 1, "BROKEN: 1 figure is more than 5 % worse   1 worse"},
		{benchFile(t, 80_000, 0.02), "30%", 0, "held: nothing is more than 30 % worse   1 worse"},
		{benchFile(t, 80_000, 0.02), "", 0, "1 worse"},
		{benchFile(t, 95_000, 0.02), "5%", 3, "inconclusive: it is not known that nothing is more than 5 % worse   1 worse"},
		{benchFile(t, 100_000, 0.5), "5%", 3, "inconclusive: it is not known that nothing is more than 5 % worse   1 ~"},
		{benchFile(t, 120_000, 0.02), "0%", 0, "held: nothing is more than 0 % worse   1 better"},
		{before, "5%", 0, "held: nothing is more than 5 % worse   1 ~"},
	} {
		args := []string{"report", before, c.after}
		if c.gate != "" {
			args = append(args, "--fail-over", c.gate)
		}
		code, stdout, stderr := run(args)
		if code != c.code || !strings.HasPrefix(stdout, c.says+"\n") || stderr != "" {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.gate, code, c.code, stdout, stderr)
		}
		if again, stdout, _ := run(append(args, "--format", "json")); again != c.code || len(validate(t, stdout)) > 0 {
			t.Errorf("exit code %d, %v\n%s", again, validate(t, stdout), stdout)
		}
	}
	if code, _, stderr := run([]string{"report", before, before, "--format", "benchfmt"}); code != 64 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if code, _, stderr := run([]string{"report", before, before, "--figure", "speed"}); code != 64 || !strings.HasPrefix(stderr, "rlctl: --figure: want any of ") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// Bars are of characters that the locale has.
func TestBarsFollowTheLocale(t *testing.T) {
	file := benchFile(t, 1, 0)
	for _, c := range []struct{ all, ctype, lang, want string }{
		{"", "", "C.UTF-8", "50%  █"}, {"", "", "de_DE.utf8", "50%  █"}, {"", "", "", "50%  █"}, {"C", "C.UTF-8", "C.UTF-8", "50%  #"},
		{"", "POSIX", "C.UTF-8", "50%  #"}, {"", "", "de_DE.ISO-8859-1", "50%  #"},
	} {
		t.Setenv("LC_ALL", c.all)
		t.Setenv("LC_CTYPE", c.ctype)
		t.Setenv("LANG", c.lang)
		if code, stdout, stderr := run([]string{"report", file}); code != 0 || !strings.Contains(stdout, c.want) {
			t.Errorf("%+v: exit code %d\n%s%s", c, code, stdout, stderr)
		}
	}
}

func TestKeptResultsKeepTheirSchema(t *testing.T) {
	files, err := filepath.Glob("../results/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range validate(t, string(text)) {
			t.Errorf("%s: %v", name, fault)
		}
	}
}
