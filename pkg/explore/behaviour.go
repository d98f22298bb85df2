package explore

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// behaviour is a client as a function of what it was answered: where it stands, and where each reply leads it. The true
// client runs only to find a place that is not known yet: a fresh limiter is given all replies on the way, as they were
// recorded, and what it does after the last is noted.
type behaviour struct {
	n     int64      // of all that were met
	from  *behaviour // nil of a client that has not begun
	reply string     // what led here from there; of the start of a call, nothing
	next  map[string]*behaviour

	known    bool             // what follows is noted
	parked   *question        // what it waits for the answer to; nil between calls
	decision limiter.Decision // of the call that ended last
	retries  int64            // of its limiter so far
}

// question is a command that waits.
type question struct {
	args    [][]string
	block   bool
	follows bool
	raw     []byte
	replies int
}

func (q *question) same(o *question) bool {
	if q == nil || o == nil {
		return q == o
	}
	return slices.Equal(q.raw, o.raw)
}

// after is where a reply leads client i from b, or the beginning of its next call.
func (x *explorer) after(ctx context.Context, i int, b *behaviour, reply string) (*behaviour, error) {
	if next := b.next[reply]; next != nil {
		return next, nil
	}
	next := x.place(b, reply)
	if _, err := x.perform(ctx, i, next); err != nil {
		return nil, err
	}
	b.next[reply] = next
	return next, nil
}

// place is a place not met before.
func (x *explorer) place(from *behaviour, reply string) *behaviour {
	x.places++
	return &behaviour{n: x.places, from: from, reply: reply, next: map[string]*behaviour{}}
}

// perform brings a fresh client i to a place, and notes what it does there if that is not known. It returns the client's
// limiter as it then is. What it still asks is refused.
func (x *explorer) perform(ctx context.Context, i int, to *behaviour) (limiter.Limiter, error) {
	var way []*behaviour
	for b := to; b.from != nil; b = b.from {
		way = append(way, b)
	}
	slices.Reverse(way)
	r, err := x.alone(ctx, i)
	if err != nil {
		return nil, err
	}
	c, step := r.clients[i], Step{Client: i}
	for _, b := range way {
		if b.from.parked == nil {
			err = r.beginCall(ctx, i, &step)
		} else {
			cmd := c.parked
			c.parked = nil
			if err = cmd.Answer([]byte(b.reply)); err == nil {
				err = r.await(ctx, i, &step)
			}
		}
		if err != nil {
			return nil, err
		}
		if now := c.waits(); !b.known {
			b.known, b.parked, b.decision = true, now, r.last(i)
		} else if !now.same(b.parked) {
			return nil, fmt.Errorf("%w: client %s asks something else after the same replies", ErrNotDeterministic, Name(i))
		}
	}
	if l, ok := c.limiter.(limiter.Retrier); ok {
		to.retries = l.Retries()
	}
	return c.limiter, r.abandon(ctx)
}

// alone is a run of one client on whatever the server holds.
func (x *explorer) alone(ctx context.Context, i int) (*run, error) {
	r := &run{explorer: x}
	r.lineUp()
	for _, c := range x.clients {
		c.parked = nil
	}
	if err := x.renew(x.clients[i]); err != nil {
		return nil, err
	}
	return r, x.refill(ctx, i)
}

// waits is what the client has parked.
func (c *client) waits() *question {
	if c.parked == nil {
		return nil
	}
	return &question{c.parked.Args, c.parked.Block, c.parked.Follows, c.parked.Bytes(), c.parked.Replies()}
}

// last is the decision of the client's last call that ended.
func (r *run) last(i int) limiter.Decision {
	if n := r.clients[i].ended; n > 0 {
		return r.s.Calls[r.call(i, n-1)].Decision
	}
	return limiter.Decision{}
}
