package experiment

import (
	"slices"

	"github.com/rlctl/rlctl/pkg/certificate"
	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
)

// ProveSchema names the form of a ProveResult.
const ProveSchema = "rlctl.prove/v1"

// ProveResult is what an exploration or a stress run came to.
type ProveResult struct {
	Schema     string         `json:"schema"` // rlctl.prove/v1
	Env        Provenance     `json:"env"`
	Limit      int64          `json:"limit"`
	WindowUS   int64          `json:"window_us"`
	Burst      int64          `json:"burst"` // capacity of the buckets
	Clients    int            `json:"clients"`
	Calls      int            `json:"calls"`       // of cost 1 that each client makes
	Crash      bool           `json:"crash"`       // at most one client dies
	Explain    bool           `json:"explain"`     // schedules are shown step by step
	Procs      int            `json:"procs"`       // of a stress run, as what follows
	Keys       int            `json:"keys"`        // that were asked
	DurationUS int64          `json:"duration_us"` // of each limiter
	TimeoutUS  int64          `json:"timeout_us"`  // of each call
	Seed       string         `json:"seed"`
	Redis      Server         `json:"redis"`
	Results    []ProveRow     `json:"results"`
	Verdict    replay.Verdict `json:"verdict"`
	Partial    bool           `json:"partial"` // interrupted, or ended by an error
	ElapsedUS  int64          `json:"elapsed_us"`
}

// ProveRow is one limiter from one start, or under stress.
type ProveRow struct {
	Limiter   string          `json:"limiter"`
	Atomic    bool            `json:"atomic"`
	Twin      string          `json:"twin,omitempty"`
	BrokenBy  target.BrokenBy `json:"broken_by"`
	Mode      string          `json:"mode"` // explore or stress
	Clients   int             `json:"clients"`
	Calls     int             `json:"calls"`
	Start     explore.Start   `json:"start"`
	Skew      bool            `json:"skew"`      // client i's clock is i refills of one event ahead, or i leases
	Release   bool            `json:"release"`   // each call is followed by one that gives back what it took, or did not get
	Slots     int64           `json:"slots"`     // events that were left when they began
	Orders    int64           `json:"orders"`    // complete schedules
	States    int64           `json:"states"`    // that were told apart
	Crashes   int64           `json:"crashes"`   // states in which a client died
	Violating int64           `json:"violating"` // schedules that break the rule
	Retries   int64           `json:"retries"`   // the most, in one schedule, that limiters sent again
	StressCounts
	Faults    []StressFault   `json:"faults"`
	LeftOut   []LeftOut       `json:"left_out,omitempty"` // faults that the limiter cannot meet
	Headers   *replay.Headers `json:"headers,omitempty"`  // of a service under stress, of all keys
	Verdict   replay.Verdict  `json:"verdict"`
	Reason    string          `json:"reason"`   // why it is broken or inconclusive; of a stress run that held, how it was judged
	Expected  bool            `json:"expected"` // it came out as this limiter must
	proof     *certificate.Certificate
	First     ProveSchedule `json:"first"` // the simplest that breaks the rule, or else one of the longest that keep it
	Found     []ProveFound  `json:"found"` // the simplest schedule of each kind of violation, the simplest first
	ElapsedUS int64         `json:"elapsed_us"`
}

// ProveSchedule is one order of commands and what came of it.
type ProveSchedule struct {
	Schedule string       `json:"schedule"` // its id, with which it runs again
	Order    string       `json:"order"`    // the clients in the order of their steps: ABAB; in lower case where one dies
	Kind     explore.Kind `json:"kind"`     // of its violation; empty if it kept the rule
	Split    bool         `json:"split"`    // it takes a pipeline apart
	Gap      *ProveGap    `json:"gap"`      // null if no client acted on what was no longer true
	Before   []ProveKey   `json:"before"`
	Steps    []ProveStep  `json:"steps"`
}

// ProveFound is one way in which schedules break the rule.
type ProveFound struct {
	Kind     explore.Kind `json:"kind"`
	Schedule string       `json:"schedule"` // the id of the simplest that does
	Reason   string       `json:"reason"`
}

// ProveGap is the stretch in which what a client had read was no longer true. Steps count from 1.
type ProveGap struct {
	Client  string `json:"client"`
	Read    int    `json:"read"`
	Changed int    `json:"changed"`
	Used    int    `json:"used"`
}

