package model

// CompactLog decides as the sliding log does for distinct ids, from a list of times that knows no ids. At most L in
// any W.
func CompactLog() Rule {
	return Rule{Fresh: key[compactLog]{}, Most: mostLogged}
}

type compactLog struct{ log }

func (c compactLog) step(t int64, r Request) (compactLog, bool, answer) {
	g, now, pulled := c.clock(t)
	a := g.decide(now, r)
	if a.allowed && r.Cost > 0 {
		g = g.push(now, "", r.Cost).trim(now, r.Limit)
	}
	return compactLog{g}, a.allowed || pulled, a
}

func (c compactLog) alike(other compactLog) bool { return c.log.alike(other.log) }
