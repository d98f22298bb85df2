package experiment

import (
	"fmt"
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
)

// RaceSchema names the form of a RaceResult.
const RaceSchema = "rlctl.race/v1"

// RaceResult is what a race came to.
type RaceResult struct {
	Schema            string         `json:"schema"` // rlctl.race/v1
	Env               Provenance     `json:"env"`
	Limit             int64          `json:"limit"`
	WindowUS          int64          `json:"window_us"`
	Burst             int64          `json:"burst"` // capacity of the buckets
	Cost              int64          `json:"cost"`
	Procs             int            `json:"procs"`
	Clients           int            `json:"clients"`
	AttemptsPerClient int64          `json:"attempts_per_client"`
	GoroutinesOnly    bool           `json:"goroutines_only"`
	RTTUS             int64          `json:"rtt_us"`   // laid between the processes and the server
	Failover          bool           `json:"failover"` // in each round the master of the key died
	LagUS             int64          `json:"lag_us"`   // for which its replica had heard nothing
	Seed              string         `json:"seed"`
	Redis             Server         `json:"redis"`
	Planned           int            `json:"planned"` // limiters; fewer results are those of a partial race
	Results           []RaceRow      `json:"results"`
	Verdict           replay.Verdict `json:"verdict"`
	Partial           bool           `json:"partial"` // interrupted, or ended by an error
	ElapsedUS         int64          `json:"elapsed_us"`
}

// RaceRow is one limiter's part. Counts are sums over its rounds.
type RaceRow struct {
	Limiter  string          `json:"limiter"`
	Atomic   bool            `json:"atomic"`
	Twin     string          `json:"twin,omitempty"`
	Flaw     string          `json:"flaw,omitempty"`
	BrokenBy target.BrokenBy `json:"broken_by"`
	Counts
	Verdict  replay.Verdict `json:"verdict"`
	Reason   string         `json:"reason"`
	Expected bool           `json:"expected"` // it came out as this limiter must in a race
	Rounds   []RaceRound    `json:"rounds"`

	Headers *replay.Headers `json:"headers,omitempty"` // of a service, over all rounds
}

// RaceRound is one round, on a fresh key.
type RaceRound struct {
	Counts
	Verdict replay.Verdict `json:"verdict"`
	Reason  string         `json:"reason"`
	Deaths  []RaceDeath    `json:"deaths"`
	// Classes counts the calls that were not decided, by the class of their error.
	Classes map[limiter.Class]int64 `json:"classes"`

	Failover *RaceFailover `json:"failover,omitempty"`

	apart   bool // inconclusive only because no two callers met
	headers *replay.Headers
}

// RaceDeath is a worker that died during a round.
type RaceDeath struct {
	Proc  int    `json:"proc"`
	Cause string `json:"cause"`
}

// Counts are of requests, but for allowed, allowance, overshoot and undershoot, which are of events.
type Counts struct {
	Attempts   int64 `json:"attempts"`
	Allowed    int64 `json:"allowed"`
	Allowance  int64 `json:"allowance"`
	Overshoot  int64 `json:"overshoot"`
	Undershoot int64 `json:"undershoot"`
	Denied     int64 `json:"denied"`
	Errors     int64 `json:"errors"`
	Unknown    int64 `json:"unknown"`
	Replayed   int64 `json:"replayed"`           // decisions compared with the rule's; 0 where only a bound is checked
	Recalled   int64 `json:"recalled,omitempty"` // refusals from memory that agree with the rule
	Retries    int64 `json:"retries"`
	ElapsedUS  int64 `json:"elapsed_us"`
	P50US      int64 `json:"p50_us"` // of a call's latency, over all rounds the worst
	P99US      int64 `json:"p99_us"`
}

