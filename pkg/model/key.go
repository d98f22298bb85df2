package model

import (
	"math"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// layout is what one algorithm keeps between requests, apart from the TTL. Its zero value is what a key that does not
// exist counts as.
type layout[L any] interface {
	// step decides r at t, in µs, for a limit above 0. written says whether the key then holds next, or stays as it is.
	step(t int64, r Request) (next L, written bool, a answer)
	// alike tells whether both hold the same.
	alike(L) bool
}

// answer is a decision in the integers that rules are written in; times are in µs.
type answer struct {
	allowed   bool
	remaining int64
	retry     int64 // never if waiting does not help
	reset     int64
}

const never = -1

// immortal is the last millisecond of a key without TTL.
const immortal = math.MaxInt64

// key is a layout with a time of death. What all algorithms share is here: the TTL, peeks, and limits of 0.
type key[L layout[L]] struct {
	holds L
	until int64 // the last ms at which the key lives; 0 if there is no key
}

// Check implements [State].
func (k key[L]) Check(at time.Time, r Request) (State, limiter.Decision) {
	t := at.UnixMicro()
	if t/1000 > k.until {
		k = key[L]{}
	}
	peek := r.Cost == 0 && r.Act == Take
	if r.Limit.Events == 0 {
		return k, answer{allowed: peek, retry: never}.decision(t)
	}
	next, written, a := k.holds.step(t, r)
	if peek {
		a.allowed, written = true, false
	}
	switch {
	case written && a.reset == 0: // a TTL of 0 deletes
		k = key[L]{}
	case written:
		k = key[L]{next, (t + a.reset + 999) / 1000}
	}
	return k, a.decision(t)
}

// Expires implements [State].
func (k key[L]) Expires() time.Time {
	if k.until == 0 {
		return time.Time{}
	}
	return time.UnixMilli(k.until)
}

func (k key[L]) alike(s State) bool {
	other, ok := s.(key[L])
	return ok && k.until == other.until && k.holds.alike(other.holds)
}

func (k key[L]) persist() State {
	if k.until != 0 {
		k.until = immortal
	}
	return k
}

// decision is a as the caller reads it. What is allowed need not wait.
func (a answer) decision(t int64) limiter.Decision {
	d := limiter.Decision{
		Allowed:    a.allowed,
		Remaining:  a.remaining,
		ResetAfter: micros(a.reset),
		At:         time.UnixMicro(t),
	}
	switch {
	case a.allowed:
	case a.retry == never:
		d.RetryAfter = limiter.Never
	default:
		d.RetryAfter = micros(a.retry)
	}
	return d
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// window is the length of l's window in µs.
func window(l limiter.Limit) int64 { return l.Window.Microseconds() }
