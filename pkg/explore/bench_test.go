package explore

import (
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
)

// BenchmarkSchedule is one complete run, of two clients that GET and then INCR, from the restored start to the verdict.
func BenchmarkSchedule(b *testing.B) {
	srv := redisdtest.Start(b, redisd.Options{Clock: true})
	e, err := target.Find(target.Catalogue(), "naive-counter")
	if err != nil {
		b.Fatal(err)
	}
	limit := limiter.Limit{Events: 10, Window: time.Minute}
	x, err := open(b.Context(), srv, Plan{Entry: e, Limit: limit, Clients: 2, Calls: 1, Start: OneLeft, Full: true, Prefix: "p"})
	if err != nil {
		b.Fatal(err)
	}
	defer x.close()
	for b.Loop() {
		s, err := x.watch(b.Context(), []choice{{client: 0}, {client: 1}, {client: 0}, {client: 1}}, false)
		if err != nil || s.Violation == nil {
			b.Fatal(err, s)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "schedules/s")
}
