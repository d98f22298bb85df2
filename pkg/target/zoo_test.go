package target_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// The zoo shows that the checkers check. Limiters with one line wrong go through every experiment, and each must be
// caught by those that are there to catch its kind; sound limiters go the same way, and none may be accused.

var update = flag.Bool("update", false, "rewrite what is tested here: results/zoo.json, testdata/vectors")

const zooMoves = 1000 // of a walk, in lives of 50

// TestMain makes this test binary a worker, or a keeper, where an experiment starts it as one.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) < 2:
		os.Exit(m.Run())
	case os.Args[1] == fleet.WorkerCommand:
		var mutants []mutant
		if mutants, err = zoo(); err == nil {
			err = fleet.Work(entriesOf(mutants), os.Stdin, os.Stdout)
		}
	case os.Args[1] == redisd.KeeperCommand:
		err = redisd.Keep(os.Stdin, os.Stdout)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sound are the limiters of the catalogue that nothing breaks; in a short run without those of several commands, whose
// orders are many.
func sound() []target.Entry {
	return slices.DeleteFunc(target.Catalogue(), func(e target.Entry) bool {
		return e.BrokenBy != target.Nothing || flag.Parsed() && testing.Short() && !e.Atomic()
	})
}

// entriesOf are the mutants and the sound limiters.
func entriesOf(mutants []mutant) (entries []target.Entry) {
	for _, m := range mutants {
		entries = append(entries, m.entry)
	}
	return append(entries, sound()...)
}

// zooRun is the zoo on its way through the experiments.
type zooRun struct {
	mutants []mutant
	env     experiment.Env
	redis   experiment.Server // that race ran on
}

func newZooRun(mutants []mutant) *zooRun {
	return &zooRun{mutants: mutants, env: experiment.Env{
		Catalogue: entriesOf(mutants), Self: func(args ...string) *exec.Cmd { return exec.Command(os.Args[0], args...) },
		Note: func(string) {}, Progress: func(int64, int64, string) {},
	}}
}

// trials are what one experiment said, by limiter.
type trials map[string]experiment.ZooTrial

type zooExperiment struct {
	name string
	run  func(*testing.T) trials
}

// TestZoo runs all experiments at once. A further one is a line here, a method below, and its name in the table of
// mutants where it must catch one.
func TestZoo(t *testing.T) {
	mutants, err := zoo()
	if err != nil {
		t.Fatal(err)
	}
	z := newZooRun(mutants)
	experiments := []zooExperiment{{"race", z.race}, {"explore", z.explore}, {"walk", z.walk}, {"cut", z.cut}, {"stress", z.stress}}
	if testing.Short() { // their callers are processes: there is nothing for the race detector to see
		experiments = slices.DeleteFunc(experiments, func(e zooExperiment) bool { return e.name == "stress" || e.name == "race" })
	}
	names := []string{}
	said := make([]trials, len(experiments))
	t.Run("experiments", func(t *testing.T) {
		for i, e := range experiments {
			names = append(names, e.name)
			t.Run(e.name, func(t *testing.T) {
				t.Parallel()
				said[i] = e.run(t)
			})
		}
	})
	rows := z.rows(names)
	for i := range rows {
		for n, name := range names {
			if trial, ok := said[n][rows[i].Limiter]; ok {
				trial.Experiment = name
				rows[i].Trials = append(rows[i].Trials, trial)
			}
		}
	}
	r := experiment.NewZoo(provenance(), z.redis, names, rows)
	compareZoo(t, r)
	if *update && !t.Failed() {
		keep(t, r, "../../results/zoo.json")
	}
}

// rows are all that goes through these experiments, not yet judged.
func (z *zooRun) rows(experiments []string) (rows []experiment.ZooRow) {
	for _, m := range z.mutants {
		by := slices.DeleteFunc(slices.Clone(m.by), func(e string) bool { return !slices.Contains(experiments, e) })
		rows = append(rows, experiment.ZooRow{Limiter: m.entry.Name, Of: m.of.Name, Wrong: m.wrong, By: by})
	}
	for _, e := range sound() {
		rows = append(rows, experiment.ZooRow{Limiter: e.Name, By: []string{}})
	}
	return rows
}

// compareZoo names the rows that came out otherwise than they must.
func compareZoo(t *testing.T, r *experiment.ZooResult) {
	for _, row := range r.Results {
		if !row.Expected {
			t.Errorf("%s of %q, which %v must catch: %+v", row.Limiter, row.Of, row.By, row.Trials)
		}
	}
	if len(r.Results) < 24+len(sound()) || (r.Verdict == replay.Held) == t.Failed() {
		t.Errorf("%d rows, %s", len(r.Results), r.Verdict)
	}
}

