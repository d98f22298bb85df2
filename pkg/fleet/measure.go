package fleet

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/load"
	"github.com/rlctl/rlctl/pkg/target"
)

// measuring is a measured job under way.
//
// What the limiters answer is arranged by the keys. On the allowed path a key's name is asked no more often than its
// limit has room for, by all processes together; then the key goes on under a fresh name. Keys begin at different points
// of that way, the room before which was taken beforehand, so that from the first request on some are nearly fresh and
// others nearly full. On the denied path each key's whole room was taken beforehand. Whether the answers were what the
// path says is for the reader of the round to check.
type measuring struct {
	Job
	limiter       limiter.Limiter
	fresh, filled *load.Keys // nil where the path has none
}

func (w *worker) prepareToMeasure(ctx context.Context, j Job, entry target.Entry) error {
	leaveACore(j)
	rdb, err := w.client(j)
	if err != nil {
		return err
	}
	m := &measuring{Job: j}
	if m.limiter, err = entry.New(rdb, j.Limit, limiter.WithPrefix(j.Prefix)); err != nil {
		return err
	}
	w.opened = append(w.opened, m.limiter)
	if _, err := m.limiter.Check(ctx, j.Key, 0); err != nil && !contended(err) {
		return err
	}
	if err := w.fillPool(ctx, j); err != nil {
		return err
	}
	w.measuring = m
	return m.take(ctx)
}

// client is what the limiter of a job sends through.
func (w *worker) client(j Job) (redis.UniversalClient, error) {
	if !j.Measured.AutoPipeline {
		return w.rdb, nil
	}
	if w.auto != nil {
		return w.auto, nil
	}
	auto, ok := w.rdb.(interface {
		AutoPipelineWithOptions(*redis.AutoPipelineOptions) (*redis.AutoPipeliner, error)
	})
	if !ok {
		return nil, errors.New("this client has no autopipeline")
	}
	pipeliner, err := auto.AutoPipelineWithOptions(gathering())
	if err != nil {
		return nil, fmt.Errorf("open the autopipeline: %w", err)
	}
	w.auto = autoClient{w.rdb, pipeliner}
	return w.auto, nil
}

// gathering is how the client library gathers. Each caller waits for its own answer, so there is no order to keep, and
// further batches are made while the server has the first; by itself the library lets them wait.
func gathering() *redis.AutoPipelineOptions {
	return &redis.AutoPipelineOptions{Unordered: true, MaxConcurrentBatches: 8}
}

// autoClient sends single commands through the autopipeline and all else as the client does.
type autoClient struct {
	redis.UniversalClient
	auto *redis.AutoPipeliner
}

// Process queues the command and waits for its reply.
func (c autoClient) Process(ctx context.Context, cmd redis.Cmder) error {
	return c.auto.Process(ctx, cmd)
}

// AutoPipeline is the one that is in use, for limiters that want it as their own client.
func (c autoClient) AutoPipeline() (*redis.AutoPipeliner, error) { return c.auto, nil }

// take makes the keys and takes from each what its path wants taken before.
func (m *measuring) take(ctx context.Context) error {
	if m.Measured.Path != Denied {
		base, budget := m.Key, m.Measured.Room/(m.Cost*int64(m.Measured.Procs))
		if budget == 0 { // too little to share
			base, budget = fmt.Sprintf("%s-%d", base, m.Proc), m.Measured.Room/m.Cost
		}
		m.fresh = load.NewKeys(base, m.Measured.Keys, budget)
		err := m.all(func(i int) error {
			n := budget * int64(i) / int64(m.Measured.Keys)
			if n == 0 {
				return nil
			}
			return m.spend(ctx, m.fresh.Ask(i, n), n*m.Cost)
		})
		if err != nil {
			return err
		}
	}
	if m.Measured.Path == Allowed {
		return nil
	}
	m.filled = load.NewKeys(m.Key+"-full", m.Measured.Keys, 0)
	return m.all(func(i int) error { return m.spend(ctx, m.filled.Ask(i, 1), m.Measured.Room) })
}

