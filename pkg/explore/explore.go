// Package explore runs every order of the commands of a few clients on a real Redis.
//
// Each client is the true limiter behind a proxy of its own (package wire), which parks each of its commands. Between
// two steps exactly one client runs, so that a schedule, the list of which client goes next, determines everything: the
// server's clock stands still in mid-window, client clocks read the same instant, and the request ids are given. The
// search is depth first over complete runs, each from the same state: a key with one slot left, made by admitted calls
// of the limiter itself, and restored byte by byte with its time of death.
//
// A schedule is judged by what was answered: never more admitted than there were slots, and some order of the calls
// that agrees with their first and last steps in which the rule decides the same. When it is over, every key must have
// a TTL. What is reported is run once more, step by step, and must come out the same.
//
// What it shows holds for these clients, this state and one command at a time. It cannot show what needs more clients,
// time that passes between two commands, or clocks that differ; and it runs every order, where a proof would reason
// about them.
package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/pkg/wire"
)

// MaxClients is how many clients can be explored: the letters that a schedule names them by, and more orders than
// anybody waits for.
const MaxClients = 4

// Server is a private server with a settable clock.
type Server interface {
	Socket() string
	Dir() string
	Clock() *redisd.Clock
}

// Plan is what to explore.
type Plan struct {
	Entry   target.Entry
	Limit   limiter.Limit // Events 1 or more
	Clients int           // 2 to MaxClients, each making one call of cost 1
	Prefix  string
}

// Result is what all orders came to.
type Result struct {
	Slots     int64    // events that were left when the clients began
	Orders    int64    // complete schedules, each run
	Violating int64    // of them, those that break the rule
	Shown     Schedule // the simplest that does; or else the longest, since there the clients got most in each other's way
}

// Schedule is one order and what happened in it.
type Schedule struct {
	ID        string // the clients in the order of their steps: ABAB
	Before    []Key  // what Redis held before the first step
	Steps     []Step
	Calls     []Call     // one a client
	Violation *Violation // nil if the rule was kept
}

// Step is one command of one client and the client's work up to its next.
type Step struct {
	Client  int        // 0 is A
	Args    [][]string // the command's words; of a MULTI block, each command's; nil if the client asked Redis nothing
	Block   bool       // they ran as a MULTI block
	Follows bool       // the client had sent it before it knew the reply to the one before
	Reply   wire.Value
	After   []Key // what Redis then held
	Ended   bool  // with it the client's call ended
}

// Call is what one client was told.
type Call struct {
	First, Last int // its steps, from 0
	Decision    limiter.Decision
	Err         error
}

// Kind is what a schedule did wrong.
type Kind string

// The kinds.
const (
	Over     Kind = "over"     // admitted more than there was room for
	Under    Kind = "under"    // refused although there was room
	Differs  Kind = "differs"  // no order of the calls explains what they were told
	Immortal Kind = "immortal" // left a key without a TTL
)

// Violation is how a schedule broke the rule.
type Violation struct {
	Kind   Kind
	Call   int // the client whose call it shows in; -1 for a key
	Reason string
}

// ErrNotDeterministic is returned when the same schedule came out differently: its clients look at something that is
// not under control.
var ErrNotDeterministic = errors.New("not deterministic")

// patience is how long a client may take from one command to the next. It only ever works that long when it hangs.
const patience = 20 * time.Second

// maxOrders bounds a search of clients that go on asking.
const maxOrders = 1_000_000

// Run explores the plan on the server, whose keys it deletes and whose clock it sets. progress, if not nil, hears of
// every complete schedule.
//
// Errors: ErrNotDeterministic; those of the limiter where it refuses the plan or cannot be asked; ctx's when it ends.
func Run(ctx context.Context, srv Server, p Plan, progress func(orders int64)) (Result, error) {
	x, err := open(ctx, srv, p)
	if err != nil {
		return Result{}, fmt.Errorf("explore %s: %w", p.Entry.Name, err)
	}
	defer x.close()
	r, err := x.search(ctx, progress)
	if err != nil {
		return r, fmt.Errorf("explore %s: %w", p.Entry.Name, err)
	}
	return r, nil
}

