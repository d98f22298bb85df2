package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/policy"
	"github.com/rlctl/rlctl/pkg/target"
)

// Check is the plan of a check: one client asks one limiter, once or several times in a row.
type Check struct {
	Key     string // the client's id, not empty
	Limiter string // name in the catalogue
	Limit   limiter.Limit
	Cost    int64 // events a request, 0 to limiter.MaxCost
	Count   int64 // requests, 1 or more
	Peek    bool  // take nothing, only tell what would be
	Prefix  string
	Conn    target.Conn
	Policy  policy.Policy // its Timeout bounds each request with its dialling
}

// Answer is one decision of a check.
type Answer struct {
	limiter.Decision
	Took time.Duration // of the call, the dialling of the first included

	plan     Check
	capacity int64 // the most that a fresh key allows at once
}

// Validate names the flag or argument at fault.
func (p Check) Validate(catalogue []target.Entry) error {
	if _, err := target.Find(catalogue, p.Limiter); err != nil {
		return fmt.Errorf("--limiter: %w", err)
	}
	if p.Key == "" {
		return errors.New("KEY must not be empty")
	}
	return p.Policy.Validate()
}

// Run asks Count times and shows each answer when it comes, until the first error. denied tells whether any request
// was.
func (p Check) Run(ctx context.Context, env Env, show func(Answer) error) (denied bool, err error) {
	if err := p.Validate(env.Catalogue); err != nil {
		return false, err
	}
	entry, err := target.Find(env.Catalogue, p.Limiter)
	if err != nil {
		return false, err
	}
	capacity := entry.Rule.Capacity(p.Limit)
	if p.Limit.Burst > 0 && capacity != p.Limit.Capacity() {
		env.Note(fmt.Sprintf("--burst is ignored: %s is no bucket", entry.Name))
	}
	if entry.Rule.AtOnce && p.Cost > 0 && !p.Peek {
		env.Note(fmt.Sprintf("the slot of %s comes back when its lease of %v ends, and not before: rlctl hold gives it back",
			entry.Name, p.Limit.Window))
	}
	rdb, closed, err := open(ctx, p.Conn)
	if err != nil {
		return false, err
	}
	defer closed()
	l, err := entry.New(rdb, p.Limit, limiter.WithPrefix(p.Prefix))
	if err == nil {
		l, err = policy.New(l, p.Policy)
	}
	if err != nil {
		return false, err
	}
	for range p.Count {
		a := Answer{plan: p, capacity: capacity}
		start := time.Now()
		if a.Decision, err = p.ask(ctx, l, capacity); err != nil {
			return denied, err
		}
		a.Took = time.Since(start)
		denied = denied || !a.Allowed
		if err := show(a); err != nil {
			return denied, err
		}
		if ctx.Err() != nil {
			return denied, context.Cause(ctx)
		}
	}
	return denied, nil
}

// ask asks for one decision. A peek takes nothing and is judged here: the cost would pass if that much is left. How
// long a cost that does not pass has to wait is not known then, unless it is for ever.
func (p Check) ask(ctx context.Context, l limiter.Limiter, capacity int64) (limiter.Decision, error) {
	if !p.Peek {
		return l.Check(ctx, p.Key, p.Cost)
	}
	d, err := l.Check(ctx, p.Key, 0)
	if d.Degraded {
		return d, err
	}
	d.Allowed = p.Cost <= d.Remaining || p.Cost == 0
	if p.Cost > capacity {
		d.RetryAfter = limiter.Never
	}
	return d, err
}

// open opens the one connection of a command. The end of ctx closes it, which ends a wait for an answer too.
func open(ctx context.Context, conn target.Conn) (rdb redis.UniversalClient, closed func(), err error) {
	if rdb, err = conn.Open(1); err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { rdb.Close() })
	return rdb, func() {
		stop()
		rdb.Close()
	}, nil
}
