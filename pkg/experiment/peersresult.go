package experiment

import (
	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/replay"
)

// PeersSchema names the form of a PeersResult.
const PeersSchema = "rlctl.peers/v1"

// PeersResult sets limiters of other libraries beside some of this module: what races, explorations, a walk beside the
// rule and a bench said of each. The module in peers/ makes it.
type PeersResult struct {
	Schema    string     `json:"schema"` // rlctl.peers/v1
	Env       Provenance `json:"env"`
	Redis     Server     `json:"redis"`
	Race      PeerLoad   `json:"race"`  // what all were put under in the race
	Bench     PeerLoad   `json:"bench"` // and in the bench
	Results   []PeerRow  `json:"results"`
	ElapsedUS int64      `json:"elapsed_us"`
}

// PeerLoad is how a limiter was asked.
type PeerLoad struct {
	Limit    int64  `json:"limit"`
	WindowUS int64  `json:"window_us"`
	Callers  int    `json:"callers"`
	Keys     int    `json:"keys"`
	Command  string `json:"command"`
}

// PeerRow is one limiter.
type PeerRow struct {
	Limiter  string `json:"limiter"`
	Module   string `json:"module"`  // empty of one of this module
	Version  string `json:"version"` // of its module
	Rule     string `json:"rule"`    // that it claims and is judged by
	Settings string `json:"settings"`
	Tells    string `json:"tells"` // besides whether a request passed
	Charges  bool   `json:"charges"`
	// TellsWait says that a refusal tells how long to wait. Else the wait is taken to be until the reset that it tells.
	TellsWait bool          `json:"tells_wait"`
	Race      PeerRace      `json:"race"`
	Explored  []PeerExplore `json:"explored"`
	Walk      PeerWalk      `json:"walk"`
	// RoundTrips are those of a call of one client, allowed and denied.
	RoundTrips [2]float64   `json:"round_trips"`
	Bench      []PeerFigure `json:"bench"` // by path
}

// PeerRace is a race of many callers on one key.
type PeerRace struct {
	Counts
	Classes map[limiter.Class]int64 `json:"classes"` // of the calls that were not decided
	Verdict replay.Verdict          `json:"verdict"`
	Reason  string                  `json:"reason"`
}

// PeerExplore is every order of a few clients from one start.
type PeerExplore struct {
	Clients   int            `json:"clients"`
	Start     explore.Start  `json:"start"`
	Orders    int64          `json:"orders"`
	Violating int64          `json:"violating"`
	Found     []ProveFound   `json:"found"`
	Verdict   replay.Verdict `json:"verdict"`
	Reason    string         `json:"reason"`
}

// PeerWalk is what came of single requests on a clock that was set. Of a limiter that is told apart from its rule by
// rounding alone, the differences are of microseconds.
type PeerWalk struct {
	Moves int64 `json:"moves"`
	Lives int64 `json:"lives"` // each on a fresh key, up to the first decision that is not the rule's
	// Generous lives ended with an admission that the rule refuses, up to so long before it admits; strict ones with a
	// refusal where it admits, which lasted up to so long.
	Generous       int64 `json:"generous"`
	MostGenerousUS int64 `json:"most_generous_us"`
	Strict         int64 `json:"strict"`
	StrictestUS    int64 `json:"strictest_us"`
	WrongRemaining int64 `json:"wrong_remaining"` // decisions
	// Waits were told with a refusal and compared with the true ones, in whole microseconds.
	Waits      int64 `json:"waits"`
	TooShort   int64 `json:"too_short"` // who comes back then is refused again
	ShortestUS int64 `json:"shortest_us"`
	TooLong    int64 `json:"too_long"`
	LongestUS  int64 `json:"longest_us"`
	// NeverTold says that a cost above the capacity is told never to pass.
	NeverTold bool `json:"never_told"`
	// Lifetimes of keys were compared with the time for which the rule needs them.
	Lifetimes   int64 `json:"lifetimes"`
	Immortal    int64 `json:"immortal"` // without an end
	DiesEarlyUS int64 `json:"dies_early_us"`
	DiesLateUS  int64 `json:"dies_late_us"` // beyond 2 ms, which whole milliseconds cost anybody
}

// PeerFigure are the figures of one path, medians with the bounds of their 95 % intervals.
type PeerFigure struct {
	Path   string `json:"path"`
	Errors int64  `json:"errors"`
	Ops    int64  `json:"ops"`
	BenchFigures
	Spread map[string][2]float64 `json:"spread"`
}

// NewPeerRace takes from a race's row what is compared.
func NewPeerRace(r RaceRow) PeerRace {
	race := PeerRace{Counts: r.Counts, Classes: map[limiter.Class]int64{}, Verdict: r.Verdict, Reason: r.Reason}
	for _, round := range r.Rounds {
		for class, n := range round.Classes {
			race.Classes[class] += n
		}
	}
	return race
}

// NewPeerExplore takes from an exploration's row what is compared.
func NewPeerExplore(r ProveRow) PeerExplore {
	return PeerExplore{
		Clients: r.Clients, Start: r.Start, Orders: r.Orders, Violating: r.Violating, Found: r.Found, Verdict: r.Verdict, Reason: r.Reason,
	}
}

// NewPeerFigure takes from a bench's row what is compared.
func NewPeerFigure(r BenchRow) PeerFigure {
	return PeerFigure{Path: r.Path, Errors: r.Errors, Ops: r.Ops, BenchFigures: r.BenchFigures, Spread: r.Spread}
}
