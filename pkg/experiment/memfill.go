package experiment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

// filling lets clients take their limit through a real limiter, many at once over one pipelined connection, and knows
// the name of every key that this touched. Requests take up to 9 events each where a sorted set may still be packed,
// and up to 1,000 beyond: a log's member is `i:ID`, and with one digit it is as long as that of a request for a single
// event. Beyond, the allocator rounds both to the same size.
type filling struct {
	name     string
	rdb      redis.UniversalClient // the connection; closing it ends all
	pipeline *redis.AutoPipeliner
	limiter  limiter.Limiter
	capacity int64 // events a client takes in all
	cost     int64 // events a request takes at most
	whole    bool  // all events in one request, since it is no log
	names    *recorder
	clients  int64 // that took their limit
}

const (
	fillers    = 256   // goroutines
	heavy      = 4_000 // events that these write at once; more would keep the server longer than a timeout
	packed     = 512   // events up to which a key is filled in steps of packedCost
	packedCost = 9
)

// open connects a filling of e at the given limit. Whole says that the limiter takes all events in one request.
func (m *mem) open(e target.Entry, l limiter.Limit, whole bool) (*filling, error) {
	rdb, err := m.srv.conn.Open(16)
	if err != nil {
		return nil, err
	}
	f := &filling{
		name: e.Name, rdb: rdb, capacity: e.Rule.Capacity(l), names: newRecorder(m.Prefix + ":{" + m.client("")), whole: whole,
	}
	rdb.AddHook(f.names)
	if f.pipeline, err = rdb.AutoPipeline(); err == nil {
		f.limiter, err = e.New(f.pipeline, l, limiter.WithPrefix(m.Prefix))
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	switch {
	case whole:
		f.cost = f.capacity
	case f.capacity <= packed:
		f.cost = packedCost
	default:
		f.cost = limiter.MaxLogCost
	}
	return f, nil
}

// requests is how many of them a client needs.
func (f *filling) requests() int64 { return (f.capacity + f.cost - 1) / f.cost }

// fillers is how many clients may ask at once.
func (f *filling) fillers() int {
	if f.whole {
		return fillers // a counter takes any number of events in one step
	}
	return max(1, min(fillers, heavy/int(f.cost)))
}

// fill lets each client take its limit and tells of each that has. The first error ends it.
func (f *filling) fill(ctx context.Context, clients []string, filled func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(f.fillers(), len(clients)) {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(clients)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := f.take(ctx, clients[i]); err != nil {
					cancel(err)
				}
				filled()
			}
		})
	}
	wait.Wait()
	return context.Cause(ctx)
}

// take lets one client take its whole limit.
func (f *filling) take(ctx context.Context, client string) error {
	for left := f.capacity; left > 0; left -= f.cost {
		if err := f.ask(ctx, client, min(left, f.cost)); err != nil {
			return err
		}
	}
	return nil
}

// ask makes one request, which must be allowed.
func (f *filling) ask(ctx context.Context, client string, cost int64) error {
	d, err := f.limiter.Check(ctx, client, cost)
	if err == nil && !d.Allowed {
		err = unmeasured(fmt.Sprintf("a client was denied before it had taken %d events", f.capacity))
	}
	return err
}

// batch is how many keys may be looked at or deleted at once.
func (f *filling) batch() int {
	if f.whole {
		return lookBatch
	}
	return max(1, min(lookBatch, 10*heavy/int(f.capacity)))
}

// forget deletes every key that was touched, by its name. What an interrupt left in the queue is sent before.
func (f *filling) forget(ctx context.Context) error {
	err := f.pipeline.Close()
	for names := range slices.Chunk(f.names.sorted(), f.batch()) {
		_, failed := f.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, name := range names { // in a cluster they lie apart
				p.Del(ctx, name)
			}
			return nil
		})
		err = errors.Join(err, uncounted(failed))
	}
	return err
}

// close ends the connection; ending it again does nothing.
func (f *filling) close() error {
	if err := f.rdb.Close(); !errors.Is(err, redis.ErrClosed) {
		return err
	}
	return nil
}

// recorder notes the names of the keys in all commands that a connection sends: those words that begin as the keys of
// this run do.
type recorder struct {
	prefix string
	mu     sync.Mutex
	names  map[string]struct{}
}

func newRecorder(prefix string) *recorder {
	return &recorder{prefix: prefix, names: map[string]struct{}{}}
}

// sorted is all names so far.
func (r *recorder) sorted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, 0, len(r.names))
	for name := range r.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (r *recorder) note(cmd redis.Cmder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, arg := range cmd.Args() {
		switch word := arg.(type) {
		case string:
			r.add(word)
		case *string:
			r.add(*word)
		}
	}
}

func (r *recorder) add(word string) {
	if strings.HasPrefix(word, r.prefix) {
		r.names[word] = struct{}{}
	}
}

// DialHook changes nothing.
func (r *recorder) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook notes the command's keys.
func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.note(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook notes the keys of all commands.
func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			r.note(cmd)
		}
		return next(ctx, cmds)
	}
}
