package experiment

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/load"
	"github.com/rlctl/rlctl/pkg/target"
)

// rounds of a figure, as f sets it.
func roundsOf(f func(*BenchFigures, float64), values ...float64) (all []BenchFigures) {
	for _, v := range values {
		var figures BenchFigures
		f(&figures, v)
		all = append(all, figures)
	}
	return all
}

func script(f *BenchFigures, v float64) { f.OpsPerSec, f.Script, f.CPU = new(1e6/v), new(v), new(2*v) }

// priced are rounds that cost so much each, and their row.
func pricedRow(limiter, path string, values ...float64) BenchRow {
	row := BenchRow{
		Limiter: limiter, Path: path, Clients: 8, Procs: 1, Pipeline: 1, Rounds: len(values), Ops: 600, Samples: roundsOf(script, values...),
	}
	row.BenchFigures, row.Spread = summarise(row.Samples)
	return row
}

func TestAMedianHasAnIntervalFromSixRoundsOn(t *testing.T) {
	for _, c := range []struct {
		values []float64
		median float64
		spread bool
	}{{[]float64{3, 1, 2}, 2, false}, {[]float64{5, 1, 4, 2, 3}, 3, false}, {[]float64{6, 1, 5, 2, 4, 3}, 3.5, true}} {
		medians, spread := summarise(roundsOf(script, c.values...))
		got, ok := spread["script_us"]
		if math.Abs(*medians.Script-c.median) > 1e-9 || ok != c.spread || ok && got != [2]float64{1, 6} {
			t.Errorf("%v: median %v, interval %v", c.values, *medians.Script, got)
		}
		if medians.P99 != nil {
			t.Error("a figure that no round has got a median")
		}
	}
	some := roundsOf(script, 1, 2, 3)
	some[1].Script = nil
	if medians, _ := summarise(some); medians.Script != nil || medians.CPU == nil {
		t.Errorf("a round lacks the figure: %+v", medians)
	}
}

