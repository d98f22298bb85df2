package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	exp "github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/report"
)

// atRoot runs the test in the folder where results/ and the pages lie.
func atRoot(t *testing.T) {
	t.Helper()
	t.Chdir(filepath.Join("..", ".."))
}

func read(t *testing.T, name string) exp.Result {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	result, err := exp.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return result
}

// Each result was made by the command that the matrix has for it, to its end, and there is no other.
func TestResultsAreThoseOfTheMatrix(t *testing.T) {
	atRoot(t)
	known := map[string]bool{"results/zoo.json": true, "results/peers.json": true, "results/matrix.json": true, "results/replay.json": true} // made otherwise, see the Makefile
	for _, x := range matrix {
		known[x.file()] = true
		text, err := os.ReadFile(x.file())
		if err != nil {
			t.Error(err)
			continue
		}
		made := `"command": "rlctl ` + x.command + ` --out ` + x.file() + `",`
		if !strings.Contains(string(text), made) || !strings.Contains(string(text), "\n  \"partial\": false,\n") {
			t.Errorf("%s is not what rlctl %s came to: make results", x.file(), x.command)
		}
	}
	for _, p := range pictures {
		known[p.file()] = true
	}
	files, err := filepath.Glob("results/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !known[name] && !strings.HasPrefix(name, "results/bars-") {
			t.Errorf("nothing makes %s", name)
		}
	}
}

// The blocks of the pages hold what results/ has now.
func TestPagesShowTheResults(t *testing.T) {
	atRoot(t)
	for _, name := range []string{"README.md", "DESIGN.md", "docs/scale.md"} {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range stale(string(page), os.DirFS(".")) {
			t.Errorf("%s: %s", name, fault)
		}
	}
}

// stale says what of a page is not what the results in a folder make of it.
func stale(page string, folder fs.FS) (faults []string) {
	filled, err := exp.FillPage(page, folder)
	if err != nil {
		return []string{err.Error()}
	}
	if filled != page {
		faults = append(faults, "a block is stale: rlctl report --readme")
	}
	for _, image := range regexp.MustCompile(`!\[[^\]]*\]\((results/[^)]*)\)`).FindAllStringSubmatch(page, -1) {
		if _, err := fs.Stat(folder, image[1]); err != nil {
			faults = append(faults, err.Error())
		}
	}
	return faults
}

// The pictures are drawn of what results/ has now.
func TestPicturesShowTheResults(t *testing.T) {
	atRoot(t)
	for _, p := range pictures {
		var results []exp.Result
		for _, name := range p.files() {
			results = append(results, read(t, name))
		}
		d := results[0].Document()
		if len(results) > 1 {
			d = exp.Together(results)
		}
		var want bytes.Buffer
		if err := report.WriteSVG(&want, d.Charts); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		if got, err := os.ReadFile(p.file()); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s is stale: make results", p.file())
		}
	}
}

// A page that was changed by hand, or that shows what is not there, is found.
func TestStalePagesAreFound(t *testing.T) {
	atRoot(t)
	folder := os.DirFS(".")
	page, err := exp.FillPage("<!-- rlctl:race results/race-20.json -->\n<!-- /rlctl -->\n", folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		page   string
		faults int
	}{
		{page, 0},
		{strings.Replace(page, "| gcra", "| GCRA", 1), 1},
		{page + "![no such picture](results/none.svg)\n", 1},
		{strings.Replace(page, "race-20", "none", 1), 1},
		{"nothing", 0},
	} {
		if faults := stale(c.page, folder); len(faults) != c.faults {
			t.Errorf("%q in\n%s", faults, c.page)
		}
	}
}
