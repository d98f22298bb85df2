package limiter

import "time"

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
