package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

// Bench is the plan of a bench: each limiter, and floors beside them, under the same load, in rounds that take turns.
type Bench struct {
	Limiters     []string // names in the catalogue; none means all of it
	Paths        []string // of fleet.Path; none means allowed and denied
	Limit        limiter.Limit
	Cost         int64         // events a request, 1 or more
	Procs        int           // processes, 1 to 1,000
	Clients      int           // concurrent callers in each, 1 to 9,000; together at most 9,000
	Duration     time.Duration // measured of each row, over all rounds; 0 chooses
	Warmup       time.Duration // of each round, discarded; 0 chooses
	Rounds       int           // 1 to 1,000; fewer than 6 have no interval
	Rate         float64       // requests a second of all callers; 0 is a closed loop
	Pipeline     int           // requests a round trip, 1 to 10,000
	AutoPipeline bool          // the client library's own
	Keys         int           // 1 to 1,000,000
	Zipf         float64       // exponent, above 1; 0 asks all keys alike
	Asserts      []string      // what must hold, such as "gcra/denied:p99_us<5000"
	Seed         uint64
	Prefix       string
	Conn         target.Conn
	Private      bool // on a server of its own; Conn then only says how long to wait
	Yes          bool // what would be asked is answered
}

const (
	maxPipeline = 10_000
	// maxTaken bounds the events that are taken from all keys before a round. Of a log they are entries: some 250 MB.
	maxTaken = 2_000_000
	// ownDuration is the measured time of a row that was asked for by name, allDuration that of each row when none was:
	// the whole catalogue is then through in less than a minute on two cores.
	ownDuration = 5 * time.Second
	allDuration = 600 * time.Millisecond
	// leastWarmup is about the time until the processor's clock and the connections' buffers have settled.
	leastWarmup = 20 * time.Millisecond
)

// Validate returns an error that begins with the flag at fault, if one is.
func (p Bench) Validate(catalogue []target.Entry) error {
	rows, err := p.rows(catalogue)
	if err != nil {
		return err
	}
	callers := int64(p.Procs) * int64(p.Clients)
	switch {
	case p.Procs < 1 || p.Procs > maxProcs:
		return fmt.Errorf("--procs: want 1 to %d, got %d", maxProcs, p.Procs)
	case p.Clients < 1 || p.Clients > maxClients:
		return fmt.Errorf("--clients: want 1 to %d, got %d", maxClients, p.Clients)
	case callers > maxCallers:
		return fmt.Errorf("--clients: %d times %d processes are more than the %d callers that a server can be asked to bear",
			p.Clients, p.Procs, maxCallers)
	case p.Rounds < 1 || p.Rounds > maxRounds:
		return fmt.Errorf("--rounds: want 1 to %d, got %d", maxRounds, p.Rounds)
	case p.Duration < 0 || p.duration() < time.Duration(p.Rounds)*time.Millisecond:
		return fmt.Errorf("--duration: want 1ms or more for each of %d rounds, got %s", p.Rounds, p.Duration)
	case p.Rate < 0 || p.Rate > 1e9:
		return fmt.Errorf("--rate: want 0 to 1000000000 a second, got %g", p.Rate)
	case p.Pipeline < 1 || p.Pipeline > maxPipeline:
		return fmt.Errorf("--pipeline: want 1 to %d, got %d", maxPipeline, p.Pipeline)
	case p.AutoPipeline && p.Pipeline > 1:
		return errors.New("--autopipeline: excludes --pipeline")
	case p.Keys < 1 || p.Keys > maxKeys:
		return fmt.Errorf("--keys: want 1 to %d, got %d", maxKeys, p.Keys)
	case p.Zipf != 0 && (p.Zipf <= 1 || p.Zipf > 100):
		return fmt.Errorf("--zipf: want an exponent above 1, up to 100, got %g", p.Zipf)
	case p.Cost < 1:
		return fmt.Errorf("--cost: want 1 or more in a bench, got %d", p.Cost)
	}
	for _, path := range p.Paths {
		if !slices.Contains(Paths(), path) {
			return fmt.Errorf("--path: want one of %s, got %q", strings.Join(Paths(), ", "), path)
		}
	}
	if _, err := p.assertions(rows); err != nil {
		return err
	}
	return p.check(rows)
}

