package doctor

// check is one thing to look at. It always finds something: what does not apply is fine, and says so, since a check
// that is left out cannot be told from one that was forgotten.
type check struct {
	name string
	look func(Facts) Finding
}

// checks are all, in the order in which they are shown among equals.
func checks() []check {
	return []check{
		{"version", version},
		{"rights", rights},
		{"eviction", ofState(eviction)},
		{"memory", ofState(memory)},
		{"persistence", ofState(persistence)},
		{"replication", ofState(replication)},
		{"cluster", cluster},
		{"scripts", cache},
		{"slow log", slowLog},
		{"long scripts", longScripts},
		{"freeing", ofState(freeing)},
		{"clients", clients},
		{"latency", latency},
		{"clock", clock},
	}
}

// ofState is a check of what may become of the state of limits. A limit of 0 keeps none.
func ofState(look func(Facts) Finding) func(Facts) Finding {
	return func(f Facts) Finding {
		if f.Wants.Limit.Events == 0 {
			return fine("a limit of 0 keeps nothing on the server")
		}
		return look(f)
	}
}

// Examine is what all checks say of one node, a finding each, in their order. Of a node that does not answer, and of a
// sentinel, there is one alone.
func Examine(f Facts) (all []Finding) {
	if f.Gone != nil {
		return []Finding{{f.Node, "node", Danger, "it does not answer",
			"if it is a master, clients with slots there are refused until a replica takes over", []string{"redis-cli --cluster check HOST:PORT"}}}
	}
	if f.Info.Value["redis_mode"] == "sentinel" {
		return []Finding{{f.Node, "version", Danger, "a sentinel, which knows servers and keeps no limits", "nothing is ever admitted here",
			[]string{"rlctl doctor --sentinel-master NAME, with the name that it has for its master"}}}
	}
	for _, c := range checks() {
		g := c.look(f)
		if g.Level == "" {
			g = couldNot("the check found nothing to say")
		}
		g.Node, g.Check = f.Node, c.name
		if g.Do == nil {
			g.Do = []string{}
		}
		all = append(all, g)
	}
	return all
}
