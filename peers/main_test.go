package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/peers/rivals"
	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/replay"
)

// TestMain makes this test binary the program, where it is started as a worker, a keeper or rlctl.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	os.Exit(m.Run())
}

// quick goes through all that compare does, in seconds.
func quick() plan {
	return plan{
		race:  "race --procs 2 --clients 4 --limit 50 --attempts 40 --timeout 5s",
		bench: "bench --clients 2 --keys 2 --duration 20ms --rounds 1 --timeout 5s",
		prove: []string{"prove --limit 5 --clients 2"},
		walks: []limiter.Limit{{Events: 7, Window: 10 * time.Second}},
		lives: 5,
	}
}

// TestBarsAreKept: what the pages show of the bars is what these commands came to, to their end, and of all that is asked.
func TestBarsAreKept(t *testing.T) {
	for _, b := range bars() {
		r, err := kept[*experiment.BenchResult](b.file("../results"))
		if err != nil {
			t.Errorf("%v: make bars", err)
			continue
		}
		if r.Partial || !strings.HasPrefix(r.Env.Command, "rlctl "+b.command+" --timeout 5s --out "+b.file("results")+" --assert ") {
			t.Errorf("%s is of %s: make bars", b.name, r.Env.Command)
		}
		var asserts []string
		for _, c := range r.Checks {
			asserts = append(asserts, c.Assert)
		}
		if !slices.Equal(asserts, b.asserts) {
			t.Errorf("%s was held to %q, want %q: make bars", b.name, asserts, b.asserts)
		}
	}
	files, err := filepath.Glob("../results/bars-*")
	if err != nil || len(files) != len(bars()) {
		t.Errorf("%d files of %d bars, %v", len(files), len(bars()), err)
	}
}

// TestCompare asks for nothing that depends on chance: nobody is over, and what the explorer finds it always finds.
func TestCompare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "peers.json")
	if err := compare(t.Context(), quick(), file); err != nil {
		t.Fatal(err)
	}
	r := read(t, file)
	var names []string
	for _, row := range r.Results {
		names = append(names, row.Limiter)
		if row.Race.Overshoot > 0 || row.Race.Allowed < 50 || row.Race.Attempts != 320 {
			t.Errorf("%s: the race came to %+v", row.Limiter, row.Race)
		}
		if len(row.Explored) != 2 || len(row.Bench) != 2 || row.Walk.Lives != 5 || row.RoundTrips[0] < 1 {
			t.Errorf("%s: not all was asked: %+v", row.Limiter, row)
		}
	}
	if want := append(rivalNames(), ours...); !slices.Equal(names, want) {
		t.Errorf("rows %v, want %v", names, want)
	}
	for name, want := range map[string][]explore.Kind{
		"throttled": {explore.Charged, explore.Lifetime}, "ulule": nil, "gcra": nil, "fixed-window": nil, "sliding-log": nil,
	} {
		row := r.Results[slices.Index(names, name)]
		if got := kinds(row); !slices.Equal(got, want) {
			t.Errorf("%s: the explorer found %v, want %v", name, got, want)
		}
	}
	for _, kind := range kinds(r.Results[slices.Index(names, "redis_rate")]) {
		if kind != explore.Under && kind != explore.Differs { // whether it rounds down depends on the time
			t.Errorf("redis_rate: the explorer found %v", kind)
		}
	}
	if trips := r.Results[slices.Index(names, "throttled")].RoundTrips; trips != [2]float64{2, 1} {
		t.Errorf("throttled makes %v round trips", trips)
	}
}

func rivalNames() (names []string) {
	for _, e := range rivals.Entries() {
		names = append(names, e.Name)
	}
	return names
}

func kinds(row experiment.PeerRow) (all []explore.Kind) {
	for _, e := range row.Explored {
		if e.Verdict == replay.Inconclusive {
			all = append(all, "inconclusive")
		}
		for _, f := range e.Found {
			all = append(all, f.Kind)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func read(t *testing.T, file string) *experiment.PeersResult {
	t.Helper()
	kept, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	r, err := experiment.Read(kept)
	if err != nil {
		t.Fatal(err)
	}
	return r.(*experiment.PeersResult)
}

// TestVersionsAreTold: a comparison without them says nothing.
func TestVersionsAreTold(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rivals.All() {
		if v := r.Version(); v == "unknown" || !strings.Contains(string(mod), r.Module+" "+v+"\n") {
			t.Errorf("%s of %s is %s, and not what go.mod has", r.Name, r.Module, v)
		}
	}
}