// search runs every schedule in the order of their ids.
func (x *explorer) search(ctx context.Context, progress func(int64)) (Result, error) {
	r := Result{Slots: x.judge.slots}
	var simplest, longest *Schedule
	for choices := []int{}; choices != nil; {
		s, enabled, err := x.run(ctx, choices, false)
		if err != nil {
			return r, err
		}
		r.Orders++
		switch {
		case s.Violation != nil:
			r.Violating++
			if simplest == nil || s.simpler(*simplest) {
				simplest = &s
			}
		case longest == nil || len(s.Steps) > len(longest.Steps):
			longest = &s
		}
		if progress != nil {
			progress(r.Orders)
		}
		if r.Orders == maxOrders {
			return r, fmt.Errorf("more than %d orders", maxOrders)
		}
		choices = next(s, enabled)
	}
	if simplest == nil {
		simplest = longest
	}
	var err error
	r.Shown, err = x.confirm(ctx, *simplest)
	return r, err
}

// next is the schedule after s: its longest beginning after which another client could have gone, and that one. Nil if
// s was the last.
func next(s Schedule, enabled [][]int) []int {
	for at := len(s.Steps) - 1; at >= 0; at-- {
		for _, c := range enabled[at] {
			if c > s.Steps[at].Client {
				choices := make([]int, at, at+1)
				for i := range choices {
					choices[i] = s.Steps[i].Client
				}
				return append(choices, c)
			}
		}
	}
	return nil
}

// confirm runs a schedule again and looks at Redis after each step.
func (x *explorer) confirm(ctx context.Context, s Schedule) (Schedule, error) {
	choices := make([]int, len(s.Steps))
	for i, step := range s.Steps {
		choices[i] = step.Client
	}
	again, _, err := x.run(ctx, choices, true)
	if err != nil {
		return again, err
	}
	if again.ID != s.ID || (again.Violation == nil) != (s.Violation == nil) {
		return again, fmt.Errorf("%w: order %s came out differently when it was run again", ErrNotDeterministic, s.ID)
	}
	return again, nil
}

// simpler tells whether s shows the same in fewer steps, or in as many without taking a pipeline apart.
func (s Schedule) simpler(than Schedule) bool {
	if len(s.Steps) != len(than.Steps) {
		return len(s.Steps) < len(than.Steps)
	}
	return !s.Split() && than.Split()
}

// Split tells whether another client's step lies between two commands of one pipeline, which Redis allows and seldom
// does.
func (s Schedule) Split() bool {
	for i, step := range s.Steps {
		if step.Follows && s.Steps[i-1].Client != step.Client {
			return true
		}
	}
	return false
}

// Gap is a stretch of a client's call in which what it had read was no longer true.
type Gap struct {
	Client     int
	Read, Used int // steps: the first at which it read, the one that acted on it
	Changed    int // the step in between at which another client changed what Redis held
}

// Gap returns the gap of the admitted call that ended last, among those that have one. It wants a schedule that was
// looked at step by step, as Result.Shown was.
func (s Schedule) Gap() (g Gap, ok bool) {
	for who, c := range s.Calls {
		if !c.Decision.Allowed || ok && c.Last < g.Used {
			continue
		}
		before := s.Steps[c.First].After
		for i := c.First + 1; i < c.Last; i++ {
			if s.Steps[i].Client != who && !slices.Equal(before, s.Steps[i].After) {
				g, ok = Gap{Client: who, Read: c.First, Changed: i, Used: c.Last}, true
				break
			}
			before = s.Steps[i].After
		}
	}
	return g, ok
}

// Name is the letter of a client.
func Name(client int) string { return string(rune('A' + client)) }
