package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

// Mem is the plan of a measurement of memory: clients take their whole limit through a real limiter, and the server is
// asked what it keeps for them, at each limit in turn.
type Mem struct {
	Limiters []string // names in the catalogue; none means all that keep something in Redis
	Keys     int64    // clients a row, 1 to 1,000,000; fewer where their size would pass 512 MiB
	Limits   []int64  // events a window, ascending, each 1 to 100,000
	Window   time.Duration
	Million  bool // also fill a million clients of each atomic limiter that keeps no log, and of those that were named
	Seed     uint64
	Prefix   string
	Conn     target.Conn
	Private  bool // on a server of its own; Conn then only says how long to wait, if that is more than 20 s
	Yes      bool // what would be asked is answered
}

const (
	million   = 1_000_000
	maxKeys   = million
	maxLimit  = 100_000
	rowBytes  = 512 << 20 // what one row may take
	memTries  = 3         // of a row whose keys ended before they were measured
	patience  = 20 * time.Second
	agreement = 0.05 // how far two measures, or a projection and what came, may lie apart
)

// Validate returns an error that begins with the flag at fault, if one is.
func (p Mem) Validate(catalogue []target.Entry) error {
	rows, err := p.rows(catalogue)
	if err != nil {
		return err
	}
	switch {
	case p.Keys < 1 || p.Keys > maxKeys:
		return fmt.Errorf("--keys: want 1 to %d, got %d", maxKeys, p.Keys)
	case len(p.Limits) == 0:
		return errors.New("--limits: want at least one")
	case p.Million && !p.Private:
		return errors.New("--million: only on a server of its own")
	}
	for i, l := range p.Limits {
		switch {
		case l < 1 || l > maxLimit:
			return fmt.Errorf("--limits: want each 1 to %d, got %d", maxLimit, l)
		case i > 0 && l <= p.Limits[i-1]:
			return fmt.Errorf("--limits: want them ascending, got %d after %d", l, p.Limits[i-1])
		}
	}
	for _, e := range rows {
		if err := unconfirmed(e, p.Private || p.Yes); err != nil {
			return err
		}
		for _, l := range p.Limits {
			if _, err := e.New(nil, p.limit(l), limiter.WithPrefix(p.Prefix)); err != nil {
				return refused(e.Name, err)
			}
		}
	}
	return nil
}

func (p Mem) limit(events int64) limiter.Limit {
	return limiter.Limit{Events: events, Window: p.Window}
}

// nothingKept is the State of an entry that keeps nothing in Redis.
const nothingKept = "none"

// rows are the limiters to measure.
func (p Mem) rows(catalogue []target.Entry) ([]target.Entry, error) {
	rows, err := perTime(catalogue, p.Limiters)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(rows, func(e target.Entry) bool { return e.Rule.AtOnce }); i >= 0 {
		return nil, fmt.Errorf("%s holds what is held now, and not what was asked: its keys are not filled", rows[i].Name)
	}
	keepers := slices.DeleteFunc(slices.Clone(rows), func(e target.Entry) bool { return e.State == nothingKept })
	if len(p.Limiters) > 0 && len(keepers) < len(rows) {
		i := slices.IndexFunc(rows, func(e target.Entry) bool { return e.State == nothingKept })
		return nil, fmt.Errorf("%s keeps nothing in Redis", rows[i].Name)
	}
	return keepers, nil
}

// Run measures. A run that an interrupt or an error ends returns the rows there are, marked partial, beside the error.
func (p Mem) Run(ctx context.Context, env Env) (*MemResult, error) {
	if err := p.Validate(env.Catalogue); err != nil {
		return nil, err
	}
	rows, err := p.rows(env.Catalogue)
	if err != nil {
		return nil, err
	}
	if p.Private {
		p.Conn.Timeout = max(p.Conn.Timeout, patience) // a slow answer is no failure here: nothing is timed
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
	start := time.Now()
	m := mem{Mem: p, env: env, srv: srv, tables: srv.tables(ctx), result: p.result(env, srv)}
	m.result.Config.Quantum = m.tables.quantum
	err = m.all(ctx, rows)
	m.result.ElapsedUS = time.Since(start).Microseconds()
	m.result.conclude(err != nil || ctx.Err() != nil)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return m.result, errors.Join(err, srv.close())
}
