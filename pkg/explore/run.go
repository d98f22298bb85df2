package explore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/wire"
)

// client is one client of the search.
type client struct {
	proxy  *wire.Proxy
	rdb    *redis.Client
	opts   []limiter.Option
	parked *wire.Command // what it waits for
	begun  bool
	ended  bool
}

// event is what a client did next.
type event struct {
	client int
	parked *wire.Command // nil if its call ended
	call   Call
}

// explorer is a search under way.
type explorer struct {
	plan    Plan
	at      time.Time // where all clocks stand
	control *redis.Client
	clients []*client
	passing atomic.Bool // commands are not parked, but pass
	events  chan event
	closed  chan struct{}
	start   snapshot
	judge   judge
	key     string // the client id that all ask for
}

// open connects the clients, loads what they need, and makes the state from which all schedules start.
func open(ctx context.Context, srv Server, p Plan) (x *explorer, err error) {
	window := p.Limit.Window.Microseconds()
	now := time.Now().UnixMicro()
	// As many events as there are clients: of each, one command is parked or one end is told at a time.
	x = &explorer{plan: p, at: time.UnixMicro(now - now%window + window/2), events: make(chan event, p.Clients),
		closed: make(chan struct{}), key: "explored"}
	srv.Clock().Freeze(x.at.UnixMicro())
	defer func() {
		if err != nil {
			x.close()
		}
	}()
	x.control = dial(srv.Socket())
	x.passing.Store(true)
	for i := range p.Clients {
		c, err := x.connect(i, srv)
		if err != nil {
			return x, err
		}
		x.clients = append(x.clients, c)
	}
	if err := x.prepare(ctx); err != nil {
		return x, err
	}
	x.judge, err = newJudge(p, x.at)
	return x, err
}

// dial makes a client that waits for as long as it takes, and sends nothing twice.
func dial(socket string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Network: "unix", Addr: socket, MaxRetries: -1, DialerRetries: 1, Protocol: 2, DisableIdentity: true, PoolSize: 8,
		ReadTimeout: -1, WriteTimeout: -1, PoolTimeout: patience,
	})
}

