package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
)

// Race is the plan of a race: many processes ask one limiter for one key at once, each limiter in its turn.
type Race struct {
	Limiters       []string // names in the catalogue; none means all of it
	Limit          limiter.Limit
	Cost           int64 // events a request, 1 or more
	Procs          int   // processes, 1 to 1,000
	Clients        int   // concurrent callers in each, 1 to 9,000; together at most 9,000
	Attempts       int64 // requests a client; 0 means enough to pass the limit many times
	Rounds         int   // 1 to 1,000
	Seed           uint64
	GoroutinesOnly bool   // all clients in one process
	Mix            bool   // all limiters at once on one key, the processes taking them in turn
	ID             string // what the ids of its clients begin with, before what makes them this run's own
	Prefix         string
	Conn           target.Conn
	Private        bool          // on a server of its own, or a cluster; Conn then only says which, and how long to wait
	Failover       bool          // in mid-race the master of the key dies, and its replica takes its place
	Lag            time.Duration // before, the replica hears nothing for so long; 0 to half a second
	RTT            time.Duration // between the processes and a private server, beyond a Unix socket's
	Yes            bool          // what would be asked is answered
}

const (
	maxProcs   = 1_000
	maxClients = maxCallers
	maxRounds  = 1_000
	// maxCallers leaves a server with Redis's default of 10,000 connections some for others.
	maxCallers = 9_000
	// maxCalls bounds a round, whose calls are all kept until it is judged: about 5 GiB.
	maxCalls = 20_000_000
	// maxID leaves room for what makes a client's id this run's own.
	maxID = 4 << 10
	// longestLag is well below the time after which a silent replica is taken for gone.
	longestLag = 500 * time.Millisecond
	// catchRounds is how often a limiter that a race must break is tried before that is given up.
	catchRounds = 5
)

// Validate returns an error that begins with the flag at fault, if one is.
func (p Race) Validate(catalogue []target.Entry) error {
	rows, err := p.rows(catalogue)
	if err != nil {
		return err
	}
	switch {
	case p.Mix && p.GoroutinesOnly:
		return errors.New("--mix: excluded by --goroutines-only")
	case p.Mix && p.Procs < len(p.Limiters):
		return fmt.Errorf("--mix: %d limiters want as many --procs, got %d", len(p.Limiters), p.Procs)
	case p.Procs < 1 || p.Procs > maxProcs:
		return fmt.Errorf("--procs: want 1 to %d, got %d", maxProcs, p.Procs)
	case p.Clients < 1 || p.Clients > maxClients:
		return fmt.Errorf("--clients: want 1 to %d, got %d", maxClients, p.Clients)
	case p.callers() > maxCallers:
		return fmt.Errorf("--clients: %d times %d processes are more than the %d callers that a server can be asked to bear",
			p.Clients, p.Procs, maxCallers)
	case p.Rounds < 1 || p.Rounds > maxRounds:
		return fmt.Errorf("--rounds: want 1 to %d, got %d", maxRounds, p.Rounds)
	case p.RTT < 0 || p.RTT > p.Conn.Timeout/2:
		return fmt.Errorf("--rtt: want 0 to half the --timeout of %s, got %s", p.Conn.Timeout, p.RTT)
	case p.RTT > 0 && (!p.Private || p.Conn.Cluster || p.Failover):
		return fmt.Errorf("--rtt: is laid before a private server only, and before no cluster")
	case p.Failover && !p.Private:
		return fmt.Errorf("--failover: kills servers, and none but its own")
	case p.Failover && (p.Attempts > 0 || p.Mix || p.GoroutinesOnly):
		return fmt.Errorf("--failover: excludes --attempts, --mix and --goroutines-only: callers ask until it is over")
	case p.Failover && p.Limit.Events < 1:
		return fmt.Errorf("--failover: a limit of 0 denies everything, before and after")
	case p.Lag < 0 || p.Lag > longestLag:
		return fmt.Errorf("--lag: want 0 to %s, got %s: who is silent for longer is taken for gone", longestLag, p.Lag)
	case p.Lag > 0 && !p.Failover:
		return fmt.Errorf("--lag: needs --failover")
	case len(p.ID) > maxID:
		return fmt.Errorf("--id: want at most %d bytes", maxID)
	case p.Attempts < 0:
		return fmt.Errorf("--attempts: want 1 or more, got %d", p.Attempts)
	case p.Cost < 1:
		return fmt.Errorf("--cost: want 1 or more in a race, got %d", p.Cost)
	case p.attempts() > maxCalls/p.callers():
		return fmt.Errorf("--attempts: %d for each of %d clients are more than the %d calls a round can keep", p.attempts(),
			p.callers(), maxCalls)
	}
	for _, e := range rows {
		if err := unconfirmed(e, p.Private || p.Yes); err != nil {
			return err
		}
		if e.Unit && p.Cost > 1 {
			return fmt.Errorf("--cost: %s takes one event a request", e.Name)
		}
		if _, err := e.New(nil, p.Limit, limiter.WithPrefix(p.Prefix)); err != nil {
			return refused(e.Name, err)
		}
		if e.Unit && p.Cost > 1 {
			return errUnit(e)
		}
	}
	return nil
}

