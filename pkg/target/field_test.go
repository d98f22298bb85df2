package target_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

// The tests called TestField… hold faults that limiters in the field had, each as the input that brings the kind of
// fault out, over every row of the catalogue that could have it. They name public reports for reading.

// caller is one client of one row, on a stage.
type caller struct {
	*stage
	entry   target.Entry
	limiter limiter.Limiter
	limit   limiter.Limit
	client  string
}

// field runs test for every row, each with the clock at the start.
func field(t *testing.T, rows []target.Entry, test func(*caller)) {
	t.Helper()
	t.Parallel()
	shared := newStage(t)
	for _, e := range rows {
		t.Run(e.Name, func(t *testing.T) {
			s := *shared
			s.TB = t
			s.set(start)
			test(&caller{stage: &s, entry: e, client: "client"})
		})
	}
}

// every is the catalogue less the rows named.
func every(except ...string) []target.Entry {
	return slices.DeleteFunc(target.Catalogue(), func(e target.Entry) bool { return slices.Contains(except, e.Name) })
}

// costly are those that take any cost.
func costly(except ...string) []target.Entry {
	return slices.DeleteFunc(every(except...), func(e target.Entry) bool { return e.Unit })
}

func only(names ...string) []target.Entry {
	return slices.DeleteFunc(target.Catalogue(), func(e target.Entry) bool { return !slices.Contains(names, e.Name) })
}

// fresh goes on as another client, under l.
func (c *caller) fresh(l limiter.Limit) {
	c.limit, c.client = l, c.client+"+"
	c.limiter = c.open(c.entry, l)
}

func (c *caller) key() string { return c.keyOf(c.entry, c.client) }

// take asks for cost and fails the test on an error.
func (c *caller) take(cost int64) limiter.Decision {
	c.Helper()
	d, err := c.limiter.Check(c.Context(), c.client, cost)
	if err != nil {
		c.Fatalf("%v, cost %d: %v", c.limit, cost, err)
	}
	return d
}

// allowed wants cost to pass, denied wants it not to.
func (c *caller) allowed(cost int64) limiter.Decision {
	c.Helper()
	d := c.take(cost)
	if !d.Allowed {
		c.Fatalf("%v, cost %d: denied, %s", c.limit, cost, show(d))
	}
	return d
}

func (c *caller) denied(cost int64) limiter.Decision {
	c.Helper()
	d := c.take(cost)
	if d.Allowed {
		c.Fatalf("%v, cost %d: allowed, %s", c.limit, cost, show(d))
	}
	return d
}

// demand asks for 1 every so often, for as long as said, and returns when it passed.
func (c *caller) demand(often, long time.Duration) (passed []time.Time) {
	for end := c.now.Add(long); c.now.Before(end); c.pass(often) {
		if c.take(1).Allowed {
			passed = append(passed, c.now)
		}
	}
	return passed
}

// held is all that Redis keeps for the client: of each key its content and its TTL.
func (c *caller) held() string {
	keys, err := c.rdb.Keys(c.Context(), "ratelimit:{"+c.client+"}:*").Result()
	if err != nil {
		c.Fatal(err)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, k := range keys {
		content, err := c.rdb.Dump(c.Context(), k).Result()
		if err != nil {
			c.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %q until %v\n", k, content, c.expires(k))
	}
	return b.String()
}

func invalid(err error) bool {
	var e *limiter.Error
	return errors.As(err, &e) && e.Class == limiter.ClassInvalid && !limiter.Counted(err)
}

func perSecond(events int64) limiter.Limit { return limiter.Limit{Events: events, Window: time.Second} }

// toWindow moves the clock to the next start of a window.
func (c *caller) toWindow() {
	c.set(c.now.Truncate(c.limit.Window).Add(c.limit.Window))
}
