package target_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/scripts"
)

// Times of µs that go through 14 digits collapse: entries 1 µs apart become one. (Lua's tostring)
func TestFieldTimesAMicrosecondApart(t *testing.T) {
	field(t, costly(), func(c *caller) {
		c.fresh(limiter.Limit{Events: 10, Window: time.Minute})
		for range 10 {
			c.allowed(1)
			c.pass(µs)
		}
		c.denied(1)
		c.holds(10)
	})
}

// holds wants a log to hold n entries.
func (c *caller) holds(n int64) {
	c.Helper()
	kind, err := c.rdb.Type(c.Context(), c.key()).Result()
	if err != nil {
		c.Fatal(err)
	}
	got := n
	switch {
	case kind == "list":
		got = c.rdb.LLen(c.Context(), c.key()).Val()
	case kind == "zset":
		got = c.rdb.ZCard(c.Context(), c.key()).Val()
	case isLog(c.entry):
		c.Fatalf("a log that is a %s", kind)
	}
	if got != n && c.entry.Name != "charging-log" {
		c.Errorf("the log holds %d entries, want %d", got, n)
	}
}

// Members that are the time make two requests in one µs one. (sockudo#251)
func TestFieldManyInOneMicrosecond(t *testing.T) {
	field(t, costly(), func(c *caller) {
		c.fresh(limiter.Limit{Events: 1000, Window: time.Minute})
		for range 1000 {
			c.allowed(1)
		}
		c.denied(1)
		c.holds(1000)
	})
}

// A part of a unit, returned as a float, becomes 0: a denial that says "now". (WeTransfer/prorate#40)
func TestFieldPartOfAUnitToWait(t *testing.T) {
	field(t, every("charging-log"), func(c *caller) {
		c.fresh(perSecond(1))
		c.toWindow()
		c.allowed(1)
		c.pass(300 * time.Millisecond)
		d := c.denied(1)
		want := 700 * time.Millisecond
		if c.entry.Name == "sliding-counter" {
			want += time.Second // until the older window weighs nothing
		}
		if d.RetryAfter != want {
			c.Errorf("retry after %v, want %v", d.RetryAfter, want)
		}
	})
}

// Nor may part of a µs become 0. A bucket of 999,983 a second has the next token after 1.000017 µs.
func TestFieldPartOfAMicrosecondToWait(t *testing.T) {
	field(t, only("token-bucket", "gcra", "watch-bucket", "naive-bucket"), func(c *caller) {
		c.fresh(perSecond(999_983))
		c.allowed(999_983)
		c.pass(µs)
		if d := c.denied(1); d.RetryAfter != µs || d.Remaining != 0 {
			c.Errorf("%s", show(d))
		}
		c.pass(µs)
		c.allowed(1)
	})
}

// Numbers near 2^53 and 2^63 are exact or refused. (redis/redis#1118)
func TestFieldHugeNumbers(t *testing.T) {
	field(t, costly(), func(c *caller) {
		for _, events := range []int64{limiter.MaxEvents + 1, 1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64, math.MinInt64, -1} {
			for _, l := range []limiter.Limit{{Events: events, Window: time.Second}, {Events: 1, Window: time.Second, Burst: events}} {
				if _, err := c.entry.New(c.rdb, l); !invalid(err) {
					c.Errorf("%v: error %v", l, err)
				}
			}
		}
		c.fresh(perSecond(limiter.MaxEvents))
		for _, cost := range []int64{1 << 53, 1<<53 + 1, math.MaxInt64} {
			if d, err := c.limiter.Check(c.Context(), c.client, cost); !invalid(err) {
				c.Errorf("cost %d: %+v, error %v", cost, d, err)
			}
		}
		for _, cost := range []int64{limiter.MaxEvents + 1, 1<<53 - 1} {
			if d := c.denied(cost); d.RetryAfter != limiter.Never {
				c.Errorf("cost %d: %s", cost, show(d))
			}
		}
		if held := c.held(); held != "" {
			c.Errorf("wrote %s", held)
		}
	})
}

// Limits of 0 and windows of 0 are an error or a full admission in several libraries. (go-redis/redis_rate#110,
// spring-cloud-gateway#1312) Here a limit of 0 denies and keeps nothing, a burst of 0 is the limit, and a window of 0 or
// a burst below 0 is refused by name.
func TestFieldZeroes(t *testing.T) {
	field(t, costly(), func(c *caller) {
		for _, burst := range []int64{0, 5} {
			c.fresh(limiter.Limit{Events: 0, Window: time.Second, Burst: burst})
			for _, cost := range []int64{1, 5, limiter.MaxCost} {
				if d := c.denied(cost); d.RetryAfter != limiter.Never || d.Remaining != 0 || d.ResetAfter != 0 {
					c.Errorf("cost %d: %s", cost, show(d))
				}
			}
			if d := c.allowed(0); d.Remaining != 0 || c.held() != "" {
				c.Errorf("peek: %s, holds %s", show(d), c.held())
			}
		}
		c.fresh(perSecond(3))
		c.allowed(3)
		c.denied(1)
		before := c.held()
		c.limiter = c.open(c.entry, perSecond(0))
		if d := c.denied(1); d.RetryAfter != limiter.Never || d.ResetAfter != 0 || c.held() != before {
			c.Errorf("limit 0 of a used key: %s, holds %s", show(d), c.held())
		}
		for field, l := range map[string]limiter.Limit{
			"window": {Events: 1}, "burst": {Events: 1, Window: time.Second, Burst: -1}, "limit": {Events: -1, Window: time.Second},
		} {
			_, err := c.entry.New(c.rdb, l)
			var at *limiter.FieldError
			if !invalid(err) || !errors.As(err, &at) || at.Field != field {
				c.Errorf("%v: error %v, want the %s named", l, err, field)
			}
		}
	})
}

