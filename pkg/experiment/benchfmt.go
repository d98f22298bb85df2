package experiment

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// WriteBenchfmt writes the result as Go's benchmarks do, which benchstat reads: one line a row and round, so that it sees
// the spread. ns/op is the time of the whole load divided by its calls, and no latency.
func (r *BenchResult) WriteBenchfmt(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\npkg: github.com/rlctl/rlctl\n", r.Env.OS, r.Env.Arch)
	if r.Env.CPU != nil {
		fmt.Fprintf(&b, "cpu: %s\n", *r.Env.CPU)
	}
	fmt.Fprintf(&b, "redis: %s\n\n", r.Env.Redis.Version)
	b.WriteString("Unit calls/s better=higher\n")
	for i := range r.Results {
		r.Results[i].benchmark(&b)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// benchmark writes the lines of one row.
func (row *BenchRow) benchmark(b *bytes.Buffer) {
	name := fmt.Sprintf("BenchmarkCheck/limiter=%s/path=%s/clients=%d/procs=%d/pipeline=%d/rate=%g",
		strings.ReplaceAll(row.Limiter, " ", "_"), row.Path, row.Clients, row.Procs, row.Pipeline, row.Rate)
	for _, s := range row.Samples {
		if s.OpsPerSec == nil || *s.OpsPerSec == 0 {
			continue
		}
		fmt.Fprintf(b, "%s %d %.6g ns/op %.6g calls/s", name, max(1, row.Ops/int64(len(row.Samples))), 1e9 / *s.OpsPerSec, *s.OpsPerSec)
		for _, f := range []struct {
			v     *float64
			scale float64
			unit  string
		}{
			{s.P50, 1e3, "p50-ns"}, {s.P99, 1e3, "p99-ns"}, {s.Script, 1e3, "server-ns/op"}, {s.CPU, 1e3, "server-cpu-ns/op"},
			{s.Commands, 1, "commands/op"}, {s.Allocs, 1, "allocs/op"}, {s.WireBytes, 1, "wire-B/op"},
		} {
			if f.v != nil {
				fmt.Fprintf(b, " %.6g %s", *f.v*f.scale, f.unit)
			}
		}
		b.WriteByte('\n')
	}
}

// Histogram is the distribution of one row's latencies, for HdrHistogram's plotters.
type Histogram struct {
	Name string // such as gcra-denied-response
	h    *hdrhistogram.Histogram
}

// ticksPerHalf is how many percentiles are written for each halving of the distance to 100.
const ticksPerHalf = 5

// Write writes the percentiles in HdrHistogram's text form, in µs.
func (h Histogram) Write(w io.Writer) error {
	_, err := h.h.PercentilesPrint(w, ticksPerHalf, 1000)
	return err
}

// Histograms are those of all rows: response times, and in an open loop service times.
func (r *BenchResult) Histograms() (all []Histogram, err error) {
	for _, row := range r.Results {
		for _, of := range []struct{ kind, text string }{{"response", row.Response}, {"service", row.Service}} {
			if of.text == "" {
				continue
			}
			h, err := hdrhistogram.Decode([]byte(of.text))
			if err != nil {
				return nil, fmt.Errorf("decode the latencies of %s: %w", row.Limiter, err)
			}
			name := strings.NewReplacer(" ", "-", ",", "", "(", "", ")", "").Replace(row.Limiter)
			all = append(all, Histogram{fmt.Sprintf("%s-%s-%s", name, row.Path, of.kind), h})
		}
	}
	return all, nil
}