// errUnit refuses a cost for a limiter that knows none.
func errUnit(e target.Entry) error { return fmt.Errorf("--cost: %s takes one event a request", e.Name) }

// refused names the flag behind what a limiter refuses.
func refused(name string, err error) error {
	var field *limiter.FieldError
	if errors.As(err, &field) {
		return fmt.Errorf("--%s: %s (%s)", field.Field, field.Problem, name)
	}
	return err
}

// unconfirmed refuses what may leave a key for ever on a server that is not ours, unless that is all right.
func unconfirmed(e target.Entry, allRight bool) error {
	if e.BrokenBy != target.Crash || allRight {
		return nil
	}
	return fmt.Errorf("--yes: %s can leave a key without a TTL on your server: confirm with --yes, or name other limiters", e.Name)
}

// named are the limiters of those names, or the whole catalogue, in its order, if there are none.
func named(catalogue []target.Entry, names []string) ([]target.Entry, error) {
	if len(names) == 0 {
		return catalogue, nil
	}
	var rows []target.Entry
	for i, name := range names {
		e, err := target.Find(catalogue, name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("%s is named twice", name)
		}
		rows = append(rows, e)
	}
	return rows, nil
}

// attempts is how often each client asks: if need be, twice the limit, and all of them together 20 times the limit.
func (p Race) attempts() int64 {
	if p.Attempts > 0 {
		return p.Attempts
	}
	return max(1, 2*p.Limit.Events, (20*p.Limit.Events+p.callers()-1)/p.callers())
}

func (p Race) callers() int64       { return int64(p.Procs) * int64(p.Clients) }
func (p Race) callsPerRound() int64 { return p.callers() * p.attempts() }

func (p Race) open(ctx context.Context, env Env) (*server, error) {
	if p.Failover {
		return openGroup(ctx, env, p.Conn, true)
	}
	return openServer(ctx, env, p.Conn, p.Private)
}

// Run runs the race. One that an interrupt or an error ends returns what there is, marked partial, beside the error.
func (p Race) Run(ctx context.Context, env Env) (*RaceResult, error) {
	if err := p.Validate(env.Catalogue); err != nil {
		return nil, err
	}
	rows, err := p.rows(env.Catalogue)
	if err != nil {
		return nil, err
	}
	srv, err := p.open(ctx, env)
	if err != nil {
		return nil, err
	}
	if p.RTT > 0 {
		if err := srv.moveAway(p.RTT); err != nil {
			return nil, errors.Join(err, srv.close())
		}
	}
	if p.Seed == 0 {
		p.Seed = rand.Uint64()
	}
	ctx, stop := srv.whileItLives(ctx)
	defer stop()
	r := race{Race: p, env: env, srv: srv}
	r.total.Store(int64(len(rows)*p.Rounds) * p.callsPerRound())
	defer r.disband()
	start := time.Now()
	result := p.result(env, srv)
	result.Planned = len(rows)
	for _, e := range rows {
		var row RaceRow
		row, err = r.row(ctx, e)
		if len(row.Rounds) > 0 {
			result.Results = append(result.Results, row)
		}
		if err != nil {
			break
		}
	}
	result.ElapsedUS = time.Since(start).Microseconds()
	result.Partial = err != nil || ctx.Err() != nil
	result.Verdict = overall(result.Results)
	if result.Partial && result.Verdict == replay.Held {
		result.Verdict = replay.Inconclusive // of what was not run nothing is known
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, errors.Join(err, srv.close())
}
