package model

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func (x wide) big() *big.Int {
	b := new(big.Int).SetUint64(x.hi)
	return b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(x.lo))
}

// TestWideIsExact compares every operation with math/big, over numbers of all lengths.
func TestWideIsExact(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	some := func(bits int) int64 { return rng.Int64() >> (63 - rng.IntN(bits+1)) }
	for range 20_000 {
		a, b, c := some(63), some(50), 1+some(45)
		x, y := product(a, b), product(some(63), some(63))
		ab := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		quotient, rest := new(big.Int).QuoRem(ab, big.NewInt(c), new(big.Int))
		gotQuotient, gotRest := x.over(c)
		roundedUp := new(big.Int).Set(quotient)
		if rest.Sign() > 0 {
			roundedUp.Add(roundedUp, big.NewInt(1))
		}
		difference := new(big.Int).Sub(ab, y.big())
		less := difference.Sign() < 0
		if less {
			difference.SetInt64(0)
		}
		short := product(some(40), some(35))
		small := int64(math.MaxInt64)
		if ab.IsInt64() {
			small = ab.Int64()
		}
		for what, ok := range map[string]bool{
			"product":   x.big().Cmp(ab) == 0,
			"over":      gotQuotient.big().Cmp(quotient) == 0 && gotRest == rest.Int64(),
			"up":        x.up(c).big().Cmp(roundedUp) == 0,
			"minus":     x.minus(y).big().Cmp(difference) == 0,
			"less":      x.less(y) == less && !x.less(x),
			"plus":      x.plus(y).big().Cmp(new(big.Int).Add(ab, y.big())) == 0,
			"times":     short.times(c).big().Cmp(new(big.Int).Mul(short.big(), big.NewInt(c))) == 0,
			"small":     x.small() == small,
			"one digit": !gotQuotient.big().IsInt64() || floor(a, b, c) == quotient.Int64() && ceil(a, b, c) == roundedUp.Int64(),
		} {
			if !ok {
				t.Fatalf("seed %d: %s is wrong for a=%d b=%d c=%d y=%v short=%v", seed, what, a, b, c, y, short)
			}
		}
	}
}
