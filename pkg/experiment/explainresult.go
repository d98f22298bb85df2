package experiment

import (
	"slices"

	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
)

// ExplainResult is what an explanation came to.
type ExplainResult struct {
	Schema    string         `json:"schema"`
	Limit     int64          `json:"limit"`
	WindowUS  int64          `json:"window_us"`
	Burst     int64          `json:"burst"` // capacity of the buckets
	Redis     Server         `json:"redis"`
	Results   []ExplainRow   `json:"results"`
	Verdict   replay.Verdict `json:"verdict"`
	Partial   bool           `json:"partial"` // interrupted, or ended by an error
	ElapsedUS int64          `json:"elapsed_us"`
}

// ExplainRow is one limiter's part.
type ExplainRow struct {
	Limiter   string          `json:"limiter"`
	Atomic    bool            `json:"atomic"`
	Twin      string          `json:"twin,omitempty"`
	BrokenBy  target.BrokenBy `json:"broken_by"`
	Mode      string          `json:"mode"` // explore
	Clients   int             `json:"clients"`
	Calls     int             `json:"calls"`  // that each makes, of cost 1
	Slots     int64           `json:"slots"`  // left when they began
	Orders    int64           `json:"orders"` // complete schedules, each run
	Violating int64           `json:"violating"`
	Verdict   replay.Verdict  `json:"verdict"`
	Reason    string          `json:"reason"`   // why it is inconclusive
	Expected  bool            `json:"expected"` // it came out as this limiter must
	Shown     ExplainSchedule `json:"shown"`    // the simplest that breaks the rule, or else one that shows how it is kept
	ElapsedUS int64           `json:"elapsed_us"`
}

// ExplainSchedule is one order of commands and what came of it.
type ExplainSchedule struct {
	Schedule string        `json:"schedule"` // the clients in the order of their steps: ABAB
	Kind     explore.Kind  `json:"kind"`     // of its violation; empty if it kept the rule
	Reason   string        `json:"reason"`
	Split    bool          `json:"split"` // it takes a pipeline apart
	Gap      *ExplainGap   `json:"gap"`   // null if no client acted on what was no longer true
	Before   []ExplainKey  `json:"before"`
	Steps    []ExplainStep `json:"steps"`
}

// ExplainGap is the stretch in which what a client had read was no longer true. Steps count from 1.
type ExplainGap struct {
	Client  string `json:"client"`
	Read    int    `json:"read"`
	Changed int    `json:"changed"`
	Used    int    `json:"used"`
}

// ExplainStep is one command.
type ExplainStep struct {
	Step     int          `json:"step"`
	Client   string       `json:"client"`
	Commands [][]string   `json:"commands"` // words of each; several ran as a MULTI block, none asked Redis nothing
	Reply    *string      `json:"reply"`    // null if Redis was not asked
	State    []ExplainKey `json:"state"`    // what Redis then held
	Allowed  *bool        `json:"allowed"`  // what the client was told; null if its call went on
	Over     bool         `json:"over"`     // more were then admitted than there was room for
}

// ExplainKey is one key as a person reads it.
type ExplainKey struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value string `json:"value"`
	TTL   bool   `json:"ttl"`
}

func (p Explain) result(version string) *ExplainResult {
	return &ExplainResult{
		Schema: "rlctl.explain/v1", Limit: p.Limit.Events, WindowUS: p.Limit.Window.Microseconds(), Burst: p.Limit.Capacity(),
		Redis: Server{Version: version, Private: true}, Results: []ExplainRow{},
	}
}

func explainSchedule(s explore.Schedule, slots int64) ExplainSchedule {
	out := ExplainSchedule{Schedule: s.ID, Split: s.Split(), Before: explainKeys(s.Before), Steps: []ExplainStep{}}
	if v := s.Violation; v != nil {
		out.Kind, out.Reason = v.Kind, v.Reason
	}
	if g, ok := s.Gap(); ok {
		out.Gap = &ExplainGap{Client: explore.Name(g.Client), Read: g.Read + 1, Changed: g.Changed + 1, Used: g.Used + 1}
	}
	for i, step := range s.Steps {
		row := ExplainStep{
			Step: i + 1, Client: explore.Name(step.Client), Commands: slices.Clone(step.Args), State: explainKeys(step.After),
		}
		if row.Commands == nil {
			row.Commands = [][]string{}
		} else {
			row.Reply = new(step.Reply.String())
		}
		if step.Ended {
			row.Allowed = new(s.Calls[step.Client].Decision.Allowed)
			if *row.Allowed {
				slots--
			}
			row.Over = *row.Allowed && slots < 0
		}
		out.Steps = append(out.Steps, row)
	}
	return out
}

func explainKeys(keys []explore.Key) []ExplainKey {
	out := make([]ExplainKey, len(keys))
	for i, k := range keys {
		out[i] = ExplainKey{Key: k.Name, Type: k.Type, Value: k.Value, TTL: k.TTL}
	}
	return out
}

// overall is held if every limiter did what it must, broken if one broke that must not, else inconclusive.
func (r *ExplainResult) overall() replay.Verdict {
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
