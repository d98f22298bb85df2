package experiment

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/rlctl/rlctl/pkg/accesslog"
	"github.com/rlctl/rlctl/pkg/report"
)

// replaying is a Replay under way. One goroutine takes batches of the log in its order and leaves out what is late; then
// each of a few shards goes over all of a batch and takes the clients that are its own. A client's requests so keep their
// order, and no two goroutines share one.
type replaying struct {
	Replay
	env    Env
	rules  []replayRule
	result *ReplayResult
	shards []*replayShard
	feeds  []chan []accesslog.Record
	newest int64
	kept   keptRecords // with --sort
}

// queue is how many batches a shard may be behind.
const queue = 4

// read reads the log into the result.
func (r *replaying) read(ctx context.Context, l *accesslog.Log) error {
	var running sync.WaitGroup
	n := runtime.GOMAXPROCS(0)
	for i := range n {
		s, feed := newReplayShard(r.rules), make(chan []accesslog.Record, queue)
		r.shards, r.feeds = append(r.shards, s), append(r.feeds, feed)
		running.Go(func() {
			for records := range feed {
				s.batch(records, uint64(i), uint64(n))
			}
		})
	}
	err := l.Each(ctx, func(b *accesslog.Batch) error {
		r.count(b)
		r.progress()
		if r.Sort {
			r.kept.add(b.Records)
			return nil
		}
		r.feed(b.Records)
		return nil
	})
	for records := range r.kept.sorted() {
		r.feed(records)
	}
	for _, feed := range r.feeds {
		close(feed)
	}
	running.Wait()
	r.sumUp()
	return err
}

func (r *replaying) feed(records []accesslog.Record) {
	for _, feed := range r.feeds {
		feed <- records
	}
}

// count notes what the lines of a batch are, and leaves out of its records what is late, unless all are to be sorted.
func (r *replaying) count(b *accesslog.Batch) {
	log := &r.result.Log
	log.Lines, log.Blank, log.Bytes = log.Lines+b.Lines, log.Blank+b.Blank, log.Bytes+b.Bytes
	for _, f := range b.Faults {
		log.fault(f)
	}
	kept := b.Records[:0]
	for _, one := range b.Records {
		if one.At < r.newest {
			log.Unsorted++
			if !r.Sort {
				continue
			}
		}
		r.newest = max(r.newest, one.At)
		log.request(one)
		kept = append(kept, one)
	}
	b.Records = kept
}

func (r *replaying) progress() {
	log := &r.result.Log
	switch {
	case r.Size >= 1<<20:
		r.env.Progress(log.Bytes>>20, r.Size>>20, fmt.Sprintf("MiB, %s requests", report.Int(log.Requests)))
	case r.Size == 0: // of a pipe nobody knows how much will come
		r.env.Progress(log.Lines, log.Lines, fmt.Sprintf("lines, %s requests", report.Int(log.Requests)))
	}
}

// keptRecords are requests that wait for all others.
type keptRecords struct {
	keys  []accesslog.Record // one of each key
	place map[string]int32
	all   []keptRecord
}

// keptRecord is a request in short.
type keptRecord struct {
	at, cost, line int64
	key            int32
}

func (k *keptRecords) add(records []accesslog.Record) {
	if k.place == nil {
		k.place = map[string]int32{}
	}
	for _, r := range records {
		place, known := k.place[string(r.Key)]
		if !known {
			place = int32(len(k.keys))
			r.Key = slices.Clone(r.Key) // the batch is not held
			k.keys = append(k.keys, r)
			k.place[string(r.Key)] = place
		}
		k.all = append(k.all, keptRecord{r.At, r.Cost, r.Line, place})
	}
}

// sorted gives them back in the order of their times, those of one time in the order of the log.
func (k *keptRecords) sorted() func(yield func([]accesslog.Record) bool) {
	return func(yield func([]accesslog.Record) bool) {
		slices.SortFunc(k.all, func(a, b keptRecord) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.line, b.line)) })
		for chunk := range slices.Chunk(k.all, 4096) {
			records := make([]accesslog.Record, len(chunk))
			for i, c := range chunk {
				records[i] = k.keys[c.key]
				records[i].At, records[i].Cost, records[i].Line = c.at, c.cost, c.line
			}
			if !yield(records) {
				return
			}
		}
	}
}