func (c *Counts) add(o Counts) {
	c.Attempts += o.Attempts
	c.Allowed += o.Allowed
	c.Allowance += o.Allowance
	c.Overshoot += o.Overshoot
	c.Undershoot += o.Undershoot
	c.Denied += o.Denied
	c.Errors += o.Errors
	c.Unknown += o.Unknown
	c.Replayed += o.Replayed
	c.Recalled += o.Recalled
	c.Retries += o.Retries
	c.ElapsedUS += o.ElapsedUS
	c.P50US = max(c.P50US, o.P50US)
	c.P99US = max(c.P99US, o.P99US)
}

func (p Race) result(env Env, s *server) *RaceResult {
	return &RaceResult{
		Schema: RaceSchema, Env: env.Provenance.madeOn(s.Server), Limit: p.Limit.Events, WindowUS: p.Limit.Window.Microseconds(), Burst: p.Limit.Capacity(),
		Cost: p.Cost, Procs: p.Procs, Clients: p.Clients, AttemptsPerClient: p.attempts(), GoroutinesOnly: p.GoroutinesOnly,
		RTTUS: p.RTT.Microseconds(), Failover: p.Failover, LagUS: p.Lag.Microseconds(),
		Seed: fmt.Sprintf("%x", p.Seed), Redis: s.Server, Results: []RaceRow{},
	}
}

func counts(j replay.Judgement, got fleet.Round, elapsed time.Duration) Counts {
	return Counts{
		Attempts: j.Attempts, Allowed: j.Allowed, Allowance: j.Allowance, Overshoot: j.Overshoot, Undershoot: j.Undershoot,
		Denied: j.Denied, Errors: j.Failed, Unknown: j.Unknown, Replayed: j.Replayed, Recalled: j.Recalled, Retries: got.Summary.Retries,
		ElapsedUS: elapsed.Microseconds(),
		P50US:     got.Summary.Latency.Quantile(0.5).Microseconds(), P99US: got.Summary.Latency.Quantile(0.99).Microseconds(),
	}
}

func deaths(got fleet.Round) []RaceDeath {
	out := []RaceDeath{}
	for _, d := range got.Deaths {
		out = append(out, RaceDeath{Proc: d.Proc, Cause: d.Cause})
	}
	return out
}

func classes(ops []history.Op) map[limiter.Class]int64 {
	out := map[limiter.Class]int64{}
	for i := range ops {
		if ops[i].Outcome != history.Decided {
			out[ops[i].Class]++
		}
	}
	return out
}

// asExpected tells whether the row came out as its limiter must in a race: what a race breaks must go over, all else
// must hold. Callers' clocks may go either way. They are one clock here, but it is read before the request travels, and
// a request that waits longer than others to be served arrives with a time of the past: at a fast refill that is skew
// enough.
func (row RaceRow) asExpected() bool {
	over := row.Verdict == replay.Broken && row.Overshoot > 0
	switch row.BrokenBy {
	case target.Race:
		return over
	case target.Skew:
		return over || row.Verdict == replay.Held
	}
	return row.Verdict == replay.Held
}

// combined is broken if any round broke, and held if one held and no other was inconclusive but for callers that never
// met. The reason is that of the first round that counts.
func combined(rounds []RaceRound) (replay.Verdict, string) {
	for _, counts := range []func(RaceRound) bool{
		func(r RaceRound) bool { return r.Verdict == replay.Broken },
		func(r RaceRound) bool { return r.Verdict == replay.Inconclusive && !r.apart },
		func(r RaceRound) bool { return r.Verdict == replay.Held },
	} {
		if i := slices.IndexFunc(rounds, counts); i >= 0 {
			return rounds[i].Verdict, rounds[i].Reason
		}
	}
	return replay.Inconclusive, rounds[0].Reason
}

// overall is held if every limiter did what it must, broken if one broke that must not, else inconclusive.
func overall(rows []RaceRow) replay.Verdict {
	verdict := replay.Held
	for _, r := range rows {
		switch {
		case r.Expected:
		case r.Verdict == replay.Broken:
			return replay.Broken
		default:
			verdict = replay.Inconclusive
		}
	}
	if len(rows) == 0 {
		return replay.Inconclusive
	}
	return verdict
}