// check asks each limiter whether it takes the plan.
func (p Bench) check(rows []target.Entry) error {
	for _, e := range rows {
		if e.BrokenBy == target.Crash && !p.Private && !p.Yes {
			return fmt.Errorf("--yes: %s can leave a key without a TTL on your server: confirm with --yes, or name other limiters",
				e.Name)
		}
		if _, err := e.New(nil, p.Limit, limiter.WithPrefix(p.Prefix)); err != nil {
			return refused(e.Name, err)
		}
		if e.Service && p.AutoPipeline {
			return fmt.Errorf("--autopipeline: %s is asked over HTTP, without Redis", e.Name)
		}
		if e.Unit && p.Cost > 1 {
			return errUnit(e)
		}
		if room := e.Rule.Capacity(p.Limit); p.Cost > room {
			return fmt.Errorf("--cost: %d is more than %s ever allows at once (%d)", p.Cost, e.Name, room)
		} else if room > maxTaken/int64(p.Keys) {
			return fmt.Errorf("--keys: of %d keys %s allows %d events each, more than the %d in all that a bench takes beforehand",
				p.Keys, e.Name, room, maxTaken)
		}
	}
	return nil
}

// Paths lists what a limiter can be made to answer.
func Paths() []string {
	return []string{string(fleet.Allowed), string(fleet.Denied), string(fleet.Mixed)}
}

func (p Bench) rows(catalogue []target.Entry) ([]target.Entry, error) {
	return perTime(catalogue, p.Limiters)
}

// perTime are the limiters of those names, or all of how many per time if there are none: what it costs to tell how many
// hold at once is nothing to compare with that, nor is what is told from memory.
func perTime(catalogue []target.Entry, names []string) ([]target.Entry, error) {
	rows, err := named(catalogue, names)
	if len(names) == 0 {
		rows = slices.DeleteFunc(slices.Clone(rows), func(e target.Entry) bool { return e.Rule.AtOnce || e.Rule.Recalls })
	}
	return rows, err
}

func (p Bench) paths() []string {
	if len(p.Paths) == 0 {
		return []string{string(fleet.Allowed), string(fleet.Denied)}
	}
	return p.Paths
}

func (p Bench) duration() time.Duration {
	switch {
	case p.Duration > 0:
		return p.Duration
	case len(p.Limiters) == 0:
		return allDuration
	}
	return ownDuration
}

func (p Bench) round() time.Duration { return p.duration() / time.Duration(p.Rounds) }

func (p Bench) warmup() time.Duration {
	if p.Warmup > 0 {
		return p.Warmup
	}
	return min(max(p.round()/5, leastWarmup), time.Second)
}

// every is the time between two requests of one caller in an open loop. A pipeline is due when its first request is.
func (p Bench) every() time.Duration {
	if p.Rate == 0 {
		return 0
	}
	return max(1, time.Duration(float64(time.Second)*float64(p.Procs*p.Clients*p.Pipeline)/p.Rate))
}

// Run runs the bench. One that an interrupt or an error ends returns what there is, marked partial, beside the error.
func (p Bench) Run(ctx context.Context, env Env) (*BenchResult, error) {
	if err := p.Validate(env.Catalogue); err != nil {
		return nil, err
	}
	srv, err := openServer(ctx, env, p.Conn, p.Private)
	if err != nil {
		return nil, err
	}
	if p.Seed == 0 {
		p.Seed = rand.Uint64()
	}
	ctx, stop := srv.whileItLives(ctx)
	defer stop()
	b := benching{Bench: p, env: env, srv: srv, loadBefore: loadAverage()}
	if err := b.lineUp(); err != nil {
		return nil, errors.Join(err, srv.close())
	}
	defer b.disband()
	start := time.Now()
	err = b.run(ctx)
	result := b.result()
	result.ElapsedUS = time.Since(start).Microseconds()
	result.Partial = err != nil || ctx.Err() != nil
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	b.disband() // it deletes what it wrote, and wants the server for it
	return result, errors.Join(err, srv.close())
}
