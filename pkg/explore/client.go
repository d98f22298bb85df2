package explore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/outside"
	"github.com/rlctl/rlctl/pkg/wire"
)

// client is one client of the search. Its connections and its proxy serve all runs, its limiter one.
type client struct {
	proxy   *wire.Proxy
	rdb     *redis.Client
	opts    []limiter.Option
	limiter limiter.Limiter

	parked  *wire.Command // what it waits for
	begun   int           // calls
	ended   int           // calls
	dead    bool
	charged bool // the call under way changed the state
}

// event is what a client did next.
type event struct {
	client   int
	parked   *wire.Command // nil if its call ended
	decision limiter.Decision
	err      error
}

// explorer is a search under way.
type explorer struct {
	plan     Plan
	srv      Server
	at       time.Time    // where the clock of the server stands
	now      atomic.Int64 // what clients' clocks read, in µs; they differ from it by their skew
	control  *redis.Client
	direct   *wire.Upstream   // for commands as bytes
	watching []*wire.Upstream // of each client, to WATCH for it
	taking   []byte           // the command that takes a snapshot
	clients  []*client
	late     limiter.Limiter // of a client that comes when all is over
	passing  atomic.Bool     // commands are not parked, but pass
	events   chan event
	closed   chan struct{}
	start    snapshot
	judge    judge
	memory
	client string // the id that all ask for
}

// open connects the clients, loads what they need, and makes the state from which all schedules start. The clock stands
// in the middle of a window, and a microsecond on: a limiter that loses the last digits of its time shall show it.
func open(ctx context.Context, srv Server, p Plan) (*explorer, error) {
	window := p.Limit.Window.Microseconds()
	now := time.Now().UnixMicro()
	x := &explorer{
		plan: p, srv: srv, at: time.UnixMicro(now - now%window + window/2 + 1), closed: make(chan struct{}), client: "explored",
		events: make(chan event, p.Clients), // of each client one command is parked or one end is told at a time
		memory: newMemory(),
	}
	x.setClock(x.at)
	x.passing.Store(true)
	x.control = dial(srv.Socket(), dialPatient)
	err := x.connect(ctx)
	if err == nil {
		err = x.prepare(ctx)
	}
	if err == nil {
		x.judge, err = newJudge(p, x.at)
	}
	if err != nil {
		x.close()
		return nil, err
	}
	return x, nil
}

func (x *explorer) setClock(t time.Time) {
	x.srv.Clock().Freeze(t.UnixMicro())
	x.now.Store(t.UnixMicro())
}

// dial makes a client that sets no limit to its waits, and sends nothing twice.
func dial(socket string, connect func(string) (net.Conn, error)) *redis.Client {
	return redis.NewClient(&redis.Options{
		Dialer:  func(context.Context, string, string) (net.Conn, error) { return connect(socket) },
		Network: "unix", Addr: socket, MaxRetries: -1, DialerRetries: 1, Protocol: 2, DisableIdentity: true, PoolSize: 8,
		ReadTimeout: -1, WriteTimeout: -1, PoolTimeout: patience,
	})
}

// connect opens connections to the server and puts each client behind its proxy.
func (x *explorer) connect(ctx context.Context) (err error) {
	upstream := func() (net.Conn, error) { return dialPatient(x.srv.Socket()) }
	for i := range 1 + x.plan.Clients {
		conn, err := upstream()
		if err != nil {
			return err
		}
		if i == 0 {
			x.direct = wire.NewUpstream(conn)
			continue
		}
		x.watching = append(x.watching, wire.NewUpstream(conn))
	}
	sha, err := x.control.ScriptLoad(ctx, looking).Result()
	if err != nil {
		return fmt.Errorf("load a script: %w", err)
	}
	x.taking = wire.AppendCommand(nil, "EVALSHA", sha, "0")
	for i := range x.plan.Clients {
		path := filepath.Join(x.srv.Dir(), "client-"+strconv.Itoa(i))
		proxy, err := wire.Listen(path, upstream, func(c *wire.Command) { x.arrived(i, c) })
		if err != nil {
			return err
		}
		x.clients = append(x.clients, &client{proxy: proxy, rdb: dial(path, func(path string) (net.Conn, error) { return net.Dial("unix", path) }), opts: x.options(i)})
	}
	x.late, err = x.plan.Entry.New(x.control, x.plan.Limit, x.options(0)...)
	return err
}

