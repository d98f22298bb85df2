package model

import "github.com/rlctl/rlctl/pkg/limiter"

// GCRA is the token bucket told by one time: when it will be full again. That time is kept in µs and a fraction in
// 1/L of one, so that it loses nothing, and a changed limit keeps the time instead of the tokens.
func GCRA() Rule {
	return Rule{Fresh: key[gcra]{}, Most: mostPoured, Memory: Level}
}

type gcra struct {
	full     int64 // µs
	fraction int64 // in 1/limit µs past full
	limit    int64 // at the last write
}

func (g gcra) step(t int64, r Request) (gcra, bool, answer) {
	used, capped := g.usedAt(t, r.Limit)
	used, a := take(used, r)
	ahead, fraction := used.over(r.Limit.Events)
	return gcra{t + ahead.small(), fraction, r.Limit.Events}, a.allowed || capped, a
}

// usedAt is what is used at t. A token is W/L µs, so 1/W of a token, the unit of take, is 1/L µs. capped says that
// the bucket would have been more than empty.
func (g gcra) usedAt(t int64, l limiter.Limit) (used wide, capped bool) {
	if g.full < t {
		return wide{}, false
	}
	fraction := g.fraction
	if g.limit != l.Events && fraction > 0 {
		fraction = ceil(fraction, l.Events, g.limit)
	}
	used = product(g.full-t, l.Events).plus(product(fraction, 1))
	if capacity := product(l.Capacity(), window(l)); capacity.less(used) {
		return capacity, true
	}
	return used, false
}

func (g gcra) alike(other gcra) bool { return g == other }
