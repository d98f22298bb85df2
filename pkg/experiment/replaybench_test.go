package experiment

import (
	"bytes"
	"testing"
	"time"

	"github.com/rlctl/rlctl/internal/madelog"
	"github.com/rlctl/rlctl/pkg/accesslog"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

// quiet is an Env that nobody watches.
func quiet() Env {
	return Env{Catalogue: target.Catalogue(), Note: func(string) {}, Progress: func(int64, int64, string) {}}
}

// BenchmarkReplay reads a log and lets one limit decide.
func BenchmarkReplay(b *testing.B) {
	for _, c := range []struct{ format, limiter string }{
		{"json", "gcra"}, {"csv", "gcra"}, {"combined", "gcra"}, {"combined", "sliding-log"}, {"combined", "token-bucket"}, {"combined", "fixed-window"},
	} {
		b.Run(c.format+"/"+c.limiter, func(b *testing.B) {
			var text bytes.Buffer
			format := accesslog.Format(c.format)
			plan := madelog.Plan{Format: format, Seed: 7, Requests: 300_000, Span: 4 * time.Hour}
			if _, err := plan.Write(&text, func(madelog.Request) {}); err != nil {
				b.Fatal(err)
			}
			p := Replay{
				Limiters: []string{c.limiter}, Limits: []limiter.Limit{{Events: 100, Window: time.Minute}}, Log: madelog.Fields(format), Top: 5,
			}
			b.ReportAllocs()
			for b.Loop() {
				r, err := p.Run(b.Context(), quiet(), bytes.NewReader(text.Bytes()))
				if err != nil || r.Log.Requests != 300_000 {
					b.Fatal(err, r)
				}
			}
			b.ReportMetric(float64(b.N*300_000)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
