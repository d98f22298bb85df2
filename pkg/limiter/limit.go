package limiter

import (
	"math/bits"
	"time"
)

// The bounds of a Limit and a cost. The scripts hold the same.
const (
	MaxEvents  = 1_000_000_000        // events a window, and the capacity of a bucket
	MinWindow  = time.Millisecond     // the shortest window
	MaxWindow  = 366 * 24 * time.Hour // the longest window
	MaxCost    = 1<<53 - 1            // of one request, whatever the limit
	MaxLogCost = 1000                 // of one request that fits the limit of a log
	MaxID      = 256                  // bytes of a request's id
	maxRefill  = 1 << 52              // µs for an empty bucket to fill, about 142 years
)

// Limit is how many events pass per window.
type Limit struct {
	Events int64         // 0 to 10^9; 0 denies everything
	Window time.Duration // 1 ms to 366 days, in whole microseconds
	Burst  int64         // capacity of a bucket, 0 to 10^9; 0 means Events. Windows and logs ignore it
}

// Capacity is the most that a bucket of this limit holds.
func (l Limit) Capacity() int64 {
	if l.Events == 0 || l.Burst == 0 {
		return l.Events
	}
	return l.Burst
}

// Validate returns a FieldError for the first field that is outside the bounds which all limiters share.
func (l Limit) Validate() error {
	switch {
	case l.Events < 0 || l.Events > MaxEvents:
		return &FieldError{"limit", "must be 0 to 1000000000 events"}
	case l.Window < MinWindow || l.Window > MaxWindow:
		return &FieldError{"window", "must be 1ms to 366 days"}
	case l.Window%time.Microsecond != 0:
		return &FieldError{"window", "must be whole microseconds"}
	case l.Burst < 0 || l.Burst > MaxEvents:
		return &FieldError{"burst", "must be 0 to 1000000000 events"}
	}
	return nil
}

// ValidateBucket is Validate, and refuses a bucket that takes more than 2^52 µs to fill.
func (l Limit) ValidateBucket() error {
	if err := l.Validate(); err != nil {
		return err
	}
	high, low := bits.Mul64(uint64(l.Capacity()), uint64(l.Window.Microseconds()))
	mostHigh, mostLow := bits.Mul64(uint64(l.Events), maxRefill)
	if high > mostHigh || high == mostHigh && low > mostLow {
		return &FieldError{"burst", "must fill within 2^52 us: burst * window / limit is too long"}
	}
	return nil
}

// CheckRequest returns a FieldError for a key, a cost or an id that no limiter takes.
func CheckRequest(key string, cost int64, id string) error {
	if err := checkClient(key); err != nil {
		return err
	}
	if len(id) > MaxID {
		return &FieldError{"id", "must be at most 256 bytes"}
	}
	return checkCost(cost)
}

// checkCost refuses what no limiter takes.
func checkCost(cost int64) error {
	if cost < 0 || cost > MaxCost {
		return &FieldError{"cost", "must be 0 to 9007199254740991"}
	}
	return nil
}