// options are those of client i. Ours that are atomic never decide on their caller's clock, but may remember by it.
func (x *explorer) options(i int) []limiter.Option {
	opts := []limiter.Option{limiter.WithPrefix(x.plan.Prefix)}
	if x.plan.Entry.Own() && !x.plan.Entry.Rule.Recalls {
		return opts
	}
	skew := int64(0)
	if x.plan.Skew {
		skew = int64(i) * x.plan.Limit.Window.Microseconds()
		if !x.plan.Entry.Rule.AtOnce {
			skew /= x.plan.Limit.Events
		}
	}
	return append(opts, limiter.WithClock(func() time.Time { return time.UnixMicro(x.now.Load() + skew) }))
}

// arrived takes a command that a client sent.
func (x *explorer) arrived(i int, c *wire.Command) {
	if !x.passing.Load() {
		x.tell(event{client: i, parked: c})
		return
	}
	if reply, err := c.Run(); err != nil || c.Answer(reply.Raw) != nil {
		c.Cut()
	}
}

// tell is how a client's goroutines say what it did, as long as anybody wants to know.
func (x *explorer) tell(e event) {
	select {
	case x.events <- e:
	case <-x.closed:
	}
}

// prepare loads scripts and connections with a peek a client, and makes the start.
func (x *explorer) prepare(ctx context.Context) error {
	if err := x.empty(ctx); err != nil {
		return err
	}
	for _, c := range x.clients {
		if err := x.renew(c); err != nil {
			return err
		}
		if _, err := patiently(ctx, c.limiter, x.client, 0, "peek"); err != nil {
			return fmt.Errorf("prepare a client: %w", err)
		}
		if _, err := x.giveBack(ctx, c.limiter, "peek"); err != nil { // what it never took
			return fmt.Errorf("prepare a client: %w", err)
		}
	}
	if err := x.empty(ctx); err != nil { // of what peeks left
		return err
	}
	if err := x.fill(ctx); err != nil {
		return err
	}
	var err error
	x.start, err = x.take()
	x.passing.Store(false)
	return err
}

func (x *explorer) empty(ctx context.Context) error {
	if err := x.control.FlushDB(ctx).Err(); err != nil {
		return fmt.Errorf("empty the server: %w", err)
	}
	return nil
}

// refill makes a start that is not in Redis but in the process of the first client.
func (x *explorer) refill(ctx context.Context, i int) error {
	if len(x.start) > 0 || i != 0 {
		return nil
	}
	x.passing.Store(true)
	defer x.passing.Store(false)
	return x.fill(ctx)
}

// renew gives a client a fresh limiter.
func (x *explorer) renew(c *client) (err error) {
	kept := c.limiter
	*c = client{proxy: c.proxy, rdb: c.rdb, opts: c.opts}
	if again, ok := kept.(outside.Renewer); ok {
		again.Renew()
		c.limiter = kept
		return nil
	}
	c.limiter, err = x.plan.Entry.New(c.rdb, x.plan.Limit, c.opts...)
	return err
}

// fill makes the start: of OneLeft the first client takes all but one event, in pieces that a log takes too.
func (x *explorer) fill(ctx context.Context) error {
	if x.plan.Start != OneLeft {
		return nil
	}
	left := x.plan.Entry.Rule.Capacity(x.plan.Limit) - 1
	for n := 0; left > 0; n++ {
		cost := int64(1)
		if left > limiter.MaxLogCost && !x.plan.Entry.Unit {
			cost = limiter.MaxLogCost
		}
		d, err := patiently(ctx, x.clients[0].limiter, x.client, cost, "fill-"+strconv.Itoa(n))
		if err != nil {
			return fmt.Errorf("%w: take all events but one: %w", ErrFailed, err)
		}
		if !d.Allowed {
			return fmt.Errorf("%w: %d to go", ErrRefused, left)
		}
		left -= cost
	}
	return nil
}

// check gives the request an id where the limiter takes one, so that it is the same in every run.
func check(ctx context.Context, l limiter.Limiter, key string, cost int64, id string) (limiter.Decision, error) {
	if l, ok := l.(limiter.Identified); ok {
		return l.CheckID(ctx, key, cost, id)
	}
	return l.Check(ctx, key, cost)
}

// giveBack gives back what the request of that id took, if clients of the plan do.
func (x *explorer) giveBack(ctx context.Context, l limiter.Limiter, id string) (limiter.Decision, error) {
	if !x.plan.Release {
		return limiter.Decision{}, nil
	}
	return l.(limiter.Releaser).Release(ctx, x.client, id)
}

// end ends what a limiter keeps running.
func end(l limiter.Limiter) error {
	if c, ok := l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

func (x *explorer) close() {
	close(x.closed)
	for _, c := range x.clients {
		err := errors.Join(c.rdb.Close(), c.proxy.Close(), end(c.limiter))
		_ = err // nothing is lost: the server they led to is thrown away
	}
	_ = end(x.late)
	for _, u := range append(x.watching, x.direct) {
		if u != nil {
			u.Close()
		}
	}
	x.control.Close()
}
