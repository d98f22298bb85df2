package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// mem is a Mem under way.
type mem struct {
	Mem
	env         Env
	srv         *server
	tables      tables
	result      *MemResult
	clients     int64 // that had a turn so far; each has only one
	done, total int64 // rows
}

// unmeasured is why a row could not be measured, though nothing failed.
type unmeasured string

func (u unmeasured) Error() string { return string(u) }

const errEnded = unmeasured("keys were missing when they were to be measured: a longer --window helps if they ended")

// client is the id of the n-th client. All have the same length.
func (m *mem) client(n string) string { return fmt.Sprintf("rlctl-%016x-%s", m.Seed, n) }

// newClients are n clients that were never asked for.
func (m *mem) newClients(n int64) []string {
	clients := make([]string, n)
	for i := range clients {
		m.clients++
		clients[i] = m.client(fmt.Sprintf("%08d", m.clients))
	}
	return clients
}

// all measures each limiter at each limit, and then a million clients of some.
func (m *mem) all(ctx context.Context, entries []target.Entry) error {
	small := entries[:0:0]
	m.result.Config.Rows = len(entries) * len(m.Limits)
	m.total = int64(m.result.Config.Rows)
	for _, e := range entries {
		g, err := m.grow(ctx, e)
		if err == nil {
			m.result.Limiters = append(m.result.Limiters, g.shape(e))
			err = m.limits(ctx, e, !g.grows())
		}
		if err = m.excuse(err, e.Name); err != nil {
			return err
		}
		if m.Million && !g.grows() && (e.Own() || len(m.Limiters) > 0) {
			small = append(small, e)
		}
	}
	m.result.Config.Rows += len(small)
	m.total += int64(len(small))
	for _, e := range small {
		if err := m.excuse(m.million(ctx, e), e.Name); err != nil {
			return err
		}
	}
	return nil
}

// excuse notes what could not be measured and goes on.
func (m *mem) excuse(err error, limiter string) error {
	var why unmeasured
	switch {
	case err == nil:
		return nil
	case errors.As(err, &why):
		m.result.Unmeasured = append(m.result.Unmeasured, limiter+": "+string(why))
		return nil
	}
	return fmt.Errorf("measure %s: %w", limiter, err)
}

// limits measures one limiter at each limit.
func (m *mem) limits(ctx context.Context, e target.Entry, whole bool) error {
	for _, limit := range m.Limits {
		row, err := m.again(ctx, e, limit, m.Keys, whole)
		if err != nil {
			return err
		}
		m.result.add(row)
	}
	return nil
}

// million fills a million clients at the largest limit and compares them with what the last row projected.
func (m *mem) million(ctx context.Context, e target.Entry) error {
	last := m.result.last(e.Name)
	if last == nil {
		return nil // it is known why
	}
	row, err := m.again(ctx, e, last.Limit, million, true)
	if err != nil {
		return err
	}
	m.result.Million = append(m.result.Million, MemMillion{
		Limiter: e.Name, Limit: row.Limit, Keys: row.Keys, Bytes: int64(*row.BytesPerKeyDelta*float64(row.Keys) + 0.5),
		Projected: m.projected(*last, row.Keys), NoTTL: row.NoTTL,
	}.compared())
	return nil
}

// again measures a row, and again if its keys ended meanwhile.
func (m *mem) again(ctx context.Context, e target.Entry, limit, keys int64, whole bool) (row MemRow, err error) {
	for range memTries {
		row, err = m.row(ctx, e, limit, keys, whole)
		if !errors.Is(err, errEnded) {
			break
		}
	}
	m.done++
	return row, err
}

// row fills clients and measures what is kept for them.
func (m *mem) row(ctx context.Context, e target.Entry, limit, keys int64, whole bool) (row MemRow, err error) {
	before, err := m.baseline(ctx)
	if err != nil {
		return row, err
	}
	f, err := m.open(e, m.limit(limit), whole)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, m.clear(f)) }()
	one, err := m.fill(ctx, f, 1, 0)
	if err != nil {
		return row, err
	}
	keys = fit(m.measured(e, limit, f, one), keys)
	seen, err := m.fill(ctx, f, keys-1, one.names)
	if err != nil {
		return row, err
	}
	row = m.measured(e, limit, f, seen)
	if !m.Private {
		return row, nil
	}
	if err := f.close(); err != nil {
		return row, err
	}
	after, err := m.srv.usedMemory(ctx)
	row.grewBy(after - before)
	return row, err
}

// baseline is what an empty private server uses.
func (m *mem) baseline(ctx context.Context) (int64, error) {
	if !m.Private {
		return 0, nil
	}
	if err := m.srv.empty(ctx); err != nil {
		return 0, err
	}
	return m.srv.usedMemory(ctx)
}

// fill lets further clients take their limit and looks at all. Each must have as many keys as the first one.
func (m *mem) fill(ctx context.Context, f *filling, further, namesEach int64) (sight, error) {
	var filled atomic.Int64
	err := f.fill(ctx, m.newClients(further), func() {
		if n := filled.Add(1); n%64 == 1 {
			m.env.Progress(m.done, m.total, fmt.Sprintf("%s at %d: %s of %s", f.name, f.capacity, report.Int(n), report.Int(further)))
		}
	})
	if err != nil {
		return sight{}, err
	}
	f.clients += further
	seen, err := f.look(ctx)
	if err == nil && (seen.names == 0 || namesEach > 0 && seen.names != namesEach*f.clients) {
		err = errEnded
	}
	return seen, err
}

// fit is how many clients like those of the row stay within a row's bytes, most at most.
func fit(row MemRow, most int64) int64 {
	return max(1, min(most, int64(rowBytes/row.bytes())))
}

// clear deletes what a row has left, however it ended.
func (m *mem) clear(f *filling) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // also after an interrupt
	defer cancel()
	if m.Private {
		return f.close() // and all goes before the next row, or with the server
	}
	if err := f.forget(ctx); err != nil {
		m.env.Note(fmt.Sprintf("some keys of the clients %s* are left to their TTL: %v", m.client(""), err))
	}
	return f.close()
}

// measured is the row of a filling that was looked at.
func (m *mem) measured(e target.Entry, limit int64, f *filling, seen sight) MemRow {
	each := func(n int64) float64 { return float64(n) / float64(f.clients) }
	row := MemRow{
		Limiter: e.Name, Limit: limit, EventsPerKey: f.capacity, RequestsPerKey: f.requests(), Keys: f.clients,
		NamesPerKey: seen.names / f.clients, NameBytes: each(seen.nameBytes), BytesPerKey: each(seen.usage),
		Encoding: seen.encoding(), NoTTL: seen.noTTL,
	}
	row.inner = m.tables.inner(row.Encoding, row.EventsPerKey, row.BytesPerKey) - object*each(seen.shared)
	row.TableBytesPerKey = m.beyond(row, f.clients)
	row.Million = m.projected(row, million)
	row.Billion = m.projected(row, 1000*million)
	return row
}

// beyond is what a client takes beyond its MEMORY USAGE where there are n of them.
func (m *mem) beyond(row MemRow, n int64) float64 {
	return row.inner + float64(row.NamesPerKey)*m.tables.perName(n*row.NamesPerKey)
}

// projected is what n clients would take, in bytes.
func (m *mem) projected(row MemRow, n int64) int64 {
	return int64(math.Round(float64(n) * (row.BytesPerKey + m.beyond(row, n))))
}
