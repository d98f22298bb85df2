package explore

// atOnce is the most admitted calls of which none had begun to be given back when the last of them ended, and that last
// one; -1 if there is none. Without releases these are all that were admitted.
func atOnce(calls []Call) (most int64, last int) {
	var admitted []int
	for i, c := range calls {
		if c.Ended() && c.Decision.Allowed && !c.Release {
			admitted = append(admitted, i)
		}
	}
	last = -1
	for pick := 1; pick < 1<<len(admitted); pick++ {
		var held []int
		for n, i := range admitted {
			if pick>>n&1 == 1 {
				held = append(held, i)
			}
		}
		if n := int64(len(held)); n > most && together(calls, held) {
			most, last = n, latest(calls, held)
		}
	}
	return most, last
}

// together tells whether all of these had been admitted before any of them began to be given back.
func together(calls []Call, held []int) bool {
	all := uint(0)
	for _, i := range held {
		all |= 1 << i
	}
	for _, i := range held {
		if back := i + 1; back < len(calls) && calls[back].Release && calls[back].First >= 0 && all&^calls[back].before != 0 {
			return false
		}
	}
	return true
}

// latest is the one of these that ended last.
func latest(calls []Call, of []int) int {
	last := of[0]
	for _, i := range of {
		if calls[i].Last > calls[last].Last {
			last = i
		}
	}
	return last
}
