package target

import (
	"slices"
	"strings"

	"github.com/rlctl/rlctl/scripts"
)

// Semaphore is the name of the semaphore: the last word of its keys, and in ACLRule.
const Semaphore = "semaphore"

// Rights are the commands that a user must be allowed so that the atomic limiter of that name, or the Semaphore, works,
// as words of Redis's ACL such as "+evalsha", sorted; nil of any other. It is what the heads of the scripts say, which
// tests hold to what the scripts call.
func Rights(name string) []string {
	files := []string{name}
	if name == Semaphore {
		files = []string{scripts.SemaphoreAcquire, scripts.SemaphoreRenew, scripts.SemaphoreRelease}
	}
	var all []string
	for _, file := range files {
		source, _ := scripts.Source(file)
		all = append(all, scripts.Rights(source)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ClusterRights are what a user must be allowed beside, where the server is a node of a cluster: to learn which node has
// which slots, and to follow a slot that is under way to another node.
func ClusterRights() []string { return []string{"+asking", "+cluster|slots"} }

// DatabaseRights are what a user must be allowed beside for any database but the first.
func DatabaseRights() []string { return []string{"+select"} }

// ExperimentRights are what experiments on a named server make use of beside: to take away the keys that they made, and
// to see that these have a TTL. Without them keys are left to their TTL, and it is not looked at.
func ExperimentRights() []string { return []string{"+del", "+pttl"} }

// ACLRule is the least rule for a user of that limiter, to be put behind ACL SETUSER NAME on >PASSWORD: the pattern of
// its keys under the prefix, nothing else, and the commands. It is empty where Rights are.
func ACLRule(name, prefix string, further ...string) string {
	rights := Rights(name)
	if rights == nil {
		return ""
	}
	words := []string{"resetkeys", "~" + KeyPattern(name, prefix), "-@all"}
	return strings.Join(slices.Concat(words, rights, further), " ")
}

// KeyPattern is the ACL's pattern of all keys of a limiter and no others. A space or a NUL in the prefix, which no pattern
// can hold, stands there as any byte.
func KeyPattern(name, prefix string) string {
	var p strings.Builder
	for _, b := range []byte(prefix) {
		switch {
		case strings.IndexByte(`*?[\`, b) >= 0:
			p.Write([]byte{'\\', b})
		case b == 0 || b == ' ' || b >= '\t' && b <= '\r':
			p.WriteByte('?')
		default:
			p.WriteByte(b)
		}
	}
	return p.String() + ":{*}:" + name
}