func (x *explorer) connect(i int, srv Server) (*client, error) {
	path := filepath.Join(srv.Dir(), "client-"+strconv.Itoa(i))
	upstream := func() (net.Conn, error) { return net.Dial("unix", srv.Socket()) }
	proxy, err := wire.Listen(path, upstream, func(c *wire.Command) { x.arrived(i, c) })
	if err != nil {
		return nil, err
	}
	c := &client{proxy: proxy, rdb: dial(path), opts: []limiter.Option{limiter.WithPrefix(x.plan.Prefix)}}
	if !x.plan.Entry.Atomic() { // those decide on the server's clock
		c.opts = append(c.opts, limiter.WithClock(func() time.Time { return x.at }))
	}
	return c, nil
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

// prepare loads scripts and connections with a peek a client, and then takes all but one slot.
func (x *explorer) prepare(ctx context.Context) error {
	if err := x.control.FlushDB(ctx).Err(); err != nil {
		return fmt.Errorf("empty the server: %w", err)
	}
	for _, c := range x.clients {
		l, err := x.limiter(c)
		if err == nil {
			_, err = l.Check(ctx, x.key, 0)
		}
		if err != nil {
			return fmt.Errorf("prepare a client: %w", err)
		}
	}
	l, err := x.limiter(x.clients[0])
	if err == nil {
		err = x.fill(ctx, l)
	}
	if err != nil {
		return err
	}
	x.start, err = x.take(ctx)
	return err
}

func (x *explorer) limiter(c *client) (limiter.Limiter, error) {
	return x.plan.Entry.New(c.rdb, x.plan.Limit, c.opts...)
}

// fill takes all but one event, in pieces that a log takes too.
func (x *explorer) fill(ctx context.Context, l limiter.Limiter) error {
	left := x.plan.Entry.Rule.Capacity(x.plan.Limit) - 1
	for n := 0; left > 0; n++ {
		cost := int64(1)
		if left > limiter.MaxLogCost {
			cost = limiter.MaxLogCost
		}
		d, err := check(ctx, l, x.key, cost, "fill-"+strconv.Itoa(n))
		if err != nil {
			return fmt.Errorf("take all slots but one: %w", err)
		}
		if !d.Allowed {
			return fmt.Errorf("take all slots but one: refused with %d to go", left)
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

// run makes a complete run that begins with the choices and goes on with the lowest client that can. It returns, for
// each step, which clients could have gone. observe looks at Redis after each step.
func (x *explorer) run(ctx context.Context, choices []int, observe bool) (s Schedule, enabled [][]int, err error) {
	limiters, err := x.reset(ctx)
	if err != nil {
		return s, nil, err
	}
	s.Calls = make([]Call, len(x.clients))
	if observe {
		if s.Before, err = x.observe(ctx); err != nil {
			return s, nil, err
		}
	}
	for {
		can := x.enabled()
		if len(can) == 0 {
			break
		}
		at, who := len(s.Steps), can[0]
		if at < len(choices) {
			who = choices[at]
		}
		if !slices.Contains(can, who) {
			return s, nil, fmt.Errorf("%w: client %s had ended before step %d", ErrNotDeterministic, Name(who), at+1)
		}
		step, err := x.step(ctx, &s, who, limiters[who], observe)
		if err != nil {
			return s, nil, err
		}
		s.ID += Name(who)
		s.Steps, enabled = append(s.Steps, step), append(enabled, can)
	}
	keys, err := x.take(ctx)
	if err == nil {
		s.Violation = x.judge.verdict(s, keys)
	}
	return s, enabled, err
}

// reset restores the state from which all schedules start, and makes fresh limiters. Where that state is not in Redis
// but in the process, the first client's limiter makes it again.
func (x *explorer) reset(ctx context.Context) ([]limiter.Limiter, error) {
	limiters := make([]limiter.Limiter, len(x.clients))
	for i, c := range x.clients {
		c.parked, c.begun, c.ended = nil, false, false
		l, err := x.limiter(c)
		if err != nil {
			return nil, err
		}
		limiters[i] = l
	}
	if err := x.restore(ctx, x.start); err != nil {
		return nil, err
	}
	if len(x.start) == 0 {
		x.passing.Store(true)
		if err := x.fill(ctx, limiters[0]); err != nil {
			return nil, err
		}
	}
	x.passing.Store(false)
	return limiters, nil
}

func (x *explorer) enabled() []int {
	var can []int
	for i, c := range x.clients {
		if !c.ended {
			can = append(can, i)
		}
	}
	return can
}

// step lets a client's parked command run, or lets it begin with its first, and waits for what it does next.
func (x *explorer) step(ctx context.Context, s *Schedule, who int, l limiter.Limiter, observe bool) (Step, error) {
	c, step := x.clients[who], Step{Client: who}
	if !c.begun {
		c.begun = true
		s.Calls[who].First = len(s.Steps)
		go func() {
			d, err := check(ctx, l, x.key, 1, Name(who))
			x.tell(event{client: who, call: Call{Decision: d, Err: err}})
		}()
		if err := x.await(ctx, s, who); err != nil {
			return step, err
		}
	}
	if cmd := c.parked; cmd != nil {
		c.parked = nil
		reply, err := cmd.Run()
		if err != nil {
			return step, err
		}
		step.Args, step.Block, step.Follows, step.Reply = cmd.Args, cmd.Block, cmd.Follows, reply
		if observe {
			if step.After, err = x.observe(ctx); err != nil {
				return step, err
			}
		}
		if err := cmd.Answer(reply.Raw); err != nil {
			return step, err
		}
		if err := x.await(ctx, s, who); err != nil {
			return step, err
		}
	}
	step.Ended = c.ended
	return step, nil
}

// await waits until the client has a command parked or its call has ended.
func (x *explorer) await(ctx context.Context, s *Schedule, who int) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case e := <-x.events:
		c := x.clients[who]
		switch {
		case e.client != who:
			return fmt.Errorf("%w: client %s went on while %s was to run", ErrNotDeterministic, Name(e.client), Name(who))
		case e.parked != nil:
			c.parked = e.parked
			return nil
		}
		first := s.Calls[who].First
		s.Calls[who], c.ended = e.call, true
		s.Calls[who].First, s.Calls[who].Last = first, len(s.Steps)
		return e.call.Err
	case <-timer.C:
		return fmt.Errorf("client %s did not go on for %v", Name(who), patience)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (x *explorer) close() {
	close(x.closed)
	for _, c := range x.clients {
		err := errors.Join(c.rdb.Close(), c.proxy.Close())
		_ = err // nothing is lost: the server they led to is thrown away
	}
	if x.control != nil {
		x.control.Close()
	}
}
