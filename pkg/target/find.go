package target

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlctl/rlctl/pkg/outside"
)

// ErrUnknownLimiter is a name that is in no row.
type ErrUnknownLimiter struct {
	Name  string
	Close []string // names in the catalogue that it may have been meant for, the closest first
}

// Error names the name and what may have been meant.
func (e *ErrUnknownLimiter) Error() string {
	text := fmt.Sprintf("unknown limiter %q", e.Name)
	if len(e.Close) > 0 {
		text += "; did you mean " + strings.Join(e.Close, " or ") + "?"
	}
	return text
}

// Find returns the row of that name, or an *ErrUnknownLimiter.
func Find(entries []Entry, name string) (Entry, error) {
	for _, e := range entries {
		if e.Name == name {
			return e, nil
		}
	}
	return Entry{}, &ErrUnknownLimiter{name, Closest(Names(entries), name)}
}

// Names lists the limiters of a catalogue.
func Names(entries []Entry) []string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	return names
}

// Extend returns the catalogue with further rows, a naive one below its twin's group and any other at the end. It
// refuses a row without a name, a rule or a maker, a name that is taken, and a twin that is not there.
func Extend(entries []Entry, further ...Entry) ([]Entry, error) {
	all := slices.Clone(entries)
	for _, e := range further {
		if e.Name == "" || e.New == nil || e.Rule.Fresh == nil || e.Rule.Most == nil {
			return nil, fmt.Errorf("add limiter %q: a row needs Name, Rule and New", e.Name)
		}
		if _, err := Find(all, e.Name); err == nil {
			return nil, fmt.Errorf("add limiter %q: the name is taken", e.Name)
		}
		at := len(all)
		if !e.Own() {
			if at = endOfGroup(all, e.Twin); at < 0 {
				return nil, fmt.Errorf("add limiter %q: its twin %q is not an atomic limiter of the catalogue", e.Name, e.Twin)
			}
		}
		all = slices.Insert(all, at, e)
	}
	return all, nil
}

// FindRule returns the row of a limiter whose rule is its own, so that others can claim to keep it.
func FindRule(entries []Entry, name string) (Entry, error) {
	rule, err := Find(entries, name)
	if err == nil && !rule.Own() {
		err = fmt.Errorf("%s keeps the rule of %s: name that", rule.Name, rule.Twin)
	}
	return rule, err
}

// Open returns the row of that name: one of the catalogue, or one for what the name means outside of it, such as
// exec:COMMAND, on the terms given. Such a one claims to keep the rule of the limiter that they name.
func Open(entries []Entry, name string, t outside.Terms) (Entry, error) {
	if !outside.Is(name) {
		return Find(entries, name)
	}
	rule, err := FindRule(entries, t.As)
	if err != nil {
		return Entry{}, err
	}
	kind, err := outside.Open(name, t)
	if err != nil {
		return Entry{}, err
	}
	state := "its own"
	if kind.Service {
		state = NoState
	}
	return Entry{
		Name: name, Summary: "from outside", Twin: rule.Name, BrokenBy: Nothing, State: state, Worst: rule.Worst,
		Rule: rule.Rule, New: kind.New, Outside: &t, Unit: kind.Unit, Callers: kind.Callers, Service: kind.Service,
	}, nil
}

// endOfGroup is the index after the last row that is of twin's group, or -1.
func endOfGroup(entries []Entry, twin string) int {
	at := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == twin && e.Own() })
	if at < 0 {
		return -1
	}
	for at++; at < len(entries) && entries[at].Twin == twin; at++ {
	}
	return at
}

// Closest returns up to three of the names, the closest first: those within one typing error of word, and one more for
// each four letters of it, or that contain it.
func Closest(names []string, word string) []string {
	type candidate struct {
		name string
		far  int
	}
	var near []candidate
	for _, name := range names {
		far := distance(strings.ToLower(word), name)
		if len(word) > 2 && strings.Contains(name, strings.ToLower(word)) {
			far = 1
		}
		if far <= 1+len(word)/4 {
			near = append(near, candidate{name, far})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.far - b.far })
	var closest []string
	for _, c := range near[:min(3, len(near))] {
		closest = append(closest, c.name)
	}
	return closest
}

// distance is the fewest letters to insert, drop or change that make a of b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
