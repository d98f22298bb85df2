// Package doctor looks at a Redis server and says what of it endangers a rate limiter, and what to do about it.
//
// It looks in two steps that do not mix. First each master is asked, and what it said becomes [Facts]: numbers, settings,
// what a user may do. Then one table of checks turns facts into findings; a check is a pure function, so that each can
// be tested with facts of any server in the world. What could not be read is a fact too, with the reason, and a check that
// misses it says that it could not look. That is a finding of its own and never a fine one: a server that forbids CONFIG
// may be in perfect order, but nobody has seen it.
//
// Looking changes nothing. All that is sent reads, is refused before it would do anything, or is queued and discarded
// (see rights.go); no key is written, no script is loaded and no setting is changed.
//
// What it gives up: it sees one moment. Whether a replica lags under load, or a cache of scripts grows, shows only to who
// looks twice. It does not judge the security of a server, nor known vulnerabilities: distributions mend them without
// changing the version.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

// Schema names the form of a Result.
const Schema = "rlctl.doctor/v1"

// Level is how bad a finding is.
type Level string

// The levels, from the best to the worst.
const (
	Fine    Level = "fine"
	Unknown Level = "unknown" // it could not be looked at
	Warning Level = "warning" // a limit may be forgotten, passed or slow one day
	Danger  Level = "danger"  // a limiter fails, or forgets limits that still count
)

func levels() []Level { return []Level{Fine, Unknown, Warning, Danger} }

// worse orders levels: above 0 if l is worse than m.
func (l Level) worse(m Level) int { return slices.Index(levels(), l) - slices.Index(levels(), m) }

// Finding is what one check says of one node.
type Finding struct {
	Node      string   `json:"node"`
	Check     string   `json:"check"`
	Level     Level    `json:"level"`
	Seen      string   `json:"seen"`      // what was read, or why it could not be
	Endangers string   `json:"endangers"` // what may come of it; empty if it is fine
	Do        []string `json:"do"`        // commands for redis-cli or a shell, or words if there is none
}

// Plan is a server to look at, for the sake of one limiter.
type Plan struct {
	Conn    target.Conn // Timeout, above 0, is what latency is compared with
	Limiter string      // an atomic one of the catalogue
	Limit   limiter.Limit
	Prefix  string
}

// Result is what was found, node by node, each in the order of the checks.
type Result struct {
	Schema    string    `json:"schema"` // rlctl.doctor/v1
	Redis     string    `json:"redis"`  // where it is, without secrets
	Limiter   string    `json:"limiter"`
	Limit     int64     `json:"limit"`
	WindowUS  int64     `json:"window_us"`
	Burst     int64     `json:"burst"` // the most that a fresh key allows at once
	TimeoutUS int64     `json:"timeout_us"`
	Nodes     []string  `json:"nodes"` // each that was looked at
	Worst     Level     `json:"worst"`
	Results   []Finding `json:"results"`
}

// Validate returns an error that names the argument at fault: a limiter that is unknown or has no scripts of its own, or a
// limit or prefix out of bounds.
func (p Plan) Validate(catalogue []target.Entry) error {
	_, err := p.capacity(catalogue)
	return err
}

// capacity is the most that a fresh key allows at once.
func (p Plan) capacity(catalogue []target.Entry) (int64, error) {
	entry, err := target.Find(catalogue, p.Limiter)
	if err != nil {
		return 0, err
	}
	if target.Rights(entry.Name) == nil {
		return 0, fmt.Errorf("%s has no script of its own; doctor looks for the sake of one that has", entry.Name)
	}
	_, err = entry.New(nil, p.Limit, limiter.WithPrefix(p.Prefix))
	return entry.Rule.Capacity(p.Limit), err
}

// Run looks at the server that Conn names, on a cluster at each master. An error is a *limiter.Error where the server
// cannot be reached or refuses the login; what a server refuses to tell is no error but a finding.
func (p Plan) Run(ctx context.Context, catalogue []target.Entry) (*Result, error) {
	capacity, err := p.capacity(catalogue)
	if err != nil {
		return nil, err
	}
	first := p.Conn // look goes to the database by itself
	first.DB = 0
	rdb, err := first.Open(1)
	if err != nil {
		return nil, err
	}
	defer rdb.Close()
	stop := context.AfterFunc(ctx, func() { rdb.Close() })
	defer stop()
	facts, err := p.gather(ctx, rdb, Wants{p.Limiter, p.Limit, capacity, p.Prefix, p.Conn.Timeout, p.Conn.Cluster, p.Conn.DB})
	if err != nil {
		return nil, unanswered(err)
	}
	return p.judge(capacity, facts), nil
}

// unanswered classifies why a question was not answered, which counted nothing.
func unanswered(err error) error {
	err = limiter.Classify("doctor", err, false)
	var e *limiter.Error
	if errors.As(err, &e) {
		e.Unknown = false
	}
	return err
}

// gather asks one master after the other. A node of a cluster that does not answer is a fact, unless none does.
func (p Plan) gather(ctx context.Context, rdb redis.UniversalClient, w Wants) (all []Facts, err error) {
	nodes, err := target.Nodes(ctx, rdb)
	if err != nil {
		return nil, err
	}
	for _, node := range nodes {
		name := node.Addr
		if !p.Conn.Cluster {
			name = p.Conn.String()
		}
		f, err := look(ctx, node.Client, p.Conn.User, name, w)
		switch {
		case err != nil && (!p.Conn.Cluster || ctx.Err() != nil):
			return nil, err
		case err != nil:
			all = append(all, Facts{Node: name, Gone: err})
		case !p.Conn.Cluster || f.Info.Value["role"] != "slave":
			all = append(all, f)
		}
	}
	return all, unseen(all)
}

// unseen is the error of a server of which nothing was seen at all, which would else have no fault.
func unseen(all []Facts) error {
	switch {
	case len(all) == 0:
		return errors.New("no node of the cluster is a master now")
	case !slices.ContainsFunc(all, func(f Facts) bool { return f.Gone == nil }):
		return all[0].Gone
	}
	return nil
}

func (p Plan) judge(capacity int64, all []Facts) *Result {
	r := &Result{
		Schema: Schema, Redis: p.Conn.String(), Limiter: p.Limiter, Limit: p.Limit.Events,
		WindowUS: p.Limit.Window.Microseconds(), Burst: capacity, TimeoutUS: p.Conn.Timeout.Microseconds(), Worst: Fine,
		Results: []Finding{},
	}
	for _, f := range all {
		r.Nodes = append(r.Nodes, f.Node)
		r.Results = append(r.Results, Examine(f)...)
	}
	for _, f := range r.Results {
		if f.Level.worse(r.Worst) > 0 {
			r.Worst = f.Level
		}
	}
	return r
}
