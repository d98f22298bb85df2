package doctor

// check is one thing to look at. It says nothing (a zero Finding) where it does not apply.
type check struct {
	name string
	look func(Facts) Finding
}

// checks are all, in the order in which they are shown among equals.
func checks() []check {
	return []check{
		{"version", version},
		{"rights", rights},
		{"eviction", eviction},
		{"memory", memory},
		{"persistence", persistence},
		{"replication", replication},
		{"cluster", cluster},
		{"scripts", cache},
		{"slow log", slowLog},
		{"long scripts", longScripts},
		{"freeing", freeing},
		{"clients", clients},
		{"latency", latency},
		{"clock", clock},
	}
}

// Examine is what all checks say of one node, or that it does not answer.
func Examine(f Facts) (all []Finding) {
	if f.Gone != nil {
		return []Finding{{f.Node, "node", Danger, "it does not answer",
			"if it is a master, clients with slots there are refused until a replica takes over", []string{"redis-cli --cluster check HOST:PORT"}}}
	}
	for _, c := range checks() {
		if g := c.look(f); g.Level != "" {
			g.Node, g.Check = f.Node, c.name
			if g.Do == nil {
				g.Do = []string{}
			}
			all = append(all, g)
		}
	}
	return all
}
