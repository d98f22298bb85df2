package naive

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// A fate says how far a request had come when a command failed.
type fate int

const (
	reading fate = iota // nothing that counts was sent, so it was not counted
	writing             // what counts was sent; the error tells whether it may have run
	wrote               // something that counts ran before
)

// fail is err as the limiter's own; nil stays nil.
func (c common) fail(err error, f fate) error {
	var e *limiter.Error
	if errors.As(limiter.Classify(c.name, err, f == wrote), &e) {
		e.Unknown = e.Unknown && f != reading
		limiter.Rediscover(c.rdb, e)
		return e
	}
	return nil
}

// once is a command that the client library must not send again; that of a cluster would.
type once struct{ redis.Cmder }

func (once) NoRetry() bool { return true }

// foreign is the error about a key that holds what this limiter never wrote.
func (c common) foreign() error {
	return &limiter.Error{Limiter: c.name, Class: limiter.ClassWrongType, Err: errors.New("the key holds something else")}
}

// send runs one command. That a key is missing is no error.
func (c common) send(ctx context.Context, f fate, cmd redis.Cmder) error {
	err := c.rdb.Process(ctx, once{cmd})
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return c.fail(err, f)
}

// look runs commands that only read in one pipeline.
func (c common) look(ctx context.Context, cmds ...redis.Cmder) error {
	_, err := c.rdb.Pipelined(ctx, queue(ctx, cmds))
	return c.fail(err, reading)
}

// multi runs commands in one MULTI block on a client or inside its Watch. Counts is the one of them that makes the
// request count. Redis rolls nothing back: when one command fails, the others have run.
func (c common) multi(ctx context.Context, on transactor, counts redis.Cmder, cmds ...redis.Cmder) error {
	_, err := on.TxPipelined(ctx, queue(ctx, cmds))
	if err == nil || errors.Is(err, redis.TxFailedErr) {
		return err
	}
	refused := true // the connection or the block as a whole, and no command of it
	for _, cmd := range cmds {
		if e := cmd.Err(); e != nil {
			refused = false
			if !redis.HasErrorPrefix(e, "EXECABORT") {
				err = e // the block was dropped because of this one
				break
			}
		}
	}
	var reply redis.Error
	switch e := counts.Err(); {
	case refused && errors.As(err, &reply):
		return c.fail(err, reading)
	case e == nil:
		return c.fail(err, wrote)
	case errors.As(e, &reply):
		return c.fail(err, reading)
	}
	return c.fail(err, writing)
}

// transactor is a redis.UniversalClient or a *redis.Tx.
type transactor interface {
	TxPipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error)
}

func queue(ctx context.Context, cmds []redis.Cmder) func(redis.Pipeliner) error {
	return func(p redis.Pipeliner) error {
		for _, cmd := range cmds {
			_ = p.Process(ctx, once{cmd}) // only queues it
		}
		return nil
	}
}
