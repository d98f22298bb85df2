package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// ACLSchema names the form of an ACLResult.
const ACLSchema = "rlctl.acl/v1"

// ACLPlan is for whom rules are made.
type ACLPlan struct {
	Limiter string // with scripts of its own; empty means each that has some, the semaphore included
	User    string // the name of the rule's user, of one limiter alone; empty takes the limiter's
	Prefix  string
	Cluster bool // with what a client of a cluster needs beside
	DB      int  // with what a client of another database than 0 needs beside
}

// ACLResult is the least rule for a user of each limiter.
type ACLResult struct {
	Schema  string    `json:"schema"` // rlctl.acl/v1
	Prefix  string    `json:"prefix"`
	Cluster bool      `json:"cluster"` // with what a client of a cluster needs beside
	DB      int       `json:"db"`      // if not 0, with what a client of another database needs beside
	Results []ACLRule `json:"results"`
}

// ACLRule lets a user run one limiter under one prefix, and nothing else.
type ACLRule struct {
	Limiter string   `json:"limiter"`
	User    string   `json:"user"`
	Keys    string   `json:"keys"`   // the pattern of its keys
	Rights  []string `json:"rights"` // such as +evalsha
	Rule    string   `json:"rule"`   // what to type at a prompt of redis-cli, with PASSWORD in place of one
}

// Validate returns an error that names the argument at fault: a limiter without scripts of its own, or a user that Redis
// would not take, or would be given one rule after the other, of which the last one stays.
func (p ACLPlan) Validate() error {
	switch {
	case p.Limiter != "" && target.Rights(p.Limiter) == nil:
		return fmt.Errorf("no rule is known for %q; want one of %s", p.Limiter, strings.Join(withRights(), ", "))
	case p.User != "" && p.Limiter == "":
		return errors.New("--user: a user has one rule; name the LIMITER")
	case strings.ContainsFunc(p.User, func(r rune) bool { return r == 0 || r == ' ' || r >= '\t' && r <= '\r' }):
		return errors.New("--user: a user's name has no spaces")
	}
	return nil
}

// Rules makes the rules. An error is one of Validate.
func (p ACLPlan) Rules() (*ACLResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	names := []string{p.Limiter}
	if p.Limiter == "" {
		names = withRights()
	}
	r := &ACLResult{Schema: ACLSchema, Prefix: p.Prefix, Cluster: p.Cluster, DB: p.DB}
	for _, name := range names {
		rights, keys, user := rightsFor(name, p.Cluster, p.DB), target.KeyPattern(name, p.Prefix), cmp.Or(p.User, name)
		r.Results = append(r.Results, ACLRule{name, user, keys, rights, setUser(user, keys, rights)})
	}
	return r, nil
}

// setUser takes all from the user first, so that the rule says all that it may afterwards.
func setUser(name, keys string, rights []string) string {
	words := []string{"ACL SETUSER", word(name), "reset on >PASSWORD", word("~" + keys), "resetchannels -@all"}
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
			User    string `json:"user"`
			Keys    string `json:"keys"`
			Rights  string `json:"rights"`
			Rule    string `json:"rule"`
		}{rule.Limiter, rule.User, rule.Keys, list(rule.Rights), rule.Rule})
	}
	return d
}
