package explore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/wire"
)

// Schedule is one order and what happened in it.
type Schedule struct {
	Order     string // the clients in the order of their steps: ABAB; in lower case where it is the client's last: aBB
	Before    []Key  // what Redis held before the first step
	Steps     []Step
	Calls     []Call     // of all clients, a client's together
	Retries   int64      // that limiters counted
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
	Died    bool  // the reply never came, and the client does nothing more
	Ended   int   // the call that ended with it, as an index of Schedule.Calls; -1 if none did
}

// Call is one request of a client.
type Call struct {
	Client      int
	Release     bool // of what the call before took
	First, Last int  // its steps, from 0; -1 where it never began, or never ended
	Died        bool // it began and its client died: it may have been counted
	Charged     bool // it was refused, and changed what Redis held
	Decision    limiter.Decision

	before uint // a bit for each call that had ended when it began
}

// calls is how many each client makes.
func (p Plan) calls() int {
	if p.Release {
		return 2 * p.Calls
	}
	return p.Calls
}

// lineUp are all calls of all clients, none of which has begun.
func (p Plan) lineUp() (all []Call) {
	for i := range p.Clients {
		for n := range p.calls() {
			all = append(all, Call{Client: i, Release: p.Release && n%2 == 1, First: -1, Last: -1})
		}
	}
	return all
}

// Ended tells whether the client was told a decision.
func (c Call) Ended() bool { return c.Last >= 0 }

// Name is the letter of a client.
func Name(client int) string { return string(rune('A' + client)) }

// choice is which client goes next, and whether that is the last it does.
type choice struct {
	client int
	dies   bool
}

func (c choice) String() string {
	if c.dies {
		return strings.ToLower(Name(c.client))
	}
	return Name(c.client)
}

func order(choices []choice) string {
	var b strings.Builder
	for _, c := range choices {
		b.WriteString(c.String())
	}
	return b.String()
}

// CheckOrder returns an error if an order names no clients of the plan, or lets more of them die than it may.
func (p Plan) CheckOrder(order string) error {
	_, err := parseOrder(order, p)
	return err
}

// parseOrder reads what order wrote.
func parseOrder(text string, p Plan) ([]choice, error) {
	choices := make([]choice, len(text))
	deaths := 0
	for i, letter := range []byte(text) {
		c := choice{client: int(letter) - 'A'}
		if letter >= 'a' {
			c = choice{client: int(letter) - 'a', dies: true}
			deaths++
		}
		if c.client < 0 || c.client >= p.Clients {
			return nil, fmt.Errorf("order %q: %q is none of %d clients", text, letter, p.Clients)
		}
		choices[i] = c
	}
	if deaths > 1 || deaths > 0 && !p.Crash {
		return nil, fmt.Errorf("order %q: %d clients die", text, deaths)
	}
	return choices, nil
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
	for _, c := range s.Calls {
		if !c.Ended() || !c.Decision.Allowed || ok && c.Last < g.Used {
			continue
		}
		before := s.Steps[c.First].After
		for i := c.First + 1; i < c.Last; i++ {
			if s.Steps[i].Client != c.Client && !slices.Equal(before, s.Steps[i].After) {
				g, ok = Gap{Client: c.Client, Read: c.First, Changed: i, Used: c.Last}, true
				break
			}
			before = s.Steps[i].After
		}
	}
	return g, ok
}
