package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlctl/rlctl/pkg/report"
)

// rights: what comes of a right that is missing depends on when it is missed.
func rights(f Facts) Finding {
	r, name := f.Rights.Value, f.Wants.Limiter
	if f.Rights.Why != "" {
		return couldNot(f.Rights.Why)
	}
	gone, missing := r.goneOf(f.Wants.rights(name)), r.Missing[name]
	switch {
	case r.How == "":
		return couldNot("the rights were not tried")
	case len(gone) > 0:
		return seen(Danger, "commands that %s needs are not there: %s", name, list(gone)).but(missed(name, gone),
			"take out the rename-command of them in the server's configuration, or use a server that has them")
	case len(missing) > 0:
		return seen(Danger, "%s lacks %s", name, list(missing)).but(missed(name, missing),
			"ACL SETUSER NAME "+list(quoted(missing)), "rlctl doctor --acl "+name+f.Wants.flags())
	case len(r.Untried[name]) > 0:
		return couldNot(fmt.Sprintf("whether %s may %s cannot be tried without writing; all else it may", name, list(r.Untried[name])))
	case len(r.Unclear[name]) > 0:
		return couldNot(fmt.Sprintf("the server's answers do not tell whether %s may %s", name, list(r.Unclear[name])))
	}
	return fine("%s may all that it needs%s (%s)", name, f.others(), r.How)
}

// goneOf are those of the needed words whose commands the server does not have.
func (r Rights) goneOf(needs []string) (gone []string) {
	for _, word := range r.Gone {
		if slices.Contains(needs, word) {
			gone = append(gone, word)
		}
	}
	return gone
}

// usualPrefix is what --prefix is by default.
const usualPrefix = "ratelimit"

// flags are those that a rule depends on.
func (w Wants) flags() (text string) {
	if w.Cluster {
		text += " --cluster"
	}
	if w.DB != 0 {
		text += fmt.Sprintf(" --db %d", w.DB)
	}
	if w.Prefix != usualPrefix {
		text += " --prefix " + report.ShellWord(w.Prefix)
	}
	return text
}

// missed says what comes of missing words: the first of these that any of them brings, since it keeps the later from
// being met.
func missed(limiter string, words []string) string {
	any := func(of ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(of, word) })
	}
	switch {
	case any("+select"):
		return "no connection gets to its database, and every call is refused"
	case any("+cluster|slots"):
		return "a client does not learn which node has its key, and every call is refused"
	case any("+evalsha") || slices.ContainsFunc(words, func(word string) bool { return word[0] == '~' }):
		return "every call is refused before its script begins"
	case any("+script|load"):
		return "once the server has lost the script, by a restart, a failover or SCRIPT FLUSH, every call is refused"
	case any("+asking") && len(words) == 1:
		return "while a slot moves to another node, calls in it are refused"
	case slices.ContainsFunc(words, func(word string) bool { return afterWrite(limiter, word) }):
		return "a script fails in its middle, perhaps after its first write"
	}
	return "a script fails in its middle, before it has written anything"
}

// afterWrite tells the commands that a script may come to after its first write.
func afterWrite(limiter, word string) bool {
	first := []string{"+time", "+get", "+set", "+hmget", "+hset", "+zrange", "+zcount", "+zscore", "+zadd", "+lindex", "+lpush"}
	releases := limiter == "semaphore" && word == "+zadd" // after ZREM, where the clock has stepped back
	return releases || word != "+asking" && !slices.Contains(first, word)
}

// others names the limiters of which the same is not known, which only matters to who uses them.
func (f Facts) others() string {
	r := f.Rights.Value
	if !r.All {
		return ""
	}
	var names []string
	for _, name := range withRights() {
		doubts := len(r.Missing[name]) + len(r.Untried[name]) + len(r.Unclear[name]) + len(r.goneOf(f.Wants.rights(name)))
		if doubts > 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		return ", and so may all others"
	}
	slices.Sort(names)
	return "; not so " + strings.Join(names, ", ")
}

// quoted are words as redis-cli reads them.
func quoted(words []string) (all []string) {
	for _, w := range words {
		all = append(all, word(w))
	}
	return all
}

func list(rights []string) string { return strings.Join(rights, " ") }
