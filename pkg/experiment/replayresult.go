package experiment

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/accesslog"
	"github.com/rlctl/rlctl/pkg/metrics"
	"github.com/rlctl/rlctl/pkg/model"
)

// ReplaySchema names the form of a ReplayResult.
const ReplaySchema = "rlctl.replay/v1"

// ReplayResult is what limits would have refused of the requests in a log.
type ReplayResult struct {
	Schema  string      `json:"schema"`  // rlctl.replay/v1
	Command string      `json:"command"` // without secrets
	Version string      `json:"version"` // of rlctl
	Log     ReplayLog   `json:"log"`
	Results []ReplayRow `json:"results"` // one a limiter and limit
	// Most are the clients that any of them refused most, the most refused first.
	Most      []ReplayClient `json:"most_refused"`
	ShowKeys  bool           `json:"show_keys"` // clients are named by their keys, not by digests of this run alone
	Over      ReplayOver     `json:"over_time"`
	Complete  bool           `json:"complete"` // there were requests and no line was left out, so that the answer is that of the whole log
	Partial   bool           `json:"partial"`  // interrupted, or ended by an error
	ElapsedUS int64          `json:"elapsed_us"`
}

// ReplayLog is how the log was read and what was in it.
type ReplayLog struct {
	Input     accesslog.Format `json:"input"`     // empty if the log has no lines to tell it
	Time      string           `json:"time"`      // field; empty in the combined format
	Unit      accesslog.Unit   `json:"time_unit"` // empty if no time is a number
	Key       string           `json:"key"`       // field
	Cost      string           `json:"cost_field"`
	Fixed     int64            `json:"cost"` // of each request if no field has it
	Sorted    bool             `json:"sorted"`
	Bytes     int64            `json:"bytes"`
	Lines     int64            `json:"lines"`
	Blank     int64            `json:"blank"` // lines, with the header of a CSV
	Broken    int64            `json:"broken"`
	Unsorted  int64            `json:"unsorted"`     // earlier than one before; left out unless all were sorted
	Reasons   []ReplayReason   `json:"reasons"`      // why lines are broken, the most frequent first
	Faults    []ReplayFault    `json:"first_broken"` // the first of all, and the first of each reason
	Requests  int64            `json:"requests"`     // that were decided on
	Clients   int64            `json:"clients"`
	FromUS    int64            `json:"from_us"` // of the first request, 0 if there is none
	ToUS      int64            `json:"to_us"`
	Precision int64            `json:"precision_us"` // 1, 1000 or 1000000: all times are whole multiples of it
}

// ReplayReason is a reason why lines are broken.
type ReplayReason struct {
	Reason string `json:"reason"`
	Lines  int64  `json:"lines"`
}

// ReplayFault is a broken line.
type ReplayFault struct {
	Line   int64  `json:"line"` // counted from 1
	Reason string `json:"reason"`
}

// ReplayRow is what one limiter with one limit would have done.
type ReplayRow struct {
	Limiter        string  `json:"limiter"`
	Limit          int64   `json:"limit"`
	WindowUS       int64   `json:"window_us"`
	Burst          int64   `json:"burst"` // of a bucket; 0: the limit
	Requests       int64   `json:"requests"`
	Refused        int64   `json:"refused"`
	RefusedShare   float64 `json:"refused_share"` // of all requests
	Never          int64   `json:"never"`         // of those refused, whose cost is above the capacity
	Untaken        int64   `json:"not_taken"`     // an error to the limiter, neither allowed nor refused: its cost is too high for a log
	Cost           int64   `json:"cost"`          // events asked for
	RefusedCost    int64   `json:"refused_cost"`
	Clients        int64   `json:"clients"`
	ClientsRefused int64   `json:"clients_refused"` // at least once
	ClientsShare   float64 `json:"clients_refused_share"`
	FirstUS        *int64  `json:"first_refused_us"` // null if none was
	WorstUS        *int64  `json:"worst_step_us"`    // where the step of over_time begins in which most were refused
	Worst          int64   `json:"worst_step_refused"`
}

// ReplayClient is one client.
type ReplayClient struct {
	Client   string  `json:"client"`
	Requests int64   `json:"requests"`
	Refused  []int64 `json:"refused"` // by each of the results
}

// ReplayOver is how many requests came, and how many were refused, in each step of time.
type ReplayOver struct {
	FromUS   int64     `json:"from_us"` // a whole multiple of the step
	StepUS   int64     `json:"step_us"` // 0 if there was no request
	Requests []int64   `json:"requests"`
	Refused  [][]int64 `json:"refused"` // by each of the results
}

// The most that a result holds.
const (
	mostFaults   = 5   // and the first of each reason
	mostReplayed = 240 // steps of time
)

func (p Replay) result(env Env, s accesslog.Spec, rules []replayRule) *ReplayResult {
	r := &ReplayResult{
		Schema: ReplaySchema, Command: env.Provenance.Command, Version: env.Provenance.Version, ShowKeys: p.ShowKeys,
		Log: ReplayLog{
			Input: s.Format, Time: s.Time, Unit: s.Unit, Key: s.Key, Cost: s.Cost, Fixed: s.Fixed, Sorted: p.Sort, Precision: 1_000_000,
			Reasons: []ReplayReason{}, Faults: []ReplayFault{},
		},
		Most: []ReplayClient{}, Over: ReplayOver{Requests: []int64{}, Refused: make([][]int64, len(rules))},
	}
	for i, rule := range rules {
		r.Over.Refused[i] = []int64{}
		row := ReplayRow{Limiter: rule.entry.Name, Limit: rule.limit.Events, WindowUS: rule.limit.Window.Microseconds()}
		if rule.entry.Rule.Memory == model.Level {
			row.Burst = rule.limit.Burst
		}
		r.Results = append(r.Results, row)
	}
	return r
}

