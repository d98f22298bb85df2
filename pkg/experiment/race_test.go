package experiment

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
)

func plan() Race {
	return Race{
		Limit: limiter.Limit{Events: 100, Window: time.Minute}, Cost: 1, Procs: 20, Clients: 1, Rounds: 1, Private: true,
	}
}

func TestAttemptsPressEnough(t *testing.T) {
	for _, c := range []struct {
		limit          int64
		procs, clients int
		given, want    int64
	}{
		{100, 20, 1, 0, 200}, {100, 2, 1, 0, 1000}, {100, 1, 1, 0, 2000}, {7, 3, 2, 0, 24}, {100, 20, 10, 0, 200}, {100, 20, 1, 5, 5},
		{0, 20, 1, 0, 1}, {1, 1000, 1, 0, 2},
	} {
		p := plan()
		p.Limit.Events, p.Procs, p.Clients, p.Attempts = c.limit, c.procs, c.clients, c.given
		if got := p.attempts(); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestValidateNamesTheFlag(t *testing.T) {
	for flag, spoil := range map[string]func(*Race){
		"--procs":    func(p *Race) { p.Procs = maxProcs + 1 },
		"--clients":  func(p *Race) { p.Clients = maxCallers/p.Procs + 1 },
		"--rounds":   func(p *Race) { p.Rounds = 0 },
		"--cost":     func(p *Race) { p.Cost = 0 },
		"--attempts": func(p *Race) { p.Attempts = maxCalls },
		"--yes":      func(p *Race) { p.Private = false },
		"--prefix":   func(p *Race) { p.Prefix = "a{b" },
		"--window":   func(p *Race) { p.Limit.Window = time.Nanosecond },
		"--burst":    func(p *Race) { p.Limit = limiter.Limit{Events: 1, Window: limiter.MaxWindow, Burst: limiter.MaxEvents} },
	} {
		p := plan()
		spoil(&p)
		if err := p.Validate(target.Catalogue()); err == nil || !strings.HasPrefix(err.Error(), flag+": ") {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if err := plan().Validate(target.Catalogue()); err != nil {
		t.Error(err)
	}
	var unknown *target.ErrUnknownLimiter
	p := plan()
	p.Limiters = []string{"gcra", "none"}
	if err := p.Validate(target.Catalogue()); !errors.As(err, &unknown) {
		t.Error(err)
	}
}

func TestWhatIsExpectedOfWhom(t *testing.T) {
	rows := map[string]RaceRow{
		"held": {Verdict: replay.Held}, "over": {Verdict: replay.Broken, Counts: Counts{Overshoot: 1}},
		"broken otherwise": {Verdict: replay.Broken, Counts: Counts{Undershoot: 9}}, "inconclusive": {Verdict: replay.Inconclusive},
	}
	for by, want := range map[target.BrokenBy][]string{
		target.Race: {"over"}, target.Nothing: {"held"}, target.Denial: {"held"}, target.Crash: {"held"}, target.Skew: {"held", "over"},
	} {
		var got []string
		for name, row := range rows {
			if row.BrokenBy = by; row.asExpected() {
				got = append(got, name)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("broken by %s: expected %v, want %v", by, got, want)
		}
	}
}

func TestVerdictsCombine(t *testing.T) {
	h, b, i := replay.Held, replay.Broken, replay.Inconclusive
	for _, c := range []struct {
		rounds []replay.Verdict
		want   replay.Verdict
	}{{[]replay.Verdict{h, h}, h}, {[]replay.Verdict{h, b, i}, b}, {[]replay.Verdict{h, i}, i}, {[]replay.Verdict{i, b}, b}} {
		var rounds []RaceRound
		for _, v := range c.rounds {
			rounds = append(rounds, RaceRound{Verdict: v})
		}
		if got, _ := combined(rounds); got != c.want {
			t.Errorf("%v: %s", c.rounds, got)
		}
	}
	met, apart := RaceRound{Verdict: h}, RaceRound{Verdict: i, apart: true, Reason: "apart"}
	if got, _ := combined([]RaceRound{apart, met}); got != h {
		t.Errorf("callers that met in the second round: %s", got)
	}
	if got, why := combined([]RaceRound{apart, apart}); got != i || why != "apart" {
		t.Errorf("callers that never met: %s, %s", got, why)
	}
	row := func(v replay.Verdict, expected bool) RaceRow { return RaceRow{Verdict: v, Expected: expected} }
	for _, c := range []struct {
		rows []RaceRow
		want replay.Verdict
	}{
		{nil, i},
		{[]RaceRow{row(h, true), row(b, true)}, h},
		{[]RaceRow{row(i, false), row(b, false)}, b},
		{[]RaceRow{row(h, true), row(i, false)}, i},
		{[]RaceRow{row(h, false)}, i}, // a racy one that was not caught
	} {
		if got := overall(c.rows); got != c.want {
			t.Errorf("%+v: %s", c.rows, got)
		}
	}
}
