package experiment

import (
	"fmt"
	"html"
	"io/fs"
	"strings"

	"github.com/rlctl/rlctl/pkg/report"
)

// FillPage fills the marked blocks of a page from results in a folder. A block of one result names its kind (race,
// bench, mem, prove, zoo, peers, matrix, replay, replaycheck) and holds what report FILE --format markdown shows; one of
// several results is called together, one of what benches were held to checks, and one of what they come to on more servers
// scale. All end with what made it.
func FillPage(page string, folder fs.FS) (string, error) {
	return report.FillBlocks(page, func(kind string, files []string) (string, error) {
		d, err := blockOf(kind, files, folder)
		if err != nil {
			return "", err
		}
		var b strings.Builder
		if err := d.Write(&b, report.MarkdownFormat, report.Style{}); err != nil {
			return "", err
		}
		made := strings.TrimSuffix(report.Style{}.Line(d.Made), "\n")
		return b.String() + "\n<sub>made by " + html.EscapeString(made) + "</sub>\n", nil
	})
}

func blockOf(kind string, files []string, folder fs.FS) (d report.Document, err error) {
	var results []Result
	for _, name := range files {
		result, err := readIn(folder, name)
		if err != nil {
			return d, fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, result)
	}
	switch {
	case kind == "together" && len(results) > 1:
		return Together(results), nil
	case kind == "scale" && len(results) > 0:
		return Scale(results), nil
	case kind == "checks" && len(results) > 0:
		return Checks(of[*BenchResult](results)), nil
	case len(results) != 1:
		return d, fmt.Errorf("%s wants one file, got %d; several are together", kind, len(results))
	}
	d = results[0].Document()
	if is := kindOf(results[0]); is != kind {
		return d, fmt.Errorf("%s is no %s but a %s", files[0], kind, is)
	}
	return d, nil
}

func readIn(folder fs.FS, name string) (Result, error) {
	file, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return Read(file)
}

// kindOf is the word in a result's schema: race of rlctl.race/v1.
func kindOf(r Result) string {
	switch r.(type) {
	case *RaceResult:
		return "race"
	case *BenchResult:
		return "bench"
	case *MemResult:
		return "mem"
	case *ProveResult:
		return "prove"
	case *ZooResult:
		return "zoo"
	case *PeersResult:
		return "peers"
	case *MatrixResult:
		return "matrix"
	case *ReplayResult:
		return "replay"
	case *ReplayCheck:
		return "replaycheck"
	}
	return "comparison"
}
