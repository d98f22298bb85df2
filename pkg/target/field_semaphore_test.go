package target_test

import (
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

// semaphores are the rows of which what was taken can be given back.
func semaphores() (rows []target.Entry) {
	for _, e := range every() {
		if e.Releases() {
			rows = append(rows, e)
		}
	}
	return rows
}

// releases gives back what id took and tells whether it was held.
func (c *caller) releases(id string) bool {
	c.Helper()
	d, err := c.limiter.(limiter.Releaser).Release(c.Context(), c.client, id)
	if err != nil {
		c.Fatal(err)
	}
	return d.Allowed
}

func (c *caller) takes(id string) bool {
	c.Helper()
	d, err := c.limiter.(limiter.Identified).CheckID(c.Context(), c.client, 1, id)
	if err != nil {
		c.Fatal(err)
	}
	return d.Allowed
}

// Slots of holders that are killed leak. Here they are back when the lease ends, all of them, and not before.
// (redis-semaphore#49)
func TestFieldHoldersKilled(t *testing.T) {
	field(t, semaphores(), func(c *caller) {
		c.fresh(limiter.Limit{Events: 3, Window: 2 * time.Second})
		for range 4 { // each time all holders are killed
			for range 3 {
				c.allowed(1)
			}
			c.denied(1)
			c.pass(c.limit.Window - µs)
			c.denied(1)
			c.pass(µs)
		}
	})
}

// A release by one that does not hold frees the slot of somebody else: one that never held, that has released before, and
// that has lost its lease. (openlinker#2019)
func TestFieldReleasesByOthers(t *testing.T) {
	field(t, semaphores(), func(c *caller) {
		c.fresh(limiter.Limit{Events: 2, Window: 2 * time.Second})
		if !c.takes("early") {
			c.Fatal("a fresh semaphore is full")
		}
		c.pass(c.limit.Window)
		if !c.takes("a") || !c.takes("b") || c.takes("c") {
			c.Fatal("want two of three to hold")
		}
		for _, id := range []string{"c", "nobody", "early", "A", "1:a"} {
			if c.releases(id) {
				c.Errorf("%q, who does not hold, released something", id)
			}
			if c.takes("d") {
				c.Fatalf("a release by %q freed a slot", id)
			}
		}
		if !c.releases("a") || c.releases("a") || !c.takes("d") || c.takes("e") {
			c.Error("a holder's release frees its own slot, once")
		}
	})
}

// Leases that end by the callers' clocks break the cap at a few milliseconds of skew. By the server's clock they do not,
// whatever the callers' clocks show: they are not asked. (openlinker#2019)
func TestFieldLeasesUnderSkew(t *testing.T) {
	field(t, semaphores(), func(c *caller) {
		l := limiter.Limit{Events: 1, Window: time.Second}
		c.fresh(l)
		ahead, err := c.entry.New(c.rdb, l, c.skewed(5*time.Millisecond)...)
		if err != nil {
			c.Fatal(err)
		}
		c.allowed(1)
		c.pass(l.Window - 2*time.Millisecond)
		d, err := ahead.Check(c.Context(), c.client, 1)
		if err != nil {
			c.Fatal(err)
		}
		if broken := !c.entry.Atomic(); d.Allowed != broken {
			c.Errorf("2 ms before the end of a lease, by a caller 5 ms ahead: %s, want allowed %v", show(d), broken)
		}
		if c.entry.Atomic() && !d.At.Equal(c.now) {
			c.Errorf("decided at %v, the server's clock shows %v", d.At, c.now)
		}
	})
}

// skewed is the clock of a caller, for those that ask for one.
func (c *caller) skewed(by time.Duration) []limiter.Option {
	if c.entry.Atomic() {
		return nil
	}
	return []limiter.Option{limiter.WithClock(func() time.Time { return c.now.Add(by) })}
}
