package limiter

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Answer is what became of one request of a batch: a Decision, or why there is none.
type Answer struct {
	Decision
	Err error
}

// Batcher is a Limiter that can ask for many requests in one round trip. They are decided one by one, and others may be
// decided between them: a batch saves waiting, and is no transaction.
type Batcher interface {
	Limiter
	// CheckBatch is Check of each key with the same cost. It writes into answers, which must be as long as keys.
	CheckBatch(ctx context.Context, keys []string, cost int64, answers []Answer)
}

// CheckBatch sends a call for each key in one pipeline. Those that meet NOSCRIPT, and only they, are sent once more when
// the script is loaded; in a pipeline each may be answered differently, since a script can be flushed between two.
func (s *Script) CheckBatch(ctx context.Context, keys []string, cost int64, answers []Answer) {
	calls := make([]*call, len(keys))
	for i, key := range keys {
		id := s.ids.Next()
		if err := s.checkRequest(key, cost, id); err != nil {
			answers[i] = Answer{Err: Classify(s.name, err, false)}
			continue
		}
		calls[i] = s.newCall(ctx, keyOf(s.settings.Prefix, key, s.name), cost, id)
	}
	s.pipeline(ctx, calls)
	if again, notLoaded := s.again(ctx, calls); again != nil {
		s.pipeline(ctx, again)
		for i, c := range again {
			if c != nil {
				answers[i] = s.answer(c, notLoaded)
				calls[i] = nil
			}
		}
	}
	for i, c := range calls {
		if c != nil {
			answers[i] = s.answer(c, nil)
		}
	}
}

// pipeline sends the calls that are not nil. What became of each, it keeps.
func (s *Script) pipeline(ctx context.Context, calls []*call) {
	p := s.rdb.Pipeline()
	for _, c := range calls {
		if c != nil {
			_ = p.Process(ctx, c) // only queues it
		}
	}
	_, _ = p.Exec(ctx) // the first error of any call, each of which has its own
}

// again makes the calls anew that found no script, each at its old place, and loads it for them; nil if there are none.
func (s *Script) again(ctx context.Context, calls []*call) (again []*call, notLoaded error) {
	for i, c := range calls {
		if c == nil || !redis.HasErrorPrefix(c.Err(), "NOSCRIPT") {
			continue
		}
		if again == nil {
			again, notLoaded = make([]*call, len(calls)), s.load(ctx)
		}
		again[i] = s.newCall(ctx, c.key, c.cost, c.id)
	}
	return again, notLoaded
}

// answer is what a call that ended came to; notLoaded is why it may have found no script.
func (s *Script) answer(c *call, notLoaded error) Answer {
	err := c.Err()
	switch {
	case err != nil && notLoaded != nil && redis.HasErrorPrefix(err, "NOSCRIPT"):
		return Answer{Err: notLoaded}
	case err != nil:
		return Answer{Err: s.explain(c, err)}
	}
	d, err := s.decision(c.Val())
	return Answer{d, err}
}
