package main_test

import (
	"bytes"
	"flag"
	"fmt"
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

var update = flag.Bool("update", false, "rewrite what the pages show")

// TestPages runs every command of README.md and DESIGN.md in the order of the page, on a server of its own, and
// compares what it prints with what stands there.
func TestPages(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs a program that the race detector is not in")
	}
	for name, comparable := range map[string]func(page string) []string{
		"README.md": words,
		"DESIGN.md": func(page string) []string { return strings.Split(page, "\n") }, // its commands set the time
	} {
		t.Run(name, func(t *testing.T) {
			page, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			now := rewritten(t, string(page))
			if *update {
				err = os.WriteFile(name, []byte(now), 0o644)
			} else {
				err = same(comparable(string(page)), comparable(now))
			}
			if err != nil {
				t.Errorf("%v\nto rewrite it: go test . -run Pages -update", err)
			}
		})
	}
}

// rewritten is the page as it must be now.
func rewritten(t *testing.T, page string) string {
	shell := newShell(t)
	page = replaceBlocks(page, "```console\n", "```", func(block string) string {
		var out strings.Builder
		for _, command := range regexp.MustCompile(`(?m)^\$ (.*)$`).FindAllStringSubmatch(block, -1) {
			out.WriteString("$ " + command[1] + "\n" + shell(command[1]))
		}
		return out.String()
	})
	bodies := examples(t)
	page = replaceBlocks(page, "```go\n", "```", func(string) string {
		if len(bodies) == 0 {
			t.Fatal("the page has more examples than there are")
		}
		body := bodies[0]
		bodies = bodies[1:]
		return body
	})
	return replaceBlocks(page, "<!-- made by: rlctl list --format markdown -->\n", "<!-- end -->", func(string) string {
		return shell("rlctl list --format markdown | grep '^|'")
	})
}

func same(got, want []string) error {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			return fmt.Errorf("stale:\n%s\nwhere now is\n%s",
				strings.Join(got[min(i, len(got)):min(i+3, len(got))], "\n"), strings.Join(want[min(i, len(want)):min(i+3, len(want))], "\n"))
		}
	}
	return nil
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
		return string(out)
	}
}

// examples are the bodies of the libraries' examples, as go vet has compiled them, in the order of the page.
func examples(t *testing.T) (bodies []string) {
	return []string{
		example(t, "pkg/limiter/example_test.go", "Example"),
		example(t, "pkg/httplimit/example_test.go", "Example_service"),
	}
}

func example(t *testing.T, file, name string) string {
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(source), "func "+name+"() {\n")
	if !found {
		t.Fatalf("%s has no %s", file, name)
	}
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
	{regexp.MustCompile(`unix:\S+`), "unix:#"},
	{regexp.MustCompile(`seed [0-9a-f]+`), "seed #"},
	{regexp.MustCompile(`\b([0-9.]+(ms|d|h|m|s))+\b`), "#"},
	{regexp.MustCompile(`[▏▎▍▌▋▊▉█]+ `), ""}, // bars
	{regexp.MustCompile(`\b[0-9][0-9,.]* (µs|ms|s)(\s)`), "#$2"},
	{regexp.MustCompile(`(?m)^(\S.* (?:allowed|denied)) [ ±~%0-9,.]+(?:waiting|client|server)$`), "$1 figures"}, // of bench
	{regexp.MustCompile(`(?m)^(the machine was busy|in [0-9]+ rows? the client was the limit).*\n`), ""},
	{regexp.MustCompile(`[-+]?[0-9][0-9,.]*`), "#"},
	{regexp.MustCompile(`-{3,}|:-+:?|-+:`), "-"}, // the rule under a Markdown head is as wide as its column
	{regexp.MustCompile(`\b(rounds?|retry|retries|errors?|times?|process(es)?)\b`), "~"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

// words are the lines of a page without what differs from run to run: figures and times do, words may not. A limiter
// that was caught late is a line more.
func words(page string) []string {
	for _, v := range variable {
		page = v.pattern.ReplaceAllString(page, v.by)
	}
	return slices.DeleteFunc(strings.Split(page, "\n"), func(line string) bool { return strings.Contains(line, "sums of # ~ on fresh keys") })
}
