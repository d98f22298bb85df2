package model_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// BenchmarkCheck replays what a race records: a limit of 100, asked 20 times as often as it admits.
func BenchmarkCheck(b *testing.B) {
	l := limiter.Limit{Events: 100, Window: time.Second}
	ids := make([]string, 1<<16)
	for i := range ids {
		ids[i] = "0123456789abcdef0123456789abcdef-" + strconv.Itoa(i)
	}
	for _, r := range rules() {
		b.Run(r.name, func(b *testing.B) {
			b.ReportAllocs()
			s, now := r.Fresh, at(1_700_000_000_123_456)
			for i := range b.N {
				now = now.Add(500 * µs)
				s, _ = s.Check(now, model.Request{Limit: l, Cost: 1, ID: ids[i%len(ids)]})
			}
		})
	}
}