func namesOf(entries []target.Entry) (names []string) {
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

// race races four processes that ask for eight times the limit, each request at a cost of two where it can be.
func (z *zooRun) race(t *testing.T) trials {
	all := trials{}
	ofTwo := slices.DeleteFunc(slices.Clone(z.env.Catalogue), func(e target.Entry) bool { return e.Unit })
	ofOne := slices.DeleteFunc(slices.Clone(z.env.Catalogue), func(e target.Entry) bool { return !e.Unit })
	maps.Copy(all, z.raceAt(t, ofTwo, 2))
	maps.Copy(all, z.raceAt(t, ofOne, 1))
	return all
}

func (z *zooRun) raceAt(t *testing.T, entries []target.Entry, cost int64) trials {
	r, err := experiment.Race{
		Limiters: namesOf(entries), Limit: limiter.Limit{Events: 100, Window: time.Minute}, Cost: cost, Procs: 4, Clients: 1, Attempts: 100,
		Rounds: 1, Prefix: "ratelimit", Private: true, Conn: target.Conn{Timeout: 20 * time.Second},
	}.Run(t.Context(), z.env)
	if err != nil {
		t.Fatal(err)
	}
	z.redis = r.Redis
	all := trials{}
	for _, row := range r.Results {
		all[row.Limiter] = experiment.ZooTrial{Verdict: row.Verdict, How: row.Reason, ElapsedUS: row.ElapsedUS}
	}
	return all
}

// explore runs every order of three clients of whom one may die, from both starts.
func (z *zooRun) explore(t *testing.T) trials {
	r, err := experiment.Prove{
		Limiters: namesOf(z.env.Catalogue), Limit: limiter.Limit{Events: 7, Window: time.Minute}, Clients: 3, Calls: 1,
		Starts: []explore.Start{explore.Empty, explore.OneLeft}, Crash: true, Release: true, Prefix: "ratelimit",
	}.Run(t.Context(), z.env)
	if err != nil {
		t.Fatal(err)
	}
	all := trials{}
	for _, row := range r.Results {
		trial := all[row.Limiter]
		if trial.Verdict != replay.Broken {
			trial.Verdict, trial.How = row.Verdict, row.Reason
			if row.Verdict == replay.Broken {
				trial.How = fmt.Sprintf("%s: %s (order %s)", row.First.Kind, row.Reason, row.First.Order)
			}
		}
		trial.ElapsedUS += row.ElapsedUS
		all[row.Limiter] = trial
	}
	return all
}

// walk walks those that claim to be atomic beside their models. The walks are the same at each run.
func (z *zooRun) walk(t *testing.T) trials {
	all, s := trials{}, newStage(t)
	for _, m := range z.mutants {
		all[m.entry.Name] = walkOne(s, m.entry, m.of)
	}
	all["semaphore"] = walkOne(s, only("semaphore")[0], only("semaphore")[0])
	for _, e := range slices.Concat(atomics(), only("cached-gcra")) {
		all[e.Name] = walkOne(s, e, e)
	}
	return all
}

// walkOne walks e, guided as is fit for the limiter that it was made from.
func walkOne(s *stage, e, of target.Entry) experiment.ZooTrial {
	const life = 50
	begun := time.Now()
	g := &guide{rand.New(rand.NewPCG(1, 2)), of}
	var lead func() (made int, err error)
	switch {
	case of.Rule.AtOnce:
		w := newTurnstile(s, e)
		lead = func() (int, error) { made, err := w.live(g.Rand, g.IntN(2) == 0, life); return len(made), err }
	case of.Rule.Recalls:
		w := &rememberers{stage: s, entry: e}
		lead = func() (int, error) { return w.live(g.Rand, life) }
	default:
		w := newWalker(s, e)
		lead = func() (int, error) { made, err := g.live(w, life); return len(made), err }
	}
	trial := experiment.ZooTrial{Verdict: replay.Held}
	for n := 0; n < zooMoves && trial.Verdict == replay.Held; n += life {
		if made, err := lead(); err != nil {
			trial.Verdict, trial.How = replay.Broken, fmt.Sprintf("request %d: %s", n+made, strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	trial.ElapsedUS = time.Since(begun).Microseconds()
	return trial
}

// provenance is what a test can say of itself.
func provenance() experiment.Provenance {
	p := experiment.Provenance{
		Command: "go test ./pkg/target -run Zoo -update", Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
	}
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	changed, err2 := exec.Command("git", "status", "--porcelain").Output()
	if err == nil && err2 == nil {
		p.Commit, p.Modified = new(strings.TrimSpace(string(commit))), new(len(changed) > 0)
	}
	return p
}

func keep(t *testing.T, r experiment.Result, name string) {
	var text bytes.Buffer
	err := r.Document().Write(&text, report.JSONFormat, report.Style{})
	if err == nil {
		err = os.WriteFile(name, text.Bytes(), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}
