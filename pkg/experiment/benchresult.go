package experiment

import (
	"fmt"

	"github.com/rlctl/rlctl/pkg/load"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
)

// BenchSchema names the form of a BenchResult.
const BenchSchema = "rlctl.bench/v1"

// BenchResult is what a bench measured.
type BenchResult struct {
	Schema  string       `json:"schema"` // rlctl.bench/v1
	Env     Provenance   `json:"env"`
	Config  BenchConfig  `json:"config"`
	Results []BenchRow   `json:"results"`
	Checks  []BenchCheck `json:"checks"`  // what --assert asked
	Partial bool         `json:"partial"` // interrupted, or ended by an error
	// LoadBefore is how many tasks ran or waited for a core over the minute before, null where the machine does not tell.
	LoadBefore *float64 `json:"load_before"`
	ElapsedUS  int64    `json:"elapsed_us"`
}

// BenchConfig is the load that all rows were put under.
type BenchConfig struct {
	Limit        int64   `json:"limit"`
	WindowUS     int64   `json:"window_us"`
	Burst        int64   `json:"burst"`
	Cost         int64   `json:"cost"`
	Procs        int     `json:"procs"`
	Clients      int     `json:"clients"`      // concurrent callers in each process
	Pipeline     int     `json:"pipeline"`     // requests a round trip; 1 is none
	AutoPipeline bool    `json:"autopipeline"` // the client library's own
	Rate         float64 `json:"rate"`         // requests a second of all callers; 0 is a closed loop
	Keys         int     `json:"keys"`
	Zipf         float64 `json:"zipf"` // exponent; 0 asks all keys alike
	Rounds       int     `json:"rounds"`
	DurationUS   int64   `json:"duration_us"` // measured time of a row, over all rounds
	WarmupUS     int64   `json:"warmup_us"`   // of each round, discarded
	Seed         string  `json:"seed"`
}

// BenchRow is one limiter on one path. Figures are medians over its rounds, but P999, Max and PingP99, which are those of
// all rounds together; null where not measured.
type BenchRow struct {
	Limiter  string  `json:"limiter"` // a name in the catalogue, or a floor: "(empty script)"
	Path     string  `json:"path"`    // allowed, denied or mixed
	Clients  int     `json:"clients"`
	Procs    int     `json:"procs"`
	Pipeline int     `json:"pipeline"`
	Rate     float64 `json:"rate"`
	Rounds   int     `json:"rounds"`
	Ops      int64   `json:"ops"`    // measured calls of all rounds
	Errors   int64   `json:"errors"` // of them, failed or unknown
	// Unmeasured is why there are no figures: the answers were not those of the path, or the limiter cannot be asked so.
	Unmeasured string `json:"unmeasured"`
	BenchFigures
	// Spread holds, for each figure by its JSON name, the bounds of a 95 % confidence interval of its median.
	Spread map[string][2]float64 `json:"spread"`
	// FloorRatio and EmptyRatio are a script's script_us as a multiple of that of two floors: the script that reads TIME
	// and returns five integers, and the one that does nothing. IncrRatio is cpu_us as a multiple of that of one INCR.
	FloorRatio  *float64       `json:"floor_ratio"`
	EmptyRatio  *float64       `json:"empty_ratio"`
	IncrRatio   *float64       `json:"incr_ratio"`
	ClientBound bool           `json:"client_bound"` // the client, not the server, was the limit
	Samples     []BenchFigures `json:"samples"`      // one a round
	// Response and Service are the merged histograms of all rounds, compressed as HdrHistogram's log format does.
	Response string `json:"response_hdr"`
	Service  string `json:"service_hdr"`
}

// BenchFigures are what is measured of a round, and as medians of a row. Response time counts from when a request was
// due, service time from when it was sent; in a closed loop they are the same.
type BenchFigures struct {
	OpsPerSec      *float64 `json:"ops_per_sec"`
	P50            *float64 `json:"p50_us"` // response
	P90            *float64 `json:"p90_us"`
	P99            *float64 `json:"p99_us"`
	P999           *float64 `json:"p999_us"`
	Max            *float64 `json:"max_us"`
	ServiceP50     *float64 `json:"service_p50_us"`
	ServiceP99     *float64 `json:"service_p99_us"`
	LagP99         *float64 `json:"lag_p99_us"`       // how late an idle caller sent; open loop only
	Script         *float64 `json:"script_us"`        // a call, from commandstats
	CPU            *float64 `json:"cpu_us"`           // of the server's main thread, a call
	Commands       *float64 `json:"commands"`         // redis.call()s of the script, or commands of a racy client, a call
	Allocs         *float64 `json:"allocs"`           // of the client, a call
	WireBytes      *float64 `json:"wire_bytes"`       // in and out, a call
	ClientCPUShare *float64 `json:"client_cpu_share"` // of one core; 2 is two cores
	ServerCPUShare *float64 `json:"server_cpu_share"`
	PingP99        *float64 `json:"ping_p99_us"` // what an unrelated client's PING took meanwhile
}

