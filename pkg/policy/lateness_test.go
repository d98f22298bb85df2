package policy_test

import "time"

// timed is how long f took, less what the machine stood still for us: another goroutine, which does nothing but wake
// up each ms, was then more than 5 ms late.
func timed(f func()) time.Duration {
	stop, stalled := make(chan struct{}), make(chan time.Duration)
	go func() {
		var sum time.Duration
		for {
			start := time.Now()
			select {
			case <-stop:
				stalled <- sum
				return
			case <-time.After(time.Millisecond):
			}
			if late := time.Since(start) - time.Millisecond; late > 5*time.Millisecond {
				sum += late
			}
		}
	}()
	start := time.Now()
	f()
	took := time.Since(start)
	close(stop)
	return took - <-stalled
}
