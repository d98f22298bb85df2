package experiment

import (
	"context"
	"errors"
	"slices"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

// growth is one client's memory, event by event. It tells without assuming anything whether a limiter keeps a log,
// where Redis changes the way it keeps it, and from how many events on it takes more than another.
type growth struct {
	bytes     []int64 // MEMORY USAGE of all its keys after 1, 2, ... events
	encodings []string
}

const (
	growEvents = 1024 // Redis packs up to 128 entries of a sorted set, and 8 KiB of a list, some 800 times
	growLeast  = 64   // events after which one that has not grown is left alone
)

// grow lets one client take one event after the other.
func (m *mem) grow(ctx context.Context, e target.Entry) (g growth, err error) {
	f, err := m.open(e, limiter.Limit{Events: growEvents, Window: m.Window}, false)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, m.clear(f)) }()
	client := m.newClients(1)[0]
	for n := range int64(growEvents) {
		if n >= growLeast && !g.grows() {
			break
		}
		if err := f.ask(ctx, client, 1); err != nil {
			return g, err
		}
		seen, err := f.look(ctx)
		if err != nil {
			return g, err
		}
		if seen.names == 0 {
			return g, errEnded
		}
		g.bytes = append(g.bytes, seen.usage)
		g.encodings = append(g.encodings, seen.encoding())
	}
	return g, nil
}

// leastEntry is the smallest growth in bytes an event that a log can have. A counter grows by a digit at times.
const leastEntry = 4

// grows tells whether every event takes room.
func (g growth) grows() bool {
	n := len(g.bytes)
	return n > 0 && g.bytes[n-1]-g.bytes[0] > leastEntry*int64(n)
}

// shape is what the growth shows.
func (g growth) shape(e target.Entry) MemLimiter {
	return MemLimiter{
		Limiter: e.Name, Atomic: e.Atomic(), State: e.State, Bucket: bucket(e), Log: g.grows(), Encodings: g.firsts(),
		MostBytes: slices.Max(g.bytes), grown: g.bytes,
	}
}

// firsts are the encodings, each with the number of events at which it was first used.
func (g growth) firsts() []MemEncoding {
	firsts := []MemEncoding{}
	for i, encoding := range g.encodings {
		if !slices.ContainsFunc(firsts, func(f MemEncoding) bool { return f.Encoding == encoding }) {
			firsts = append(firsts, MemEncoding{encoding, int64(i + 1)})
		}
	}
	return firsts
}

// passes is the number of events from which on a log takes more than so many bytes, 0 if it never did.
func passes(log []int64, bytes int64) int64 {
	return int64(slices.IndexFunc(log, func(b int64) bool { return b > bytes }) + 1)
}

// bucket tells by the rule whether the limiter has a capacity apart from its rate.
func bucket(e target.Entry) bool {
	l := limiter.Limit{Events: 1, Window: limiter.MinWindow, Burst: 2}
	return e.Rule.Capacity(l) == l.Burst
}
