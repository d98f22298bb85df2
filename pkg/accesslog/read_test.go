package accesslog_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/rlctl/rlctl/internal/madelog"
	"github.com/rlctl/rlctl/pkg/accesslog"
)

func made(t testing.TB, p madelog.Plan) (text []byte, want []madelog.Request, c madelog.Counts) {
	t.Helper()
	var b bytes.Buffer
	c, err := p.Write(&b, func(r madelog.Request) { want = append(want, r) })
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), want, c
}

// What was put into a log is found in it: every request, and nothing else but what is late.
func TestWhatWasMadeIsFound(t *testing.T) {
	t.Parallel()
	for _, format := range accesslog.Formats() {
		p := madelog.Plan{Format: accesslog.Format(format), Seed: 7, Requests: 20_000, Span: time.Hour, Late: 50, Broken: 50}
		text, want, counts := made(t, p)
		l, err := accesslog.Open(t.Context(), bytes.NewReader(text), madelog.Fields(p.Format))
		if err != nil {
			t.Fatal(err)
		}
		var newest, late, broken int64
		next := 0
		err = l.Each(t.Context(), func(b *accesslog.Batch) error {
			for _, r := range b.Records {
				if r.At < newest {
					late++
					continue
				}
				newest = r.At
				if got := (madelog.Request{At: r.At, Key: string(r.Key), Cost: r.Cost}); got != want[next] {
					return fmt.Errorf("line %d: %+v, want %+v", r.Line, got, want[next])
				}
				next++
			}
			broken += int64(len(b.Faults))
			return nil
		})
		if err != nil || next != len(want) || late != counts.Late || broken != counts.Broken || late == 0 || broken == 0 {
			t.Errorf("%s: %v; %d of %d requests, %d late, %d broken; want %+v", format, err, next, len(want), late, broken, counts)
		}
	}
}

func BenchmarkEach(b *testing.B) {
	for _, format := range accesslog.Formats() {
		b.Run(format, func(b *testing.B) {
			text, want, _ := made(b, madelog.Plan{Format: accesslog.Format(format), Seed: 7, Requests: 200_000, Span: time.Hour})
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				l, err := accesslog.Open(b.Context(), bytes.NewReader(text), madelog.Fields(accesslog.Format(format)))
				if err != nil {
					b.Fatal(err)
				}
				if err := l.Each(b.Context(), func(*accesslog.Batch) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*len(want))/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
