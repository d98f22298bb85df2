package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rlctl/rlctl/pkg/report"
)

// Result is what an experiment came to. Its JSON holds all that it shows, so that Read gives it back.
type Result interface {
	Document() report.Document
}

// kinds are the results that can be read back, by their schema. A reader that knows version n reads no other.
func kinds() map[string]func() Result {
	return map[string]func() Result{
		RaceSchema:        func() Result { return &RaceResult{} },
		BenchSchema:       func() Result { return &BenchResult{} },
		GeneratorSchema:   func() Result { return &GeneratorResult{} },
		MemSchema:         func() Result { return &MemResult{} },
		ProveSchema:       func() Result { return &ProveResult{} },
		JudgeSchema:       func() Result { return &JudgeResult{} },
		ReplaySchema:      func() Result { return &ReplayResult{} },
		ReplayCheckSchema: func() Result { return &ReplayCheck{} },
		ZooSchema:         func() Result { return &ZooResult{} },
		PeersSchema:       func() Result { return &PeersResult{} },
		MatrixSchema:      func() Result { return &MatrixResult{} },
		ComparisonSchema:  func() Result { return &Comparison{} },
	}
}

// maxKept bounds what is read, in bytes: a hundred times the largest result that a sensible run leaves.
const maxKept = 64 << 20

// Read reads a result that an experiment wrote as JSON.
func Read(r io.Reader) (Result, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxKept+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKept {
		return nil, fmt.Errorf("larger than %d MiB, which no result is", maxKept>>20)
	}
	var head struct {
		Schema *string `json:"schema"`
	}
	if err := json.Unmarshal(text, &head); err != nil || head.Schema == nil {
		return nil, errors.New("not a result of rlctl: want what --out or --format json wrote")
	}
	empty, ok := kinds()[*head.Schema]
	if !ok {
		return nil, unknownSchema(*head.Schema)
	}
	result := empty()
	if err := json.Unmarshal(text, result); err != nil {
		return nil, fmt.Errorf("not a whole %s: %w", *head.Schema, err)
	}
	return result, nil
}

// unknownSchema says what else would have been read, and whether a newer rlctl may know more.
func unknownSchema(got string) error {
	var known []string
	name, version, _ := strings.Cut(got, "/v")
	for schema := range kinds() {
		known = append(known, schema)
		ours, v, _ := strings.Cut(schema, "/v")
		if ours == name && newer(version, v) {
			return fmt.Errorf("%s is of a newer rlctl; this one reads %s", got, schema)
		}
	}
	slices.Sort(known)
	return fmt.Errorf("has the schema %q, want one of %s", got, strings.Join(known, ", "))
}

func newer(version, than string) bool {
	a, err := strconv.Atoi(version)
	b, _ := strconv.Atoi(than)
	return err == nil && a > b
}
