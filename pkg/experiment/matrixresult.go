package experiment

import (
	"fmt"
	"time"

	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
)

// MatrixSchema names the form of a MatrixResult.
const MatrixSchema = "rlctl.matrix/v1"

// MatrixResult is what the limiters did on servers of several makes and versions.
type MatrixResult struct {
	Schema    string         `json:"schema"` // rlctl.matrix/v1
	Env       Provenance     `json:"env"`
	Results   []MatrixRow    `json:"results"`
	Verdict   replay.Verdict `json:"verdict"`
	ElapsedUS int64          `json:"elapsed_us"`
}

// MatrixRow is one server. What was not run has passed nothing.
type MatrixRow struct {
	Server         string         `json:"server"` // redis, valkey or redict
	Version        string         `json:"version"`
	Suite          string         `json:"suite"` // of Debian
	Package        string         `json:"package"`
	PackageVersion string         `json:"package_version"`
	NotRun         string         `json:"not_run"` // why; empty if it was
	Clock          bool           `json:"clock"`   // its clock can be set
	Tests          MatrixTests    `json:"tests"`
	Race           *MatrixRace    `json:"race"`
	Verdict        replay.Verdict `json:"verdict"`
	ElapsedUS      int64          `json:"elapsed_us"`
}

// MatrixTests are the tests of limiters and models, by name and without subtests.
type MatrixTests struct {
	Passed   int      `json:"passed"`
	Failed   int      `json:"failed"`
	Skipped  int      `json:"skipped"`
	Failures []string `json:"failures"`
	NotRun   string   `json:"not_run"` // which could not be run, and why; empty if all were
}

// MatrixRace is a race in short.
type MatrixRace struct {
	Atomic     int            `json:"atomic"` // limiters that claim to keep their rule
	AtomicHeld int            `json:"atomic_held"`
	Racy       int            `json:"racy"` // those that a race breaks
	RacyOver   int            `json:"racy_over"`
	Replayed   int64          `json:"replayed"` // decisions that were compared with the rule's
	Verdict    replay.Verdict `json:"verdict"`
}

// SumUp is a race in short.
func SumUp(r *RaceResult) *MatrixRace {
	m := &MatrixRace{Verdict: r.Verdict}
	if r.Partial {
		m.Verdict = replay.Inconclusive
	}
	for _, row := range r.Results {
		m.Replayed += row.Replayed
		switch {
		case row.Atomic:
			m.Atomic++
			m.AtomicHeld += one(row.Expected)
		case row.BrokenBy == target.Race:
			m.Racy++
			m.RacyOver += one(row.Expected)
		}
	}
	return m
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Judged is the row with its verdict: broken if a test failed or a limiter that must not broke, held if all was run and
// passed, else inconclusive.
func (row MatrixRow) Judged() MatrixRow {
	if row.Tests.Failures == nil {
		row.Tests.Failures = []string{}
	}
	switch {
	case row.Tests.Failed > 0 || row.Race != nil && row.Race.Verdict == replay.Broken:
		row.Verdict = replay.Broken
	case row.NotRun == "" && row.Tests.NotRun == "" && row.Tests.Passed > 0 && row.Race != nil && row.Race.Verdict == replay.Held:
		row.Verdict = replay.Held
	default:
		row.Verdict = replay.Inconclusive
	}
	return row
}

// NewMatrix sums rows up. What made it is told of by one of its races.
func NewMatrix(race Provenance, rows []MatrixRow, took time.Duration) *MatrixResult {
	race.Command, race.Redis = "make matrix", Server{Version: "several", Private: true, At: "unix socket"}
	r := &MatrixResult{Schema: MatrixSchema, Env: race, Results: rows, Verdict: replay.Held, ElapsedUS: took.Microseconds()}
	for _, row := range rows {
		if row.Verdict == replay.Broken || r.Verdict == replay.Held {
			r.Verdict = row.Verdict
		}
	}
	return r
}

// String is the row on one line.
func (row MatrixRow) String() string {
	return fmt.Sprintf("%-7s %-8s %-19s %s; %s; %s", row.Server, row.Version, row.Suite, row.tests(), row.raced(), row.Verdict)
}
