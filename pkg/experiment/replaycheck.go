package experiment

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
)

// ReplayCheckSchema names the form of a ReplayCheck.
const ReplayCheckSchema = "rlctl.replaycheck/v1"

// ReplayCheck holds what replay said of a made log against what limiters on a real Redis did whose clock was set to the time
// of each request.
type ReplayCheck struct {
	Schema    string           `json:"schema"` // rlctl.replaycheck/v1
	Env       Provenance       `json:"env"`
	Seed      uint64           `json:"seed"` // of the log
	Lines     int64            `json:"lines"`
	Requests  int64            `json:"requests"`
	Clients   int64            `json:"clients"`
	Broken    int64            `json:"broken"` // lines, as the log was made
	Unsorted  int64            `json:"unsorted"`
	Limit     int64            `json:"limit"`
	WindowUS  int64            `json:"window_us"`
	Burst     int64            `json:"burst"`
	Results   []ReplayCheckRow `json:"results"`
	Speeds    []ReplaySpeed    `json:"speeds"`
	Faults    []string         `json:"faults"`  // how the reading of the log differs from what was put into it
	Verdict   replay.Verdict   `json:"verdict"` // held if nothing differs, else broken
	ElapsedUS int64            `json:"elapsed_us"`
}

// ReplayCheckRow is one limiter.
type ReplayCheckRow struct {
	Limiter        string         `json:"limiter"`
	Refused        int64          `json:"refused"` // as replay said
	RefusedByRedis int64          `json:"refused_by_redis"`
	ClientsRefused int64          `json:"clients_refused"`
	ClientsByRedis int64          `json:"clients_refused_by_redis"`
	ClientsApart   int64          `json:"clients_apart"` // of those told of, with another number of refusals on Redis
	StepsApart     int64          `json:"steps_apart"`   // of time, likewise
	Verdict        replay.Verdict `json:"verdict"`
}

// ReplaySpeed is how fast one limit was replayed over the log in one format.
type ReplaySpeed struct {
	Input    string  `json:"input"`
	Limiter  string  `json:"limiter"`
	Rounds   int     `json:"rounds"`
	Bytes    int64   `json:"bytes"`
	Requests int64   `json:"requests"`
	Median   float64 `json:"requests_per_sec"` // median of the rounds
	Least    float64 `json:"least_requests_per_sec"`
	Most     float64 `json:"most_requests_per_sec"`
	CPU      float64 `json:"cpu_us_per_request"` // of all cores, median; it bears with a machine that is busy. 0: not measured
}

// Refusals are the requests that a limiter on a server refused: how many of each client, and at which µs.
type Refusals struct {
	Of map[string]int64
	At []int64
}

// Put is what was put into a log.
type Put struct {
	Seed                       uint64
	Requests, Unsorted, Broken int64
	Clients                    int64
}

// NewReplayCheck compares what replay said, by the keys of clients, with what servers refused, limiter by limiter.
func NewReplayCheck(made Provenance, at Server, put Put, said *ReplayResult, servers map[string]Refusals, speeds []ReplaySpeed, took time.Duration) *ReplayCheck {
	c := &ReplayCheck{
		Schema: ReplayCheckSchema, Env: made.madeOn(at), Seed: put.Seed, Lines: said.Log.Lines, Requests: put.Requests, Clients: put.Clients,
		Broken: put.Broken, Unsorted: put.Unsorted, Results: []ReplayCheckRow{}, Speeds: speeds, Faults: []string{}, Verdict: replay.Held,
		ElapsedUS: took.Microseconds(),
	}
	for _, f := range []struct {
		what      string
		got, want int64
	}{
		{"requests", said.Log.Requests, put.Requests}, {"clients", said.Log.Clients, put.Clients},
		{"broken lines", said.Log.Broken, put.Broken}, {"unsorted lines", said.Log.Unsorted, put.Unsorted},
	} {
		if f.got != f.want {
			c.Faults = append(c.Faults, fmt.Sprintf("%d %s were put in, %d read", f.want, f.what, f.got))
		}
	}
	for i, row := range said.Results {
		c.Limit, c.WindowUS, c.Burst = row.Limit, row.WindowUS, max(c.Burst, row.Burst)
		c.Results = append(c.Results, compareRefusals(said, i, servers[row.Limiter]))
	}
	if len(c.Faults) > 0 || slices.ContainsFunc(c.Results, func(r ReplayCheckRow) bool { return r.Verdict != replay.Held }) {
		c.Verdict = replay.Broken
	}
	return c
}