// ProveStep is one command.
type ProveStep struct {
	Step     int        `json:"step"`
	Client   string     `json:"client"`
	Commands [][]string `json:"commands"` // words of each; several ran as a MULTI block, none asked Redis nothing
	Reply    *string    `json:"reply"`    // null if Redis was not asked
	State    []ProveKey `json:"state"`    // what Redis then held
	Died     bool       `json:"died"`     // the client, before the reply came
	Allowed  *bool      `json:"allowed"`  // what the client was told; null if its call went on
	Over     bool       `json:"over"`     // more were then admitted than there was room for
}

// ProveKey is one key as a person reads it.
type ProveKey struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value string `json:"value"`
	TTL   bool   `json:"ttl"`
}

func (p Prove) result(env Env, version string) *ProveResult {
	at := Server{Version: version, Private: true, At: "unix socket"}
	return &ProveResult{
		Schema: ProveSchema, Env: env.Provenance.madeOn(at), Limit: p.Limit.Events, WindowUS: p.Limit.Window.Microseconds(),
		Burst: p.Limit.Capacity(), Clients: p.Clients, Calls: p.Calls, Crash: p.Crash, Explain: p.Explain || p.Schedule != "",
		Redis: at, Results: []ProveRow{},
	}
}

func (p scheduled) row(found explore.Result) ProveRow {
	return ProveRow{
		Limiter: p.Entry.Name, Atomic: p.Entry.Atomic(), Twin: p.Entry.Twin, BrokenBy: p.Entry.BrokenBy, Mode: "explore",
		Clients: p.Clients, Calls: p.Calls, Start: p.Start, Skew: p.Skew, Release: p.Release, Slots: found.Slots, Orders: found.Orders,
		States: found.States, Crashes: found.Crashes, Violating: found.Violating, Retries: found.Retries, Faults: []StressFault{}, Verdict: replay.Held,
		First: p.schedule(found.Shown, found.Slots), Found: p.found(found.Found),
	}
}

func (p scheduled) found(all []explore.Found) []ProveFound {
	out := []ProveFound{}
	for _, f := range all {
		out = append(out, ProveFound{Kind: f.Kind, Schedule: p.id(f.Order), Reason: f.Reason})
	}
	return out
}

func (p scheduled) schedule(s explore.Schedule, slots int64) ProveSchedule {
	out := ProveSchedule{
		Schedule: p.id(s.Order), Order: s.Order, Split: s.Split(), Before: proveKeys(s.Before), Steps: []ProveStep{},
	}
	if s.Violation != nil {
		out.Kind = s.Violation.Kind
	}
	if g, ok := s.Gap(); ok {
		out.Gap = &ProveGap{Client: explore.Name(g.Client), Read: g.Read + 1, Changed: g.Changed + 1, Used: g.Used + 1}
	}
	for i, step := range s.Steps {
		row := ProveStep{
			Step: i + 1, Client: explore.Name(step.Client), Commands: slices.Clone(step.Args), State: proveKeys(step.After),
			Died: step.Died,
		}
		if row.Commands == nil {
			row.Commands = [][]string{}
		} else {
			row.Reply = new(step.Reply.String())
		}
		if step.Ended >= 0 {
			call := s.Calls[step.Ended]
			row.Allowed = new(call.Decision.Allowed)
			switch {
			case !*row.Allowed:
			case call.Release:
				slots++
			default:
				slots--
				row.Over = slots < 0
			}
		}
		out.Steps = append(out.Steps, row)
	}
	return out
}

func proveKeys(keys []explore.Key) []ProveKey {
	out := make([]ProveKey, len(keys))
	for i, k := range keys {
		out[i] = ProveKey{Key: k.Name, Type: k.Type, Value: k.Value, TTL: k.TTL}
	}
	return out
}

// overall is held if every limiter did what it must, broken if one broke that must not, else inconclusive.
func (r *ProveResult) overall() replay.Verdict {
	verdict := replay.Held
	for _, row := range r.Results {
		switch {
		case row.Expected:
		case row.Verdict == replay.Broken:
			return replay.Broken
		default:
			verdict = replay.Inconclusive
		}
	}
	if r.Partial || len(r.Results) == 0 {
		return replay.Inconclusive
	}
	return verdict
}