// BenchCheck is one --assert and what came of it, over every row that it names.
type BenchCheck struct {
	Assert  string         `json:"assert"`
	Verdict replay.Verdict `json:"verdict"` // inconclusive: a figure that it is about was not measured
	Reason  string         `json:"reason"`  // the row and figure that broke it, that is missing, or that is nearest to the bound
}

func (b *benching) result() *BenchResult {
	r := &BenchResult{
		Schema: BenchSchema, LoadBefore: b.loadBefore, Env: b.env.Provenance.madeOn(b.srv.Server), Results: []BenchRow{}, Checks: []BenchCheck{},
		Config: BenchConfig{
			Limit: b.Limit.Events, WindowUS: b.Limit.Window.Microseconds(), Burst: b.Limit.Capacity(), Cost: b.Cost,
			Procs: b.Procs, Clients: b.Clients, Pipeline: b.Pipeline, AutoPipeline: b.AutoPipeline, Rate: b.Rate, Keys: b.Keys,
			Zipf: b.Zipf, Rounds: b.Rounds, DurationUS: b.duration().Microseconds(), WarmupUS: b.warmup().Microseconds(),
			Seed: fmt.Sprintf("%x", b.Seed),
		},
	}
	scripted := map[string]bool{}
	for _, row := range b.rows {
		if len(row.samples) > 0 || row.refused != "" {
			r.Results = append(r.Results, b.row(row))
			scripted[row.Name] = scripted[row.Name] || row.scripted
		}
	}
	r.compare(func(row *BenchRow) bool { return scripted[row.Limiter] })
	for _, a := range b.asserted {
		r.Checks = append(r.Checks, a.check(r.Results))
	}
	return r
}

func (b *benching) row(t *benched) BenchRow {
	row := BenchRow{
		Limiter: t.Name, Path: string(t.path), Clients: b.Clients, Procs: b.Procs, Pipeline: b.Pipeline, Rate: b.Rate,
		Rounds: len(t.samples), Ops: t.sum.Calls(), Errors: t.sum.Failed + t.sum.Unknown, Unmeasured: t.refused,
		Samples: t.samples, Response: encoded(t.sum.Latency), Service: encoded(t.sum.Service),
	}
	if row.Samples == nil {
		row.Samples = []BenchFigures{}
	}
	row.BenchFigures, row.Spread = summarise(t.samples)
	row.rare(t)
	row.ClientBound = row.clientBound(b.env.Provenance.madeOn(b.srv.Server).Cores)
	return row
}

// rare sets the figures of which one round tells too little: they are those of all rounds together.
func (row *BenchRow) rare(t *benched) {
	if len(t.samples) == 0 {
		return
	}
	row.P999, row.Max, row.PingP99 = quantile(t.sum.Latency, 0.999), microseconds(t.sum.Latency.Max()), quantile(t.pings.Service, 0.99)
	for _, name := range []string{"p999_us", "max_us", "ping_p99_us"} {
		delete(row.Spread, name)
	}
}

// encoded is empty of no calls, and else what Latency.UnmarshalText reads.
func encoded(l load.Latency) string {
	text, err := l.MarshalText()
	if err != nil {
		panic(fmt.Sprintf("bench: %v", err)) // it was encoded in a worker before
	}
	return string(text)
}

// The client was the limit when the server's main thread had time to spare and the client had none, or when, in an open
// loop, it sent late by itself.
const (
	busy     = 0.9  // of what there is
	lateOpen = 1000 // µs
)

func (row *BenchRow) clientBound(cores int) bool {
	if row.LagP99 != nil && row.P50 != nil {
		return *row.LagP99 > max(lateOpen, *row.P50)
	}
	if row.ClientCPUShare == nil || row.ServerCPUShare == nil {
		return false
	}
	return *row.ServerCPUShare < busy && *row.ClientCPUShare+*row.ServerCPUShare >= busy*float64(cores)
}

// compare sets each row's price as a multiple of the floors'.
func (r *BenchResult) compare(scripted func(*BenchRow) bool) {
	for i := range r.Results {
		row := &r.Results[i]
		if scripted(row) {
			row.FloorRatio = multiple(row.Script, r.floor(target.FloorTime).Script)
			row.EmptyRatio = multiple(row.Script, r.floor(target.FloorEmpty).Script)
		}
		row.IncrRatio = multiple(row.CPU, r.floor(target.FloorIncr).CPU)
	}
}

func multiple(v, of *float64) *float64 {
	if v == nil || of == nil {
		return nil
	}
	return known(*v / *of)
}

// floor is the row of a floor, or one without figures.
func (r *BenchResult) floor(name string) *BenchRow {
	for i := range r.Results {
		if row := &r.Results[i]; row.Limiter == name {
			return row
		}
	}
	return &BenchRow{}
}