// The script's arguments, and what is no argument wherever it stands: fractions, NaN, what Lua takes for a number,
// nothing. (animir/node-rate-limiter-flexible#221)
var (
	names = []string{"limit", "window", "burst", "cost", "id", "now"}
	wrong = []string{"", "abc", "nan", "-nan", "inf", "-inf", "1.5", "1e21", "1e2", "0x10", "-1", " 1", "1 ", "9007199254740993", "9223372036854775808"}
)

// A script that fails is not rolled back, so it must look at every argument before its first write. (bringg)
func TestFieldBadArguments(t *testing.T) {
	field(t, atomics(), func(c *caller) {
		source, _ := scripts.Source(c.entry.Name)
		c.fresh(perSecond(5))
		good := []any{5, 1_000_000, 0, 1, "id", 0}
		eval := func(key string, args []any) error {
			return c.rdb.Eval(c.Context(), source, []string{key}, args...).Err()
		}
		if err := eval(c.key(), good); err != nil {
			c.Fatalf("good arguments: %v", err)
		}
		before := c.held()
		for i, name := range names {
			for _, value := range wrong {
				if name == "id" && (value != "" || c.entry.Name != "sliding-log") {
					continue // ids are any bytes
				}
				args := append(append([]any{}, good[:i]...), value)
				args = append(args, good[i+1:]...)
				for _, client := range []string{c.client, c.client + "-new"} {
					if err := eval(c.keyOf(c.entry, client), args); err == nil {
						c.Errorf("%s %q was taken", name, value)
					} else if !strings.HasPrefix(err.Error(), "INVALID") {
						c.Errorf("%s %q: %v", name, value, err)
					}
				}
			}
		}
		for n := range good {
			if err := eval(c.keyOf(c.entry, c.client+"-new"), good[:n]); err == nil {
				c.Errorf("%d arguments were enough", n)
			}
		}
		after := c.held()
		if c.client += "-new"; after != before || c.held() != "" {
			c.Errorf("was\n%sis\n%s%s", before, after, c.held())
		}
	})
}

// A key whose numbers are beyond what a float counts exactly denies or is refused, and holds nobody up. A script that
// divides by such a number can run for ever. (redis/redis#1118)
func TestFieldNumbersBeyondFloatsInAKey(t *testing.T) {
	field(t, atomics(), func(c *caller) {
		c.fresh(limiter.Limit{Events: 7, Window: time.Minute, Burst: 5})
		c.allowed(1)
		c.pass(time.Second)
		c.allowed(capacity(c.entry, c.limit) - 1)
		whole, err := c.rdb.Dump(c.Context(), c.key()).Result()
		if err != nil {
			c.Fatal(err)
		}
		for _, number := range []string{"9007199254740991", "9007199254740992", "9007199254740993", "9223372036854775807", strings.Repeat("9", 30)} {
			for i, put := range c.numbers() {
				c.rdb.RestoreReplace(c.Context(), c.key(), time.Minute, whole)
				put(number)
				d, err := c.limiter.Check(c.Context(), c.client, 2)
				var e *limiter.Error
				if errors.As(err, &e) && (e.Class == limiter.ClassNoAnswer || e.Class == limiter.ClassBusy) || err == nil && d.Allowed && !isLog(c.entry) {
					c.Fatalf("number %d is %s: %s, error %v", i, number, show(d), err)
				}
			}
		}
	})
}

// numbers lists what puts a number in place of one that the key holds.
func (c *caller) numbers() (puts []func(number string)) {
	ctx, key := c.Context(), c.key()
	switch kind := c.rdb.Type(ctx, key).Val(); kind {
	case "string":
		parts := strings.Fields(c.rdb.Get(ctx, key).Val())
		for i := range parts {
			puts = append(puts, func(number string) {
				c.rdb.SetArgs(ctx, key, strings.Join(slices.Concat(parts[:i], []string{number}, parts[i+1:]), " "), redis.SetArgs{KeepTTL: true})
			})
		}
	case "hash":
		for _, field := range c.rdb.HKeys(ctx, key).Val() {
			puts = append(puts, func(number string) { c.rdb.HSet(ctx, key, field, number) })
		}
	case "list":
		head := c.rdb.LIndex(ctx, key, 0).Val()
		puts = append(puts, func(number string) { c.rdb.LSet(ctx, key, 0, number) },
			func(number string) { c.rdb.LSet(ctx, key, 0, head+":"+number) })
	case "zset":
		puts = append(puts, func(number string) { c.rdb.Do(ctx, "zadd", key, number, "1:other") })
	default:
		c.Fatalf("the key is a %s", kind)
	}
	return puts
}
