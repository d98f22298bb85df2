package experiment

// BenchResult is what a bench measured.
type BenchResult struct {
	Schema    string       `json:"schema"` // rlctl.bench/v1
	Env       Provenance   `json:"env"`
	Config    BenchConfig  `json:"config"`
	Results   []BenchRow   `json:"results"`
	Checks    []BenchCheck `json:"checks"`  // what --assert asked
	Partial   bool         `json:"partial"` // interrupted, or ended by an error
	ElapsedUS int64        `json:"elapsed_us"`
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

// BenchRow is one limiter on one path. Figures are medians over its rounds, null where not measured.
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
	BenchFigures
	// Spread holds, for each figure by its JSON name, the bounds of a 95 % confidence interval of its median.
	Spread map[string][2]float64 `json:"spread"`
	// FloorRatio is script_us as a multiple of the script that reads TIME and returns five integers.
	FloorRatio  *float64       `json:"floor_ratio"`
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
	Assert string `json:"assert"`
	Held   bool   `json:"held"`
	Reason string `json:"reason"` // the row and figure that broke it
}
