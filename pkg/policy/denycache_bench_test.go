package policy_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
)

// BenchmarkLocalRefusal is what a refusal from memory costs, of one client that keeps asking and of many. Of a thousand,
// no limiter is asked while it runs; of many, for those who find no place.
func BenchmarkLocalRefusal(b *testing.B) {
	for _, clients := range []int{1, 1_000, 100_000} {
		var asked atomic.Int64
		l, err := policy.WithDenyCache(limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
			asked.Add(1)
			return limiter.Decision{RetryAfter: time.Hour, ResetAfter: time.Hour}, nil
		}), policy.DenyCache{Entries: 1 << 19, MaxAge: time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		names := make([]string, clients)
		for i := range names {
			names[i] = fmt.Sprint("client-", i)
		}
		refuse := func(b *testing.B, i int) {
			if d, err := l.Check(b.Context(), names[i*31%clients], 1); err != nil || d.Allowed {
				b.Fatal(d, err)
			}
		}
		for i := range clients {
			refuse(b, i)
		}
		b.Run(fmt.Sprint(clients, "-clients"), func(b *testing.B) {
			b.ReportAllocs()
			before := asked.Load()
			for i := 0; b.Loop(); i++ {
				refuse(b, i)
			}
			b.ReportMetric(float64(asked.Load()-before)/float64(b.N), "asked/op")
		})
		b.Run(fmt.Sprint(clients, "-clients-parallel"), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for i := 0; p.Next(); i++ {
					refuse(b, i)
				}
			})
		})
		if clients <= 1_000 && asked.Load() != int64(clients) {
			b.Errorf("%d clients, and the limiter was asked %d times", clients, asked.Load())
		}
	}
}
