package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/load"
	"github.com/rlctl/rlctl/pkg/target"
)

// WorkerCommand is the first argument with which a program runs itself as a worker. The program then calls Work.
const WorkerCommand = "worker"

// gateFD is the descriptor at which a worker finds the gate.
const gateFD = 3

// Work is the body of a worker process: it does the jobs that come on stdin until that ends. It returns an error only
// when there is nobody left to tell it to.
func Work(catalogue []target.Entry, stdin io.Reader, stdout io.Writer) error {
	gate := os.NewFile(gateFD, "gate")
	defer gate.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	jobs := make(chan Job)
	go func() {
		defer stop() // also the call under way: whoever gave the jobs is gone or wants no more
		defer close(jobs)
		for dec := json.NewDecoder(stdin); ; {
			var j Job
			if dec.Decode(&j) != nil {
				return
			}
			jobs <- j
		}
	}()
	w := worker{catalogue: catalogue, gate: gate, out: bufio.NewWriterSize(stdout, 1<<16)}
	defer w.disconnect()
	defer w.closeAll()
	defer w.tidy()
	for j := range jobs {
		if err := w.do(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

type worker struct {
	catalogue []target.Entry
	gate      io.Reader

	mu  sync.Mutex // clients write their ops at the same time
	out *bufio.Writer

	conn target.Conn
	pool int
	rdb  redis.UniversalClient
	auto redis.UniversalClient // rdb through its autopipeline, nil until needed

	measuring *measuring        // the last job, if it was measured
	opened    []limiter.Limiter // of the last job
}

// closeAll ends what the limiters of the last job keep running.
func (w *worker) closeAll() {
	for _, l := range w.opened {
		if c, ok := l.(io.Closer); ok {
			c.Close()
		}
	}
	w.opened = nil
}

// do returns an error only when it cannot be told: when standard output or the gate is gone.
func (w *worker) do(ctx context.Context, j Job) error {
	clients, err := w.ready(ctx, j)
	if err != nil {
		return w.send(message{Fault: newFault(err)}, true)
	}
	if err := w.send(message{Ready: true}, true); err != nil {
		return err
	}
	if _, err := io.ReadFull(w.gate, make([]byte, 1)); errors.Is(err, io.EOF) {
		return nil // dismissed: another worker did not get ready
	} else if err != nil {
		return fmt.Errorf("wait at the gate: %w", err)
	}
	end := done{}
	if j.Measured != nil {
		end = w.measuring.run(ctx)
	} else {
		end.Summary = w.run(ctx, j, clients)
	}
	return w.send(message{Done: &end}, true)
}

// patience is how long wild callers try to get ready. They may be told to wait less for an answer than a busy machine, or
// a server that has just come back, needs for the first.
const patience = 5 * time.Second

// ready is prepare, again and again if it is for wild callers and there was no answer.
func (w *worker) ready(ctx context.Context, j Job) (clients []limiter.Limiter, err error) {
	for end := time.Now().Add(patience); ; {
		clients, err = w.prepare(ctx, j)
		var e *limiter.Error
		silent := errors.As(err, &e) && (e.Class == limiter.ClassNoAnswer || e.Class == limiter.ClassUnreachable || e.Class == limiter.ClassLoading)
		if !silent || j.Wild == nil || ctx.Err() != nil || time.Now().After(end) {
			return clients, err
		}
	}
}

// prepare opens the job's limiter for each client and makes it ready: script loaded, one connection a client. It asks
// with cost 0, which writes nothing.
func (w *worker) prepare(ctx context.Context, j Job) ([]limiter.Limiter, error) {
	w.tidy()
	w.closeAll()
	entry, err := target.Open(w.catalogue, j.Target, j.Terms)
	if err != nil {
		return nil, err
	}
	if err := w.connect(j); err != nil {
		return nil, err
	}
	if j.Measured != nil {
		return nil, w.prepareToMeasure(ctx, j, entry)
	}
	clients := make([]limiter.Limiter, j.Clients)
	for i := range clients {
		if i > 0 && !j.Apart {
			clients[i] = clients[0]
			continue
		}
		if clients[i], err = entry.New(w.rdb, j.Limit, j.options()...); err != nil {
			return nil, err
		}
		w.opened = append(w.opened, clients[i])
		if _, err = clients[i].Check(ctx, j.Key, 0); err != nil && !contended(err) {
			return nil, err
		}
	}
	return clients, w.fillPool(ctx, j)
}

func (w *worker) connect(j Job) error {
	if w.rdb != nil && w.conn == j.Conn && w.pool == j.Clients {
		return nil
	}
	w.disconnect()
	rdb, err := j.Conn.Open(j.Clients)
	if err != nil {
		return err
	}
	if j.Measured != nil {
		rdb.AddHook(steady{})
	}
	w.conn, w.pool, w.rdb, w.auto = j.Conn, j.Clients, rdb, nil
	return nil
}

func (w *worker) disconnect() {
	if w.rdb != nil {
		w.rdb.Close()
	}
}

// fillPool opens a connection for each client: all hold theirs until everybody has one.
func (w *worker) fillPool(ctx context.Context, j Job) error {
	key, err := limiter.Key(j.Prefix, j.Key, j.Target)
	if err != nil {
		return err
	}
	var keys []string
	if j.Conn.Cluster {
		keys = []string{key} // it tells the node
	}
	errs := make([]error, j.Clients)
	var opened, closed sync.WaitGroup
	opened.Add(j.Clients)
	for i := range errs {
		closed.Go(func() {
			arrive := sync.OnceFunc(opened.Done)
			defer arrive() // also if there was no connection to hold
			errs[i] = w.rdb.Watch(ctx, func(tx *redis.Tx) error {
				err := tx.Time(ctx).Err()
				arrive()
				opened.Wait()
				return err
			}, keys...)
		})
	}
	closed.Wait()
	for _, err := range errs {
		if err != nil {
			return limiter.Classify(j.Target, err, false)
		}
	}
	return nil
}

// run lets all clients go and gathers what they counted.
func (w *worker) run(ctx context.Context, j Job, clients []limiter.Limiter) load.Summary {
	sums := make([]load.Summary, len(clients))
	before := retries(clients)
	var wg sync.WaitGroup
	for i, l := range clients {
		wg.Go(func() {
			sums[i] = load.Run(ctx, w.recorded(j, i, l), j.plan(i))
		})
	}
	wg.Wait()
	var sum load.Summary
	for _, s := range sums {
		sum.Merge(s)
	}
	sum.Retries = retries(clients) - before
	return sum
}

// origin is what all ops of one client have in common.
func (j Job) origin(client int) history.Op {
	op := history.Op{Proc: j.Proc, Client: client}
	op.Request.Limit = j.Limit
	op.Request.ID = fmt.Sprintf("%s-%d-%d", j.IDs, j.Proc, client)
	return op
}

// record sends an op. One that begins is sent at once, together with the one that ended before it.
func (w *worker) record(op history.Op) {
	// A parent that no longer reads has closed our input as well: the loop ends by that.
	_ = w.send(message{Op: &op}, op.Outcome == history.Open)
}

func (w *worker) send(m message, now bool) error {
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.out.Write(append(line, '\n'))
	if now {
		err = errors.Join(err, w.out.Flush())
	}
	if err != nil {
		return fmt.Errorf("write to the parent: %w", err)
	}
	return nil
}

// retries adds up what the distinct limiters among the clients' have sent again.
func retries(clients []limiter.Limiter) int64 {
	seen := map[limiter.Limiter]bool{}
	sum := int64(0)
	for _, l := range clients {
		if r, ok := l.(limiter.Retrier); ok && !seen[l] {
			seen[l] = true
			sum += r.Retries()
		}
	}
	return sum
}