// all calls do for each key, from as many goroutines as there will be clients.
func (m *measuring) all(do func(i int) error) error {
	errs := make([]error, min(m.Clients, m.Measured.Keys))
	var wg sync.WaitGroup
	for c := range errs {
		wg.Go(func() {
			for i := c; i < m.Measured.Keys && errs[c] == nil; i += len(errs) {
				errs[c] = do(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// spend takes events from a key, whose room several processes may be taking at once.
func (m *measuring) spend(ctx context.Context, key string, events int64) error {
	for events > 0 {
		cost := min(events, limiter.MaxLogCost)
		if m.Unit {
			cost = 1
		}
		if _, err := m.limiter.Check(ctx, key, cost); err != nil && !contended(err) {
			return err
		}
		events -= cost
	}
	return nil
}

func contended(err error) bool {
	var e *limiter.Error
	return errors.As(err, &e) && e.Class == limiter.ClassContention
}

// run lets all clients go and gathers what they counted and what that took.
func (m *measuring) run(ctx context.Context) done {
	plans := make([]load.Plan, m.Clients)
	for i := range plans {
		plans[i] = m.plan(i)
	}
	sums := make([]load.Summary, m.Clients)
	before, used := retries([]limiter.Limiter{m.limiter}), usage()
	start := time.Now()
	var wg sync.WaitGroup
	for i, p := range plans {
		wg.Go(func() { sums[i] = load.Run(ctx, m.limiter, p) })
	}
	wg.Wait()
	end := done{Usage: usage()}
	end.Usage.Elapsed = time.Since(start)
	end.Usage.CPU -= used.CPU
	end.Usage.Mallocs -= used.Mallocs
	for _, s := range sums {
		end.Merge(s)
	}
	end.Retries = retries([]limiter.Limiter{m.limiter}) - before
	return end
}

// plan is what one client does. Those of all processes are due one after the other, evenly.
func (m *measuring) plan(client int) load.Plan {
	all := m.Clients * m.Measured.Procs
	number := client*m.Measured.Procs + m.Proc
	return load.Plan{
		Key: m.way(number, all), Cost: m.Cost, For: m.Measured.For, Batch: m.Measured.Batch,
		Every: m.Measured.Every, Phase: m.Measured.Every * time.Duration(number) / time.Duration(all),
	}
}

// way is how one client goes through the keys of the path.
func (m *measuring) way(number, all int) func() string {
	through := func(k *load.Keys) func() string {
		if m.Measured.Zipf > 0 {
			return k.Zipf(m.Measured.Zipf, uint64(number))
		}
		return k.Cycle(number, all)
	}
	switch m.Measured.Path {
	case Denied:
		return through(m.filled)
	case Mixed:
		return load.Alternate(through(m.fresh), through(m.filled))
	}
	return through(m.fresh)
}

// usage is what this process has used so far, but for the time that passed.
func usage() Usage {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r) // fails for no process that asks about itself
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Usage{CPU: time.Duration(r.Utime.Nano() + r.Stime.Nano()), Mallocs: int64(m.Mallocs)}
}

// tidyLimit is for how long a worker deletes what it wrote. What is then left has its TTL.
const tidyLimit = grace / 2

// tidy deletes what the last measured job wrote, if that is to be.
func (w *worker) tidy() {
	m := w.measuring
	w.measuring = nil
	if m == nil || !m.Measured.Tidy {
		return
	}
	resetter, ok := m.limiter.(limiter.Resetter)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tidyLimit)
	defer cancel()
	for _, k := range []*load.Keys{m.fresh, m.filled} {
		if k != nil {
			k.Names(func(name string) bool { return resetter.Reset(ctx, name) == nil })
		}
	}
	_ = resetter.Reset(ctx, m.Key)
}
