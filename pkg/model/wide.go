package model

import (
	"math"
	"math/bits"
)

// wide is an unsigned integer of 128 bits, wide enough for every product of a rule to be exact. The largest is a full
// bucket rescaled to another window: 10^9 tokens times two windows of 366 days in µs, below 2^120.
type wide struct{ hi, lo uint64 }

// product is a times b; neither may be negative.
func product(a, b int64) wide {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return wide{hi, lo}
}

func (x wide) times(b int64) wide {
	hi, lo := bits.Mul64(x.lo, uint64(b))
	return wide{hi + x.hi*uint64(b), lo}
}

func (x wide) plus(y wide) wide {
	lo, carry := bits.Add64(x.lo, y.lo, 0)
	hi, _ := bits.Add64(x.hi, y.hi, carry)
	return wide{hi, lo}
}

// minus is x - y, or 0 where that is negative.
func (x wide) minus(y wide) wide {
	lo, borrow := bits.Sub64(x.lo, y.lo, 0)
	hi, borrow := bits.Sub64(x.hi, y.hi, borrow)
	if borrow != 0 {
		return wide{}
	}
	return wide{hi, lo}
}

func (x wide) less(y wide) bool {
	return x.hi < y.hi || x.hi == y.hi && x.lo < y.lo
}

// over divides x by c, which is positive.
func (x wide) over(c int64) (quotient wide, remainder int64) {
	hi, rest := bits.Div64(0, x.hi, uint64(c))
	lo, rest := bits.Div64(rest, x.lo, uint64(c))
	return wide{hi, lo}, int64(rest)
}

// up divides x by c, which is positive, and rounds up.
func (x wide) up(c int64) wide {
	q, rest := x.over(c)
	if rest > 0 {
		q = q.plus(wide{lo: 1})
	}
	return q
}

// small is x, or the largest int64 if x is larger.
func (x wide) small() int64 {
	if x.hi > 0 || x.lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(x.lo)
}

// floor is a*b/c rounded down, ceil the same rounded up.
func floor(a, b, c int64) int64 {
	q, _ := product(a, b).over(c)
	return q.small()
}

func ceil(a, b, c int64) int64 { return product(a, b).up(c).small() }
