package doctor

import (
	"fmt"
	"strings"

	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// ACLSchema names the form of an ACLResult.
const ACLSchema = "rlctl.acl/v1"

// ACLResult is the least rule for a user of each limiter.
type ACLResult struct {
	Schema  string    `json:"schema"` // rlctl.acl/v1
	Prefix  string    `json:"prefix"`
	Cluster bool      `json:"cluster"` // with what a client of a cluster needs beside
	Results []ACLRule `json:"results"`
}

// ACLRule lets a user run one limiter under one prefix, and nothing else.
type ACLRule struct {
	Limiter string   `json:"limiter"`
	Keys    string   `json:"keys"`   // the pattern of its keys
	Rights  []string `json:"rights"` // such as +evalsha
	Rule    string   `json:"rule"`   // what to type at a prompt of redis-cli, with PASSWORD in place of one
}

// ACL makes the rules: of one limiter, or with an empty name of each that has scripts of its own, the semaphore included.
func ACL(name, prefix string, cluster bool) (*ACLResult, error) {
	names := []string{name}
	if name == "" {
		names = withRights()
	}
	r := &ACLResult{Schema: ACLSchema, Prefix: prefix, Cluster: cluster}
	for _, name := range names {
		rights := target.Rights(name)
		if rights == nil {
			return nil, fmt.Errorf("no rule is known for %q; want one of %s", name, strings.Join(withRights(), ", "))
		}
		if cluster {
			rights = append(rights, target.ClusterRights()...)
		}
		keys := target.KeyPattern(name, prefix)
		r.Results = append(r.Results, ACLRule{name, keys, rights, setUser(name, keys, rights)})
	}
	return r, nil
}

// setUser takes all from the user first, so that the rule says all that it may afterwards.
func setUser(name, keys string, rights []string) string {
	words := []string{"ACL SETUSER", name, "reset on >PASSWORD", word("~" + keys), "resetchannels -@all"}
	return strings.Join(append(words, rights...), " ")
}

// word is a word as redis-cli reads it.
func word(text string) string {
	if !strings.ContainsAny(text, `"'\`) && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return text
	}
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return `"` + b.String() + `"`
}

// Document shows one rule a line and nothing else, so that redis-cli can read them.
func (r *ACLResult) Document() report.Document {
	d := report.Document{Data: r}
	for _, rule := range r.Results {
		d.Head = append(d.Head, report.Line{report.Plain(rule.Rule)})
		d.Records = append(d.Records, struct {
			Limiter string `json:"limiter"`
			Keys    string `json:"keys"`
			Rights  string `json:"rights"`
			Rule    string `json:"rule"`
		}{rule.Limiter, rule.Keys, list(rule.Rights), rule.Rule})
	}
	return d
}
