package experiment

import "github.com/rlctl/rlctl/pkg/report"

// BenchSchema names the form of a BenchResult.
const BenchSchema = "rlctl.bench/v1"

// Document shows the bench.
func (r *BenchResult) Document() report.Document { return report.Document{Data: r} }
