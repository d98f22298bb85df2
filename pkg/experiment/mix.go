package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/outside"
	"github.com/rlctl/rlctl/pkg/target"
)

// rows are what races in its turn: each limiter, or all of them together. At a cost above 1 the whole catalogue is without
// those that take one event a request.
func (p Race) rows(catalogue []target.Entry) ([]target.Entry, error) {
	rows, err := named(catalogue, p.Limiters)
	if len(p.Limiters) == 0 && p.Cost > 1 {
		rows = slices.DeleteFunc(slices.Clone(rows), func(e target.Entry) bool { return e.Unit })
	}
	if err != nil || !p.Mix {
		return rows, err
	}
	mixed, err := mix(rows)
	if err != nil {
		return nil, fmt.Errorf("--mix: %w", err)
	}
	return []target.Entry{mixed}, nil
}

// mix is the row of limiters that share a key. They have to keep one rule, and the same state for it: that is known of
// the limiter whose rule it is, and claimed by those from outside.
func mix(rows []target.Entry) (target.Entry, error) {
	if len(rows) < 2 {
		return target.Entry{}, fmt.Errorf("want two limiters or more that share a key")
	}
	mixed, names := rows[0], make([]string, len(rows))
	mixed.Twin = ruleOf(rows[0])
	for i, e := range rows {
		names[i] = e.Name
		mixed.Unit = mixed.Unit || e.Unit
		switch {
		case !e.Atomic():
			return target.Entry{}, fmt.Errorf("%s keeps a state of its own, which it shares with nobody", e.Name)
		case e.Service != mixed.Service:
			return target.Entry{}, fmt.Errorf("of %s and %s one is asked over HTTP: what they answer is not judged alike", rows[0].Name, e.Name)
		case ruleOf(e) != mixed.Twin:
			return target.Entry{}, fmt.Errorf("%s keeps the rule of %s, %s that of %s: name one with --as", rows[0].Name, mixed.Twin, e.Name, ruleOf(e))
		}
	}
	mixed.Name, mixed.Outside = strings.Join(names, mixedWith), &outside.Terms{As: mixed.Twin}
	return mixed, nil
}

// mixedWith stands between the names of limiters that share a key.
const mixedWith = " + "

// ruleOf is whose rule a limiter keeps or claims to keep.
func ruleOf(e target.Entry) string {
	if e.Own() {
		return e.Name
	}
	return e.Twin
}

// share gives a job to all limiters of a mixed race.
func (r *race) share(j fleet.Job) (fleet.Job, error) {
	rows, err := named(r.env.Catalogue, r.Limiters)
	if err != nil {
		return j, err
	}
	j.Target, j.Terms = rows[0].Name, rows[0].Terms()
	for _, e := range rows[1:] {
		j.Others = append(j.Others, fleet.Other{Target: e.Name, Terms: e.Terms()})
	}
	return j, nil
}
