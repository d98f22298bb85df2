package experiment

import (
	"strings"
	"testing"

	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/replay"
)

// someone is a rival of which everything is off, beside one of ours of which nothing is.
func someone() *PeersResult {
	at := Server{Version: "7.0.15", Private: true, At: "unix socket"}
	figures := []PeerFigure{
		{Path: "allowed", Errors: 7, Ops: 100, BenchFigures: BenchFigures{OpsPerSec: new(1234.5), Script: new(4.27)}, Spread: map[string][2]float64{}},
		{Path: "denied", Ops: 100, Spread: map[string][2]float64{"cpu_us": {1, 2}}},
	}
	return &PeersResult{
		Schema: PeersSchema, Env: Provenance{Command: "peers compare FILE", Go: "go1"}.madeOn(at), Redis: at,
		Race:  PeerLoad{Limit: 10, WindowUS: 60e6, Callers: 64, Keys: 1, Command: "rlctl race"},
		Bench: PeerLoad{Limit: 100, WindowUS: 60e6, Callers: 8, Keys: 16, Command: "rlctl bench"},
		Results: []PeerRow{{
			Limiter: "theirs", Module: "example.com/theirs", Version: "v1.2.3", Rule: "a bucket", Settings: "New()", Tells: "remaining", TellsWait: true,
			Race: PeerRace{
				Counts:  Counts{Attempts: 90, Allowed: 12, Allowance: 10, Overshoot: 2, Undershoot: 3, Errors: 4, Unknown: 1},
				Verdict: replay.Broken, Reason: "over", Classes: map[limiter.Class]int64{limiter.ClassContention: 5},
			},
			Explored: []PeerExplore{
				{Clients: 3, Start: explore.Empty, Orders: 90, Violating: 1, Verdict: replay.Broken, Found: []ProveFound{
					{Kind: explore.Over, Schedule: "theirs:k3c1:2/1m0s:empty:ABCABC", Reason: "over"},
				}},
				{Clients: 2, Start: explore.OneLeft, Orders: 6, Violating: 2, Verdict: replay.Broken, Found: []ProveFound{
					{Kind: explore.Over, Schedule: "theirs:k2c1:2/1m0s:last:ABAB", Reason: "over"},
					{Kind: explore.Lifetime, Schedule: "theirs:k2c1:2/1m0s:last:aB", Reason: "no TTL"},
				}},
			},
			Walk: PeerWalk{
				Moves: 1000, Lives: 20, Generous: 1, MostGenerousUS: 499_700, Strict: 2, StrictestUS: 1, WrongRemaining: 33, Waits: 200,
				TooShort: 150, ShortestUS: 1_240_000, TooLong: 5, LongestUS: 20_400, Lifetimes: 700, Immortal: 1, DiesEarlyUS: 999, DiesLateUS: 3000,
			},
			RoundTrips: [2]float64{2, 1}, Bench: figures,
		}, {
			Limiter: "ours", Rule: "a log", TellsWait: true,
			Race:       PeerRace{Counts: Counts{Attempts: 90, Allowed: 10, Allowance: 10}, Verdict: replay.Held, Classes: map[limiter.Class]int64{}},
			Explored:   []PeerExplore{{Clients: 2, Start: explore.Empty, Orders: 12345, Verdict: replay.Held, Found: []ProveFound{}}},
			Walk:       PeerWalk{Moves: 1000, Lives: 20, Waits: 200, NeverTold: true, Lifetimes: 700},
			RoundTrips: [2]float64{1, 1}, Bench: []PeerFigure{},
		}},
		ElapsedUS: 1_500_000,
	}
}

func TestPeersSurviveTheirJSON(t *testing.T) { survives(t, someone()) }

func TestPeersShowWhatIsOff(t *testing.T) {
	text := strings.Join(strings.Fields(shown(t, someone().Document())["markdown"]), " ")
	for _, want := range []string{
		"0 of 1 limiter of other libraries never over in a race of 64 callers beside 1 of this module",
		"| theirs | 12 | 10 | 2 | 3 | 5 | lifetime aB, over ABAB | " +
			"admits 500 ms early, refuses 1 us longer, remaining off in 33 of 1,000 | " +
			"150 of 200 up to 1.2 s short, 5 of 200 up to 20 ms long, a wait where it is never | " +
			"without an end, 1 times, up to 999 us too short, up to 3 ms longer |",
		"| ours | 10 | 10 | 0 | 0 | 0 | held in 12,345 | as the rule | true to the us | as needed |",
		"theirs: 5 of 90 calls of the race not decided: contention",
		"| theirs | allowed | 1,235 | 4.3 | – | – | 2.0 | – | – | – | 7 |",
		"| theirs | example.com/theirs v1.2.3 | a bucket | remaining | New() |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
}

// TestPeersThatTellNoWait are not told off for what they do not say.
func TestPeersThatTellNoWait(t *testing.T) {
	r := someone()
	r.Results[0].TellsWait = false
	if text := r.Results[0].waits().Text; text != "150 of 200 up to 1.2 s short, 5 of 200 up to 20 ms long" {
		t.Errorf("%q", text)
	}
	r.Results[0].Explored[0].Verdict, r.Results[0].Explored[0].Reason = replay.Inconclusive, "not deterministic"
	if text := r.Results[0].explored().Text; text != "inconclusive: not deterministic" {
		t.Errorf("%q", text)
	}
}
