// Package explore runs every order of the commands of a few clients, and every place at which one of them can die, on a
// real Redis.
//
// Each client is the true limiter behind a proxy of its own (package wire), which parks each of its commands. Between
// two steps exactly one client runs, so that a schedule, the list of which client goes next, determines everything: the
// server's clock stands still in mid-window, client clocks read the same instant (or, to show what skew does, each its
// own), and the request ids are given. A step lets one parked command run on the server and hands over its reply. Where
// a client is to die, its command runs too, but no reply comes, neither to it nor to any later one.
//
// The search (search.go) is over positions, not orders: ways that come to the same one go on alike, so it is gone on from
// once, and the number of orders is that of the ways through all positions. Equal is what agrees in all keys with their
// values and times of death, in where every client stands, and in all that the judge will want to know. A client is a
// function of what it was answered (behaviour.go), so the true one runs only to find out what it does after replies that
// were not met before. Redis is a function of what it holds and is asked (answer.go): it is given the state and the command,
// and asked for the state again, where the two did not meet before. The first client to begin is always A, the second B,
// and so on, since clients differ in nothing but their name; the count is multiplied by their permutations.
//
// The judge (judge.go) looks at what was answered and at what is left: never more admitted than there was room for, some
// order of the calls in which the rule decides the same, no refusal that changes the state, keys that live as long as the
// rule says, and everybody admitted again when time has passed. Live clients then go one way to each end that breaks the
// rule, and to a sample of the others (confirm.go), and must come to the same. What is reported is run with a look at
// Redis after each step.
//
// What it shows holds for these clients, this start and a clock that stands still. It cannot show what needs more
// clients or time that passes between two commands.
package explore

import (
	"context"
	"errors"
	"fmt"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/target"
)

// Bounds of a plan. Beyond them nobody waits for the end.
const (
	MaxClients = 4
	MaxCalls   = 4 // of each client
)

// Server is a private server with a settable clock.
type Server interface {
	Socket() string
	Dir() string
	Clock() *redisd.Clock
}

// Start is the state in which the clients begin.
type Start string

// The starts.
const (
	Empty   Start = "empty" // nothing in Redis
	OneLeft Start = "last"  // all but one event taken, by admitted calls of the limiter itself
)

// Plan is what to explore.
type Plan struct {
	Entry   target.Entry
	Limit   limiter.Limit // Events 1 or more
	Clients int           // 1 to MaxClients
	Calls   int           // of cost 1 that each client makes, 1 to MaxCalls
	Start   Start
	Crash   bool // at most one client dies, after any command of its own
	Skew    bool // client i's clock is ahead of the server's: by i·W/L, in which i events refill, or by i leases
	Release bool // after each call a client gives back what it took, or did not get: another call; of a limiter.Releaser
	Prefix  string
}

// Result is what all orders came to.
type Result struct {
	Slots     int64    // events that were left when the clients began
	Orders    int64    // complete schedules
	Violating int64    // of them, those that break the rule
	States    int64    // that were told apart
	Crashes   int64    // states in which a client died
	Retries   int64    // the most, in one schedule, that limiters sent again because others got in their way
	Steps     int64    // from one state to another
	Shown     Schedule // the simplest schedule that breaks the rule; or else one of the longest that keep it
	Found     []Found  // the simplest schedule of each kind of violation, the simplest first
}

// Found is one way in which schedules break the rule.
type Found struct {
	Violation
	Order string // of the simplest such schedule
}

// ErrNotDeterministic is returned when the same schedule came out differently: its clients look at something that is
// not under control.
var ErrNotDeterministic = errors.New("not deterministic")

// ErrRefused is returned when a start cannot be made, since the limiter refuses what its rule admits.
var ErrRefused = errors.New("refused while all but one event were to be taken")

// ErrFailed is returned when a call of a client ended in an error: of that nothing can be judged.
var ErrFailed = errors.New("a call failed")

// maxSteps bounds a search of clients that go on asking.
const maxSteps = 10_000_000

// Run explores the plan on the server, whose keys it deletes and whose clock it sets. progress, if not nil, hears of
// every step.
//
// Errors: ErrNotDeterministic, ErrRefused, ErrFailed, ErrHung; those of the limiter where it refuses the plan; ctx's when it ends.
func Run(ctx context.Context, srv Server, p Plan, progress func(steps int64)) (Result, error) {
	x, err := open(ctx, srv, p)
	if err != nil {
		return Result{}, fmt.Errorf("explore %s: %w", p.Entry.Name, hung(err))
	}
	defer x.close()
	r, err := x.search(ctx, progress)
	if err != nil {
		return r, fmt.Errorf("explore %s: %w", p.Entry.Name, hung(err))
	}
	return r, nil
}

// Replay runs one schedule of the plan, by the order of its steps as Schedule.Order gives it. Where the order ends
// before all clients have, the lowest that can goes on.
func Replay(ctx context.Context, srv Server, p Plan, order string) (Result, error) {
	x, err := open(ctx, srv, p)
	if err != nil {
		return Result{}, fmt.Errorf("explore %s: %w", p.Entry.Name, hung(err))
	}
	defer x.close()
	r := Result{Slots: x.judge.slots, Orders: 1}
	choices, err := parseOrder(order, p)
	if err == nil {
		r.Shown, err = x.live(ctx, choices, true)
	}
	if err != nil {
		return r, fmt.Errorf("explore %s: %w", p.Entry.Name, hung(err))
	}
	if v := r.Shown.Violation; v != nil {
		r.Violating, r.Found = 1, []Found{{*v, r.Shown.Order}}
	}
	r.Retries = r.Shown.Retries
	return r, nil
}