func TestOnlyRoundsThatDifferTellRowsApart(t *testing.T) {
	cheap, near := pricedRow("gcra", "allowed", 5, 6, 7, 5, 6, 7), pricedRow("fixed-window", "allowed", 6, 5, 7, 6, 5.5, 7)
	dear := pricedRow("sliding-log", "allowed", 12, 13, 12, 14, 12, 13)
	two, other := pricedRow("gcra", "allowed", 1, 1), pricedRow("sliding-log", "allowed", 9, 9)
	if !alike(&cheap, &near) || alike(&cheap, &dear) || !alike(&two, &other) {
		t.Errorf("cheap and near %v, cheap and dear %v, two rounds %v", alike(&cheap, &near), alike(&cheap, &dear), alike(&two, &other))
	}
	floor := pricedRow(target.FloorTime, "allowed", 3, 3, 3, 3.1, 3, 3)
	r := &BenchResult{Results: []BenchRow{floor, dear, near, cheap}}
	r.compare(func(*BenchRow) bool { return true })
	want := "cheapest to allow: fixed-window ~ gcra 6.0 us (2.0 x floor)   dearest: sliding-log 12.5 us (4.2 x floor)\n"
	if got := shown(t, r.Document())["table"]; !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestARowOffItsPathIsNotMeasured(t *testing.T) {
	for _, c := range []struct {
		path            fleet.Path
		allowed, denied int64
		off             bool
	}{
		{fleet.Allowed, 995, 5, false}, {fleet.Allowed, 980, 20, true}, {fleet.Allowed, 0, 0, true},
		{fleet.Denied, 5, 995, false}, {fleet.Denied, 20, 980, true},
		{fleet.Mixed, 502, 498, false}, {fleet.Mixed, 498, 502, false}, {fleet.Mixed, 520, 480, true}, {fleet.Mixed, 480, 520, true},
	} {
		row := benched{path: c.path, samples: roundsOf(script, 1)}
		got := fleet.Round{Summary: load.Summary{Allowed: c.allowed, Denied: c.denied}, Usage: fleet.Usage{Elapsed: time.Second}}
		row.take(got, nil, load.Summary{})
		if (row.refused != "") != c.off || c.off != (len(row.samples) == 0) {
			t.Errorf("%s, %d allowed, %d denied: %q, %d rounds", c.path, c.allowed, c.denied, row.refused, len(row.samples))
		}
	}
}

func TestWhoWasTheLimit(t *testing.T) {
	for _, c := range []struct {
		name           string
		client, server float64
		lag, response  *float64
		cores          int
		bound          bool
	}{
		{"server busy", 1, 0.97, nil, new(50.0), 2, false},
		{"all cores busy, server not", 1.2, 0.7, nil, new(50.0), 2, true},
		{"waiting for each other", 0.6, 0.5, nil, new(50.0), 2, false},
		{"the same on one core", 0.5, 0.45, nil, new(50.0), 1, true},
		{"open, on time", 1.9, 0.1, new(300.0), new(50.0), 2, false},
		{"open, late", 0.1, 0.1, new(1500.0), new(50.0), 2, true},
		{"open, late, and slow anyway", 0.1, 0.1, new(1500.0), new(2000.0), 2, false},
	} {
		row := BenchRow{BenchFigures: BenchFigures{ClientCPUShare: &c.client, ServerCPUShare: &c.server, LagP99: c.lag, P50: c.response}}
		if got := row.clientBound(c.cores); got != c.bound {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// two readings of a server on which a script ran a hundred times, and beside it what the reading itself makes.
const (
	infoBefore = "# Stats\r\ntotal_net_input_bytes:1000\r\ntotal_net_output_bytes:5000\r\n# CPU\r\nused_cpu_sys_main_thread:1.5\r\n" +
		"used_cpu_user_main_thread:0.5\r\n# Commandstats\r\ncmdstat_evalsha:calls=10,usec=70,usec_per_call=7.00,rejected_calls=0\r\n" +
		"cmdstat_get:calls=10,usec=9,usec_per_call=0.90\r\ncmdstat_info:calls=1,usec=90,usec_per_call=90.00\r\n"
	infoAfter = "total_net_input_bytes:3140\r\ntotal_net_output_bytes:9000\r\nused_cpu_sys_main_thread:1.501\r\n" +
		"used_cpu_user_main_thread:0.502\r\ncmdstat_evalsha:calls=110,usec=770,usec_per_call=7.00,rejected_calls=0\r\n" +
		"cmdstat_get:calls=110,usec=109,usec_per_call=0.99\r\ncmdstat_set:calls=50,usec=70,usec_per_call=1.40\r\n" +
		"cmdstat_info:calls=2,usec=190,usec_per_call=95.00\r\ncmdstat_ping:calls=5,usec=3,usec_per_call=0.60\r\n"
)

func TestReadingsLeaveOutWhatTheyThemselvesMake(t *testing.T) {
	var before, after reading
	for r, info := range map[*reading]string{&before: infoBefore, &after: infoAfter} {
		r.known, r.commands = true, map[string]commandStat{}
		r.add(info)
		r.add("# Replication\r\nrole:slave\r\n" + info) // which repeats what the other did
	}
	pings := load.Summary{Allowed: 5}
	u := after.since(before, pings)
	if script, ok := u.scripted(); !ok || script != (commandStat{100, 700}) {
		t.Errorf("scripts: %+v", script)
	}
	if got := u.others(); got != (commandStat{150, 170}) {
		t.Errorf("the scripts' commands: %+v, want 100 GET and 50 SET: neither INFO nor PING", got)
	}
	if u.cpu.Round(time.Microsecond) != 3*time.Millisecond {
		t.Errorf("cpu %v", u.cpu)
	}
	reply := len(infoBefore) + len("$370\r\n") + len("\r\n")
	request := len("*2\r\n$4\r\ninfo\r\n$3\r\nall\r\n")
	pinged := 5 * (len("*1\r\n$4\r\nping\r\n") + len("+PONG\r\n"))
	if len(infoBefore) < 100 || len(infoBefore) > 999 {
		t.Fatal("the reply's length has three digits")
	}
	if want := int64(3140 + 9000 - 1000 - 5000 - reply - request - pinged); u.bytes != want {
		t.Errorf("%d bytes, want %d", u.bytes, want)
	}
	if after.since(reading{}, pings) != nil {
		t.Error("from a server that told nothing before something was used")
	}
}

func TestExecIsNotCountedTwice(t *testing.T) {
	u := use{commands: map[string]commandStat{"multi": {1, 1}, "incrby": {1, 4}, "exec": {1, 9}}}
	if got := u.others(); got != (commandStat{3, 5}) {
		t.Errorf("%+v", got)
	}
}

func eventfulBench() *BenchResult {
	refused := BenchRow{
		Limiter: "naive-log", Path: "denied", Clients: 8, Procs: 1, Pipeline: 1, Unmeasured: "it cannot be pipelined",
		Samples: []BenchFigures{}, Spread: map[string][2]float64{},
	}
	bound := pricedRow("gcra", "denied", 5, 6, 7, 5, 6, 7)
	bound.ClientBound, bound.Errors = true, 3
	r := &BenchResult{
		Schema: BenchSchema, Env: Provenance{OS: "linux", Arch: "amd64", CPU: new("a processor"), Cores: 2, Redis: Server{"7.0.15", true, "unix socket"}},
		Config: BenchConfig{Limit: 100, WindowUS: 86400e6, Cost: 1, Procs: 2, Clients: 8, Pipeline: 4, Rate: 4000, Keys: 10, Zipf: 1.5, Rounds: 6, DurationUS: 6e5},
		Results: []BenchRow{
			pricedRow(target.FloorTime, "allowed", 3, 3, 3, 3, 3, 3), pricedRow(target.FloorEval, "allowed", 1, 2, 1, 2, 1, 2),
			pricedRow("gcra", "allowed", 5, 6, 7, 5, 6, 7), bound, refused,
		},
		Checks:  []BenchCheck{{"p99_us<1", "broken", "gcra, denied: p99_us is 7"}, {"ops>1", "held", ""}},
		Partial: true, ElapsedUS: 12345, LoadBefore: new(7.25),
	}
	r.compare(func(*BenchRow) bool { return true })
	return r
}

// A result that was kept shows what it showed when it was new.
func TestABenchSurvivesItsJSON(t *testing.T) {
	before := eventfulBench()
	want := shown(t, before.Document())
	after := &BenchResult{}
	if err := json.Unmarshal([]byte(want["json"]), after); err != nil {
		t.Fatal(err)
	}
	for format, text := range shown(t, after.Document()) {
		if text != want[format] {
			t.Errorf("%s:\n%s\nwas\n%s", format, text, want[format])
		}
	}
	if !reflect.DeepEqual(before, after) {
		t.Errorf("%+v\nwas\n%+v", after, before)
	}
	for _, part := range []string{
		"partial", "2 processes of 8 clients, 4,000 requests a second, 4 a round trip   10 keys by Zipf 1.5",
		"the machine was busy before this began (load 7.2 on 2 cores)", "naive-log, denied: not measured: it cannot be pipelined", "in 1 row the client was the limit",
		"assert p99_us<1: broken: gcra, denied: p99_us is 7", "assert ops>1: held",
	} {
		if !strings.Contains(want["table"], part) {
			t.Errorf("%q is not in\n%s", part, want["table"])
		}
	}
}

// TestBenchstatReadsIt reads what benchstat reads, with the package that it reads it with.
func TestBenchstatReadsIt(t *testing.T) {
	var b bytes.Buffer
	if err := eventfulBench().WriteBenchfmt(&b); err != nil {
		t.Fatal(err)
	}
	lines := map[string]int{}
	in := benchfmt.NewReader(bytes.NewReader(b.Bytes()), "bench.txt")
	for in.Scan() {
		switch rec := in.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Errorf("%v in\n%s", rec, &b)
		case *benchfmt.Result:
			lines[rec.Name.String()]++
			value, ok := rec.Value("server-sec/op")
			if ok && (value < 0.9e-6 || value > 7.1e-6) || !ok {
				t.Errorf("%s: %v s of the server: %+v", rec.Name, value, rec.Values)
			}
			if rec.GetConfig("redis") != "7.0.15" {
				t.Errorf("%s: %v", rec.Name, rec.Config)
			}
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	name := "Check/limiter=gcra/path=denied/clients=8/procs=1/pipeline=1/rate=0"
	if len(lines) != 4 || lines[name] != 6 {
		t.Errorf("%v, want four rows of six rounds, one of them %s", lines, name)
	}
}
