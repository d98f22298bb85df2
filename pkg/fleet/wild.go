package fleet

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/load"
)

// WildKey is the name of key i of a wild job.
func WildKey(base string, i int) string { return base + "-" + strconv.Itoa(i) }

// plan is what one client of a recorded job does.
func (j Job) plan(client int) load.Plan {
	w := j.Wild
	if w == nil {
		return load.Plan{Key: func() string { return j.Key }, Cost: j.Cost, Attempts: j.Attempts, Every: j.Every}
	}
	r := rand.New(rand.NewPCG(w.Seed, uint64(j.Proc)<<32|uint64(client)))
	return load.Plan{
		For:   w.For,
		Key:   func() string { return WildKey(j.Key, r.IntN(w.Keys)) },
		Costs: func() int64 { return w.Costs[r.IntN(len(w.Costs))] },
		Pause: func() time.Duration { return time.Duration(r.Int64N(int64(w.Pause) + 1)) },
	}
}

// options are those of the job's limiters.
func (j Job) options() []limiter.Option {
	opts := []limiter.Option{limiter.WithPrefix(j.Prefix)}
	if w := j.Wild; w != nil && j.Proc < len(w.Skew) && w.Skew[j.Proc] != 0 {
		skew := w.Skew[j.Proc]
		opts = append(opts, limiter.WithClock(func() time.Time { return time.Now().Add(skew) }))
	}
	return opts
}
