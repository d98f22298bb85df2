package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rlctl/rlctl/pkg/target"
)

// mem is a Mem under way.
type mem struct {
	Mem
	env         Env
	srv         *server
	tables      tables
	result      *MemResult
	clients     int64 // that had a turn so far; each is asked for once
	done, total int64
}

// errEnded is a row whose keys were no longer there when they were to be measured.
var errEnded = errors.New("keys ended before they were measured: a longer --window helps")

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

// all measures each limiter, and then a million clients of some.
func (m *mem) all(ctx context.Context, rows []target.Entry) error {
	m.total = int64(len(rows) * len(m.Limits))
	for _, e := range rows {
		if err := m.one(ctx, e); err != nil {
			return fmt.Errorf("measure %s: %w", e.Name, err)
		}
	}
	return nil
}

// one measures one limiter: first how a key grows, then many at each limit.
func (m *mem) one(ctx context.Context, e target.Entry) error {
	m.env.Progress(m.done, m.total, e.Name)
	g, err := m.grow(ctx, e)
	if err != nil {
		return err
	}
	m.result.Limiters = append(m.result.Limiters, g.shape(e))
	for _, limit := range m.Limits {
		m.env.Progress(m.done, m.total, fmt.Sprintf("%s at %d", e.Name, limit))
		row, err := m.again(ctx, e, limit, m.Keys, !g.grows())
		if err != nil {
			return err
		}
		m.result.add(row)
		m.done++
	}
	return nil
}

// again measures a row, once more if its keys ended meanwhile.
func (m *mem) again(ctx context.Context, e target.Entry, limit, keys int64, whole bool) (row MemRow, err error) {
	for range memTries {
		row, err = m.row(ctx, e, limit, keys, whole)
		if !errors.Is(err, errEnded) {
			break
		}
	}
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
	seen, keys, err := m.fillAndLook(ctx, f, keys)
	if err != nil {
		return row, err
	}
	row = m.measured(e, limit, f, keys, seen)
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

// fillAndLook fills one client, sees what it takes, and then as many more as may be.
func (m *mem) fillAndLook(ctx context.Context, f *filling, keys int64) (sight, int64, error) {
	if err := f.fill(ctx, m.newClients(1)); err != nil {
		return sight{}, 0, err
	}
	one, err := f.look(ctx)
	if err != nil {
		return one, 0, err
	}
	if one.names == 0 {
		return one, 0, errEnded
	}
	keys = m.fit(one, keys)
	if err := f.fill(ctx, m.newClients(keys-1)); err != nil {
		return one, 0, err
	}
	seen, err := f.look(ctx)
	if err == nil && seen.names != one.names*keys {
		err = errEnded
	}
	return seen, keys, err
}

// fit is how many clients like the one seen stay within a row's bytes, keys at most.
func (m *mem) fit(one sight, keys int64) int64 {
	each := float64(one.usage) + float64(one.names)*m.tables.perName(2)
	return max(1, min(keys, int64(rowBytes/each)))
}

// clear deletes what a row has left, however it ended.
func (m *mem) clear(f *filling) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // also after an interrupt
	defer cancel()
	if m.Private {
		return errors.Join(f.close(), m.srv.empty(ctx))
	}
	if err := f.forget(ctx); err != nil {
		m.env.Note(fmt.Sprintf("some keys of client ids %s... are left to their TTL: %v", m.client(""), err))
	}
	return f.close()
}

func (m *mem) measured(e target.Entry, limit int64, f *filling, keys int64, seen sight) MemRow {
	each := func(n int64) float64 { return float64(n) / float64(keys) }
	row := MemRow{
		Limiter: e.Name, Limit: limit, EventsPerKey: f.capacity, RequestsPerKey: f.requests(), Keys: keys,
		NamesPerKey: seen.names / keys, NameBytes: each(seen.nameBytes), BytesPerKey: each(seen.usage),
		Encoding: seen.encoding(), NoTTL: seen.noTTL,
	}
	row.inner = m.tables.inner(row.Encoding, row.EventsPerKey, row.BytesPerKey) - object*each(seen.shared)
	row.TableBytesPerKey = m.beyond(row, keys)
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
