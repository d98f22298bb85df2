package experiment

import (
	"time"

	"github.com/rlctl/rlctl/pkg/accesslog"
	"github.com/rlctl/rlctl/pkg/model"
)

// replayShard is some of the clients. What it holds of a client is bounded by what the rules do: as soon as no rule has a
// use for its states they go, and of a client that was never refused only a digest and the number of its requests stay.
type replayShard struct {
	rules   []replayRule
	clients map[string]*replayClient
	gone    map[uint64]int64 // requests of clients from before they were let go, by the hash of their keys
	sweepAt int              // clients
	asked   timeline
	tallies []replayTally // one a rule
}

// replayClient is one client.
type replayClient struct {
	hash     uint64
	requests int64
	refused  []int64 // by each rule; nil as long as none did
	states   []model.State
}

// replayTally is what one rule refused.
type replayTally struct {
	refused, never, untaken int64 // requests
	cost, refusedCost       int64 // events
	first                   int64 // µs, of the first request refused; 0 if none was
	over                    timeline
}

// firstSweep is how many clients are held before the first sweep, and how many more than twice those that are needed.
const firstSweep = 1 << 12

func newReplayShard(rules []replayRule) *replayShard {
	return &replayShard{
		rules: rules, clients: map[string]*replayClient{}, gone: map[uint64]int64{}, sweepAt: firstSweep,
		asked: newTimeline(), tallies: newTallies(len(rules)),
	}
}

func newTallies(n int) []replayTally {
	all := make([]replayTally, n)
	for i := range all {
		all[i].over = newTimeline()
	}
	return all
}

// batch takes the requests of clients whose hash leaves me when it is divided by n.
func (s *replayShard) batch(records []accesslog.Record, me, n uint64) {
	for i := range records {
		if r := &records[i]; r.Hash%n == me {
			s.take(r)
		}
	}
	if len(records) > 0 && len(s.clients) >= s.sweepAt {
		s.sweep(time.UnixMicro(records[len(records)-1].At))
		s.sweepAt = 2*len(s.clients) + firstSweep
	}
}

// take lets each rule decide on a request.
func (s *replayShard) take(r *accesslog.Record) {
	c := s.client(r)
	c.requests++
	s.asked.add(r.At)
	at := time.UnixMicro(r.At)
	for i := range s.rules {
		rule, tally := &s.rules[i], &s.tallies[i]
		if !rule.takes(r.Cost) {
			tally.untaken++
			continue
		}
		// No two requests of a log are the same one sent twice: an empty id is like no other.
		next, d := c.states[i].Check(at, model.Request{Limit: rule.limit, Cost: r.Cost})
		c.states[i] = next
		tally.cost = plus(tally.cost, r.Cost)
		if !d.Allowed {
			tally.refuse(r, d.RetryAfter < 0)
			c.refuse(i, len(s.rules))
		}
	}
}

func (t *replayTally) refuse(r *accesslog.Record, never bool) {
	if t.refused == 0 {
		t.first = r.At
	}
	t.refused++
	t.refusedCost = plus(t.refusedCost, r.Cost)
	if never {
		t.never++
	}
	t.over.add(r.At)
}

func (c *replayClient) refuse(rule, rules int) {
	if c.refused == nil {
		c.refused = make([]int64, rules)
	}
	c.refused[rule]++
}

// plus adds what is not negative, up to the largest number.
func plus(a, b int64) int64 {
	if a+b < 0 {
		return 1<<63 - 1
	}
	return a + b
}

// client is the one of a request, as it was left or a new one.
func (s *replayShard) client(r *accesslog.Record) *replayClient {
	c, ok := s.clients[string(r.Key)]
	if !ok {
		c = &replayClient{hash: r.Hash, states: make([]model.State, len(s.rules))}
		for i := range s.rules {
			c.states[i] = s.rules[i].entry.Rule.Fresh
		}
		s.clients[string(r.Key)] = c
	}
	return c
}

// sweep lets go of states that have passed, and of clients of which nothing else is to be told.
func (s *replayShard) sweep(now time.Time) {
	for key, c := range s.clients {
		used := false
		for i, state := range c.states {
			if state.Expires().Before(now.Truncate(time.Millisecond)) {
				c.states[i] = s.rules[i].entry.Rule.Fresh
				continue
			}
			used = true
		}
		if !used && c.refused == nil {
			s.gone[c.hash] += c.requests
			delete(s.clients, key)
		}
	}
}

// all counts the clients, and gives those that are held back what they had asked before.
func (s *replayShard) all() int64 {
	n := len(s.clients)
	for _, c := range s.clients {
		c.requests += s.gone[c.hash]
		delete(s.gone, c.hash)
	}
	return int64(n + len(s.gone))
}
