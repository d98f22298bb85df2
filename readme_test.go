package main_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
)

var update = flag.Bool("update", false, "rewrite what README.md shows")

// TestREADME runs every command of README.md in the order of the page, on a server of its own, and compares what it
// prints with what stands there. Figures and times differ from run to run; words may not.
func TestREADME(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	shell := newShell(t)
	want := replaceBlocks(string(page), "```console\n", "```", func(block string) string {
		var out strings.Builder
		for _, command := range regexp.MustCompile(`(?m)^\$ (.*)$`).FindAllStringSubmatch(block, -1) {
			out.WriteString("$ " + command[1] + "\n" + shell(command[1]))
		}
		return out.String()
	})
	want = replaceBlocks(want, "```go\n", "```", func(string) string { return example(t) })
	want = replaceBlocks(want, "<!-- made by: rlctl list --format markdown -->\n", "<!-- end -->", func(string) string {
		return shell("rlctl list --format markdown | grep '^|'")
	})
	if *update {
		if err := os.WriteFile("README.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, expected := words(string(page)), words(want)
	for i := range max(len(got), len(expected)) {
		if i >= len(got) || i >= len(expected) || got[i] != expected[i] {
			t.Fatalf("README.md is stale (go test . -run README -update):\n%s\nwhere now is\n%s",
				strings.Join(got[min(i, len(got)):min(i+3, len(got))], "\n"),
				strings.Join(expected[min(i, len(expected)):min(i+3, len(expected))], "\n"))
		}
	}
}

// newShell builds rlctl and returns what runs a command line with it and gives back stdout. The server stands where
// check and script look for one; race starts its own.
func newShell(t *testing.T) func(line string) string {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "rlctl"), ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := redisdtest.Start(t, redisd.Options{})
	return func(line string) string {
		c := exec.Command("sh", "-c", line)
		c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "REDIS_URL=unix://"+server.Socket(), "SOCK="+server.Socket())
		var stderr bytes.Buffer
		c.Stderr = &stderr
		out, err := c.Output()
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, &stderr)
		}
		return strings.ReplaceAll(string(out), server.Socket(), "127.0.0.1:6379")
	}
}

// example is the body of the library's example, as go vet has compiled it.
func example(t *testing.T) string {
	source, err := os.ReadFile("pkg/limiter/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "func Example() {\n")
	body, _, _ = strings.Cut(body, "\n}\n")
	return strings.ReplaceAll(strings.TrimPrefix(body, "\t"), "\n\t", "\n") + "\n"
}

// replaceBlocks gives each part of the page between begin and end a new content.
func replaceBlocks(page, begin, end string, content func(old string) string) string {
	parts := strings.Split(page, begin)
	for i, part := range parts[1:] {
		old, rest, _ := strings.Cut(part, end)
		parts[i+1] = content(old) + end + rest
	}
	return strings.Join(parts, begin)
}

var variable = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8,40}\b`), "#"}, // seeds and hashes
	{regexp.MustCompile(`\b([0-9.]+(ms|d|h|m|s))+\b`), "#"},
	{regexp.MustCompile(`[-+]?[0-9][0-9,.]*`), "#"},
	{regexp.MustCompile(`-{3,}|:-+:?|-+:`), "-"}, // the rule under a Markdown head is as wide as its column
	{regexp.MustCompile(`\b(rounds?|retry|retries|errors?|times?|process(es)?)\b`), "~"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

// words are the lines of a page without what differs from run to run. A limiter that was caught late is a line more.
func words(page string) []string {
	for _, v := range variable {
		page = v.pattern.ReplaceAllString(page, v.by)
	}
	return slices.DeleteFunc(strings.Split(page, "\n"), func(line string) bool { return strings.Contains(line, "sums of # ~ on fresh keys") })
}