// fault counts a broken line.
func (l *ReplayLog) fault(f accesslog.Fault) {
	l.Broken++
	i := slices.IndexFunc(l.Reasons, func(r ReplayReason) bool { return r.Reason == f.Reason })
	if i < 0 || len(l.Faults) < mostFaults {
		l.Faults = append(l.Faults, ReplayFault{f.Line, f.Reason})
	}
	if i < 0 {
		i = len(l.Reasons)
		l.Reasons = append(l.Reasons, ReplayReason{Reason: f.Reason})
	}
	l.Reasons[i].Lines++
}

// request counts one that is decided on.
func (l *ReplayLog) request(r accesslog.Record) {
	if l.Requests == 0 {
		l.FromUS, l.ToUS = r.At, r.At
	}
	l.Requests++
	l.FromUS, l.ToUS = min(l.FromUS, r.At), max(l.ToUS, r.At)
	for l.Precision > 1 && r.At%l.Precision != 0 {
		l.Precision /= 1000
	}
}

// sumUp adds up what the shards have.
func (r *replaying) sumUp() {
	asked, tallies := newTimeline(), newTallies(len(r.rules))
	refused := map[string]*replayClient{}
	for _, s := range r.shards {
		r.result.Log.Clients += s.all()
		asked.plus(s.asked)
		for i := range tallies {
			tallies[i].plus(s.tallies[i])
		}
		for key, c := range s.clients {
			if c.refused != nil {
				refused[key] = c
			}
		}
	}
	r.result.overTime(asked, tallies)
	for i := range r.result.Results {
		r.result.Results[i].sum(tallies[i], r.result.Log, refused, i)
	}
	r.result.Most = r.most(refused)
}

func (t *replayTally) plus(other replayTally) {
	if t.refused == 0 || other.refused > 0 && other.first < t.first {
		t.first = other.first
	}
	t.refused, t.never, t.untaken = t.refused+other.refused, t.never+other.never, t.untaken+other.untaken
	t.cost, t.refusedCost = plus(t.cost, other.cost), plus(t.refusedCost, other.refusedCost)
	t.over.plus(other.over)
}

// overTime chooses the steps and fills them in.
func (r *ReplayResult) overTime(asked timeline, tallies []replayTally) {
	if len(asked.counts) == 0 {
		return
	}
	step := asked.round(mostReplayed)
	first := asked.first * asked.step / step
	last := (asked.first + int64(len(asked.counts)) - 1) * asked.step / step
	r.Over.FromUS, r.Over.StepUS = first*step, step
	r.Over.Requests = asked.within(step, first, last)
	for i, t := range tallies {
		r.Over.Refused[i] = t.over.within(step, first, last)
		row := &r.Results[i]
		for n, refused := range r.Over.Refused[i] {
			if refused > row.Worst {
				row.Worst, row.WorstUS = refused, new((first+int64(n))*step)
			}
		}
	}
}

func (row *ReplayRow) sum(t replayTally, log ReplayLog, refused map[string]*replayClient, rule int) {
	row.Requests, row.Clients = log.Requests, log.Clients
	row.Refused, row.Never, row.Untaken, row.Cost, row.RefusedCost = t.refused, t.never, t.untaken, t.cost, t.refusedCost
	if t.refused > 0 {
		row.FirstUS = new(t.first)
	}
	for _, c := range refused {
		if c.refused[rule] > 0 {
			row.ClientsRefused++
		}
	}
	row.RefusedShare, row.ClientsShare = shareOf(row.Refused, row.Requests), shareOf(row.ClientsRefused, row.Clients)
}

func shareOf(part, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}

// most are the clients that each rule refused most, so many of each.
func (r *replaying) most(refused map[string]*replayClient) []ReplayClient {
	keys := slices.Sorted(maps.Keys(refused)) // so that of equals the same come each time
	chosen := map[string]bool{}
	for i := range r.rules {
		slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(refused[b].refused[i], refused[a].refused[i]) })
		for _, key := range keys[:min(r.Top, len(keys))] {
			if refused[key].refused[i] > 0 {
				chosen[key] = true
			}
		}
	}
	named := slices.Sorted(maps.Keys(chosen))
	slices.SortStableFunc(named, func(a, b string) int {
		return cmp.Or(-slices.Compare(descending(refused[a].refused), descending(refused[b].refused)),
			cmp.Compare(refused[b].requests, refused[a].requests))
	})
	redact := metrics.NewRedactor().Redact
	all := []ReplayClient{}
	for _, key := range named {
		c := ReplayClient{Client: key, Requests: refused[key].requests, Refused: refused[key].refused}
		if !r.ShowKeys {
			c.Client = redact(key)
		}
		all = append(all, c)
	}
	return all
}

func descending(counts []int64) []int64 {
	counts = slices.Clone(counts)
	slices.Sort(counts)
	slices.Reverse(counts)
	return counts
}

// conclude tells whether the answer is that of the whole log.
func (r *ReplayResult) conclude(partial bool) {
	r.Partial = partial
	r.Complete = !partial && r.leftOut() == 0 && r.Log.Requests > 0
	slices.SortStableFunc(r.Log.Reasons, func(a, b ReplayReason) int { return cmp.Compare(b.Lines, a.Lines) })
}

// leftOut is how many lines were not decided on that may have been requests.
func (r *ReplayResult) leftOut() int64 {
	if r.Log.Sorted {
		return r.Log.Broken
	}
	return r.Log.Broken + r.Log.Unsorted
}

func utcMicro(us int64) time.Time { return time.UnixMicro(us).UTC() }