// compareRefusals compares one row.
func compareRefusals(said *ReplayResult, rule int, server Refusals) ReplayCheckRow {
	row := said.Results[rule]
	c := ReplayCheckRow{
		Limiter: row.Limiter, Refused: row.Refused, RefusedByRedis: int64(len(server.At)),
		ClientsRefused: row.ClientsRefused, ClientsByRedis: int64(len(server.Of)), Verdict: replay.Held,
	}
	for _, client := range said.Most {
		if client.Refused[rule] != server.Of[client.Client] {
			c.ClientsApart++
		}
	}
	steps := map[int64]int64{}
	for n, refused := range said.Over.Refused[rule] {
		steps[said.Over.FromUS/said.Over.StepUS+int64(n)] = refused
	}
	for _, at := range server.At {
		steps[at/said.Over.StepUS]--
	}
	for n := range maps.Values(steps) {
		if n != 0 {
			c.StepsApart++
		}
	}
	if c.Refused != c.RefusedByRedis || c.ClientsRefused != c.ClientsByRedis || c.ClientsApart+c.StepsApart > 0 {
		c.Verdict = replay.Broken
	}
	return c
}

// Document shows a row a limiter, and how fast the log was read.
func (c *ReplayCheck) Document() report.Document {
	d := report.Document{Data: c, Made: c.Env.line(), Table: report.Table{Columns: []report.Column{
		{Title: "LIMITER"}, {Title: "REFUSED", Right: true}, {Title: "BY REDIS", Right: true}, {Title: "CLIENTS", Right: true},
		{Title: "BY REDIS", Right: true}, {Title: "VERDICT"},
	}}}
	equal := int64(0)
	for _, row := range c.Results {
		verdict := report.Cell{Text: "BROKEN", Tone: report.Bad}
		if row.Verdict == replay.Held {
			equal++
			verdict = report.Cell{Text: "equal", Tone: report.Good}
		}
		d.Records = append(d.Records, row)
		d.Table.Add(report.Plain(row.Limiter), number(row.Refused), number(row.RefusedByRedis), number(row.ClientsRefused),
			number(row.ClientsByRedis), verdict)
	}
	all := int64(len(c.Results))
	d.Head = []report.Line{
		{{Text: fmt.Sprintf("replay refuses what Redis does: %d of %s", equal, report.Count(all, "limiter", "limiters")), Tone: tone(c.Verdict == replay.Held)}},
		report.Text("redis %s (%s), its clock set to each request   %s of %s, %s broken and %s unsorted lines between   %s per %s, burst %s",
			c.Env.Redis.Version, c.Env.Redis.where(), report.Count(c.Requests, "request", "requests"), report.Count(c.Clients, "client", "clients"),
			report.Int(c.Broken), report.Int(c.Unsorted), report.Int(c.Limit), wholeWindow(c.WindowUS), report.Int(c.Burst)),
	}
	for _, fault := range c.Faults {
		d.Head = append(d.Head, report.Line{{Text: "BROKEN: " + fault, Tone: report.Bad}})
	}
	for _, s := range c.Speeds {
		cpu := ""
		if s.CPU > 0 {
			cpu = fmt.Sprintf(", %s µs of a core each", report.Figure(s.CPU))
		}
		d.Foot = append(d.Foot, report.Text("%s, one limit of %s: %s requests a second (%s to %s in %s)%s", s.Input, s.Limiter,
			report.Figure(s.Median), report.Figure(s.Least), report.Figure(s.Most), report.Count(int64(s.Rounds), "round", "rounds"), cpu))
	}
	d.Foot = append(d.Foot, report.Text("compared: all refusals, by limiter, by client and by time   %.1f s", float64(c.ElapsedUS)/1e6))
	return d
}
