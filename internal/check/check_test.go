package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTally reads runs of `go test -json`, shortened.
func TestTally(t *testing.T) {
	const pass = `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"p"}` + "\n"
	for name, c := range map[string]struct {
		events         string
		passed, failed int
		says           string
	}{
		"nothing":   {"", 0, 1, "no test ran"},
		"no tests":  {`{"Action":"skip","Package":"p"}`, 0, 1, "no test ran"},
		"pass":      {pass, 1, 0, ""},
		"subtests":  {`{"Action":"pass","Package":"p","Test":"TestA/x"}` + "\n" + pass, 1, 0, ""},
		"skip":      {`{"Action":"output","Package":"p","Test":"TestB","Output":"no clock\n"}{"Action":"skip","Package":"p","Test":"TestB"}` + pass, 1, 0, "no clock"},
		"fail":      {`{"Action":"output","Package":"p","Test":"TestB/x","Output":"a.go:1: why\n"}{"Action":"fail","Package":"p","Test":"TestB/x"}{"Action":"fail","Package":"p","Test":"TestB"}{"Action":"fail","Package":"p"}`, 0, 1, "a.go:1: why"},
		"quiet":     {`{"Action":"output","Package":"p","Test":"TestB/x","Output":"hush\n"}{"Action":"pass","Package":"p","Test":"TestB/x"}{"Action":"output","Package":"p","Test":"TestB/y","Output":"why\n"}{"Action":"fail","Package":"p","Test":"TestB"}{"Action":"output","Package":"p","Output":"FAIL p\n"}{"Action":"fail","Package":"p"}`, 0, 1, "FAIL p TestB\nwhy\n"},
		"not built": {`{"Action":"build-output","ImportPath":"q","Output":"q.go:1: undefined\n"}{"Action":"fail","Package":"q"}` + pass, 1, 1, "q.go:1: undefined"},
		"panic":     {`{"Action":"output","Package":"q","Test":"TestB","Output":"panic: oh\n"}{"Action":"fail","Package":"q"}` + pass, 1, 1, "panic: oh"},
		"torn":      {pass + `{"Action":`, 1, 1, "read the output"},
	} {
		var out bytes.Buffer
		r := newRun(&tally{out: &out})
		r.end(r.read(strings.NewReader(c.events)))
		if r.passed != c.passed || r.failed != c.failed || !strings.Contains(out.String(), c.says) || strings.Contains(out.String(), "hush") {
			t.Errorf("%s: got %d passed, %d failed, want %d, %d and %q in\n%s", name, r.passed, r.failed, c.passed, c.failed, c.says, out.String())
		}
	}
}

// TestSpecs reads the ends of runs of busted.
func TestSpecs(t *testing.T) {
	ended := errors.New("exit status 1")
	for said, c := range map[string]struct {
		err            error
		passed, failed int
	}{
		"++\n2 successes / 0 failures / 0 errors / 0 pending : 1.2 seconds\n":   {nil, 2, 0},
		"+-*\n1 success / 1 failure / 1 error / 0 pending : 1.2 seconds\n\nwhy": {ended, 1, 2},
		"+.\n1 success / 0 failures / 0 errors / 1 pending : 1.2 seconds\n":     {nil, 1, 1},
		"0 successes / 0 failures / 0 errors / 0 pending : 0.1 seconds\n":       {nil, 0, 1},
		"3 successes / 0 failures / 0 errors / 0 pending : 0.1 seconds\n":       {ended, 3, 1},
		"lua: no such module": {ended, 0, 1},
		"":                    {nil, 0, 1},
	} {
		var out bytes.Buffer
		tally := tally{out: &out}
		tally.specs(t.Context(), exec.Command("busted"), c.err, said)
		if tally.passed != c.passed || tally.failed != c.failed || c.failed > 0 && !strings.Contains(out.String(), said) {
			t.Errorf("%q: got %d passed, %d failed, want %d, %d in\n%s", said, tally.passed, tally.failed, c.passed, c.failed, &out)
		}
	}
}

func TestWhatHasNotEndedIsKnown(t *testing.T) {
	r := newRun(&tally{out: io.Discard})
	r.read(strings.NewReader(`{"Action":"start","Package":"p"}{"Action":"run","Package":"p","Test":"TestA"}{"Action":"run","Package":"p","Test":"TestB"}{"Action":"pass","Package":"p","Test":"TestA"}`))
	if want := map[string]bool{"p": true, "p TestB": true}; !maps.Equal(r.open, want) {
		t.Errorf("got %v, want %v", r.open, want)
	}
}

func TestClosingLineAndCode(t *testing.T) {
	ok, bad := passes("true"), passes("sh", "-c", "echo broken; exit 3")
	for name, c := range map[string]struct {
		parts []part
		code  int
		last  string
		says  string
	}{
		"all pass":  {[]part{{"a", time.Minute, ok}, {"b", time.Minute, silent("true")}}, 0, "2 passed, 0 failed", "a "},
		"one fails": {[]part{{"a", time.Minute, bad}, {"b", time.Minute, ok}}, 1, "1 passed, 1 failed", "broken"},
		"not quiet": {[]part{{"a", time.Minute, silent("echo", "a.go")}}, 1, "0 passed, 1 failed", "a.go"},
		"missing":   {[]part{{"a", time.Minute, passes("/nonexistent")}}, 1, "0 passed, 1 failed", "/nonexistent"},
		"no parts":  {nil, 1, "0 passed, 0 failed", ""},
	} {
		var out bytes.Buffer
		code := check(t.Context(), c.parts, &out)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if code != c.code || lines[len(lines)-1] != c.last || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: exit %d, want %d, %q and %q in\n%s", name, code, c.code, c.last, c.says, out.String())
		}
	}
}

// A part that hangs is killed with the children it left in its way.
func TestOverrunIsAFailure(t *testing.T) {
	var out bytes.Buffer
	start := time.Now()
	code := check(t.Context(), []part{{"slow", 50 * time.Millisecond, passes("sh", "-c", "sleep 60 & wait")}}, &out)
	if took := time.Since(start); code != 1 || took > 5*time.Second || !strings.Contains(out.String(), "slow did not end within its 50ms") ||
		!strings.Contains(out.String(), "0 passed, 1 failed") {
		t.Errorf("exit %d after %v:\n%s", code, took, out.String())
	}
}

func TestInterruptStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ran := 0
	p := part{"a", time.Minute, func(context.Context, *tally) { ran++ }}
	if code := check(ctx, []part{p, p}, &bytes.Buffer{}); code != 1 || ran != 1 {
		t.Errorf("exit %d, %d parts ran", code, ran)
	}
}

func TestBudgetsFitInTenMinutes(t *testing.T) {
	for _, p := range parts() {
		if p.budget > whole {
			t.Errorf("%s may take %v, all parts together %v", p.name, p.budget, whole)
		}
	}
	if whole > 10*time.Minute-45*time.Second {
		t.Errorf("the parts may take %v, with 45 s for installing: over ten minutes", whole)
	}
}

func TestFuzzTargets(t *testing.T) {
	listed := "FuzzA\nFuzzB\nok  \texample/p\t0.01s\n?   \texample/q\t[no test files]\nok  \texample/r\t0.01s\nFuzzC\nok  \texample/s\t0.01s\n"
	want := []fuzzTarget{{"FuzzA", "example/p"}, {"FuzzB", "example/p"}, {"FuzzC", "example/s"}}
	if got := fuzzTargets(listed); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
