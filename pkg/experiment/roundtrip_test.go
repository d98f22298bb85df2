package experiment

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// shown is a result in every form.
func shown(t *testing.T, d report.Document) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, format := range report.Formats() {
		var b bytes.Buffer
		if err := d.Write(&b, report.Format(format), report.Style{}); err != nil {
			t.Fatal(err)
		}
		all[format] = b.String()
	}
	return all
}

// eventfulRace has something in every place that a Document looks at.
func eventfulRace() *RaceResult {
	counts := Counts{
		Attempts: 40, Allowed: 12, Allowance: 10, Overshoot: 2, Undershoot: 1, Denied: 25, Errors: 2, Unknown: 1, Replayed: 37,
		Retries: 3, ElapsedUS: 1500, P50US: 20, P99US: 300,
	}
	round := RaceRound{
		Counts: counts, Verdict: replay.Broken, Reason: "over", Deaths: []RaceDeath{{3, "signal: killed"}},
		Classes: map[limiter.Class]int64{limiter.ClassOOM: 3},
	}
	row := func(name, twin, flaw string, by target.BrokenBy, v replay.Verdict, expected bool) RaceRow {
		return RaceRow{
			Limiter: name, Atomic: twin == "", Twin: twin, Flaw: flaw, BrokenBy: by, Counts: counts, Verdict: v, Reason: "why " + name,
			Expected: expected, Rounds: []RaceRound{round, round},
		}
	}
	made := Provenance{Command: "rlctl race --pass ***", Version: "v1", Commit: new("abc"), Modified: new(true), Go: "go1", OS: "linux", Arch: "amd64"}
	at := Server{Version: "7.0.15", Private: true, At: "unix socket"}
	return &RaceResult{
		Schema: RaceSchema, Env: made.madeOn(at), Limit: 10, WindowUS: 60e6, Burst: 20, Cost: 2, Procs: 4, Clients: 5,
		AttemptsPerClient: 2, GoroutinesOnly: true, Seed: "5eed", Redis: at, Planned: 9, Results: []RaceRow{
			row("naive-counter", "fixed-window", "GET, then INCR", target.Race, replay.Broken, true),
			row("fixed-window", "", "", target.Nothing, replay.Held, true),
			row("local-bucket", "token-bucket", "times the processes", target.Race, replay.Held, false),
			row("skewed-bucket", "token-bucket", "clocks", target.Skew, replay.Broken, true),
			row("charging-log", "sliding-log", "charges", target.Denial, replay.Held, true),
			row("gcra", "", "", target.Nothing, replay.Broken, false),
		}, Verdict: replay.Broken, Partial: true, ElapsedUS: 12345,
	}
}

// survives tells that a result which was kept shows what it showed when it was new.
func survives(t *testing.T, before Result) {
	t.Helper()
	want := shown(t, before.Document())
	after, err := Read(strings.NewReader(want["json"]))
	if err != nil {
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
}

func TestARaceSurvivesItsJSON(t *testing.T) { survives(t, eventfulRace()) }

func TestAZooSurvivesItsJSON(t *testing.T) {
	rows := []ZooRow{
		{Limiter: "caught", Of: "gcra", Wrong: "a line", By: []string{"walk", "race"}, Trials: []ZooTrial{
			{"race", replay.Broken, "over", 12}, {"explore", replay.Broken, "under", 5}, {"walk", replay.Broken, "differs", 34567},
		}},
		{Limiter: "missed", Of: "gcra", Wrong: "a line", By: []string{"walk", "none"}, Trials: []ZooTrial{{"walk", replay.Held, "", 1}}},
		{Limiter: "gcra", By: []string{}, Trials: []ZooTrial{{"race", replay.Held, "", 1}, {"walk", replay.Broken, "differs", 1}}},
		{Limiter: "token-bucket", By: []string{}, Trials: []ZooTrial{{"race", replay.Inconclusive, "apart", 1}, {"walk", replay.Held, "", 1}}},
		{Limiter: "fixed-window", By: []string{}, Trials: []ZooTrial{{"race", replay.Held, "", 1}, {"walk", replay.Held, "", 1}}},
	}
	r := NewZoo(Provenance{Command: "go test"}, Server{Version: "7.0.15", Private: true}, []string{"race", "explore", "walk"}, rows)
	survives(t, r)
	for i, want := range []bool{true, false, false, false, true} {
		if r.Results[i].Expected != want {
			t.Errorf("%+v: not as expected", r.Results[i])
		}
	}
	text := shown(t, r.Document())["table"]
	for _, want := range []string{"1 of 2 spoiled limiters caught   1 of 3 sound ones accused\n", "MISSED", "ACCUSED", "inconclusive", "also"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if r.Verdict != replay.Broken || NewZoo(Provenance{}, Server{}, nil, rows[:1]).Verdict != replay.Held {
		t.Errorf("%s", r.Verdict)
	}
}

func TestAComparisonSurvivesItsJSON(t *testing.T) {
	old, fresh := benchOf("gcra", rounds, rounds), benchOf("gcra", times(rounds, 0.9), rounds[:2])
	fresh.Results = append(fresh.Results, benchOf("other", rounds, rounds).Results...)
	before, err := Compare{FailOver: new(0.05)}.Run(old, fresh)
	if err != nil {
		t.Fatal(err)
	}
	survives(t, before)
}

// Whatever a file holds, it is refused or shown.
func FuzzRead(f *testing.F) {
	whole, err := json.Marshal(eventfulRace())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	for schema := range kinds() {
		f.Add([]byte(`{"schema":"` + schema + `"}`))
		f.Add([]byte(`{"schema":"` + schema + `","limit":1,"results":[{}],"missing":[""]}`))
		f.Add([]byte(`{"schema":"` + schema + `","config":{"limits":[0]},"results":[{"path":"allowed","floor_ratio":2,"apart":1,"spread":{"script_us":[1,2]},
			"samples":[{"script_us":1}],"response_hdr":"x","ops":9,"clients":2,"shown":{"kind":"over","steps":[{"client":"Z","reply":"1"}],"gap":{}}}],
			"log":{"requests":3,"reasons":[{"lines":2}]},"over_time":{"step_us":1,"requests":[1,-1,0],"refused":[[0,3,1],[1]]},
			"most_refused":[{"refused":[1,2]}],"speeds":[{}],"faults":["x"],
			"limiters":[{"log":true,"encodings":[{}],"passes":[{}]}],"million":[{}],"checks":[{}]}`))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := Read(bytes.NewReader(text)); err == nil {
			shown(t, r.Document())
		}
	})
}
