package explore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/target"
)

// TestTheJudgeAgreesWithPorcupine lets a linearizability checker that others wrote judge the same histories: calls of one
// instant that overlap in all ways, with decisions that are right, wrong, or that nobody was told.
func TestTheJudgeAgreesWithPorcupine(t *testing.T) {
	const histories = 4000
	agreed := map[bool]int{}
	for seed := range uint64(histories) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		e, err := target.Find(target.Catalogue(), []string{"gcra", "sliding-log", "fixed-window", "naive-bucket"}[rnd.IntN(4)])
		if err != nil {
			t.Fatal(err)
		}
		at := time.UnixMicro(1_700_000_000_000_000)
		p := Plan{Entry: e, Limit: limiter.Limit{Events: 1 + rnd.Int64N(3), Window: time.Minute}, Clients: 4, Calls: 1, Start: Empty}
		j, err := newJudge(p, at)
		if err != nil {
			t.Fatal(err)
		}
		calls, begins, ends := history(rnd, j)
		want := porcupine.CheckOperations(asPorcupine(j), operations(calls, begins, ends))
		if got := j.explained(calls, 0, j.start, func(model.State) bool { return true }); got != want {
			t.Fatalf("seed %d, %s, %+v: explained %v, porcupine says %v\n%+v\n%v %v", seed, e.Name, p.Limit, got, want, calls, begins, ends)
		}
		agreed[want]++
	}
	if agreed[true] < histories/10 || agreed[false] < histories/10 {
		t.Errorf("only %d histories were right and %d wrong", agreed[true], agreed[false])
	}
}

// history makes calls with random beginnings and ends. Most decisions are those of the rule in the order of the ends.
func history(rnd *rand.Rand, j judge) (calls []Call, begins, ends []int) {
	n := 2 + rnd.IntN(3)
	state := j.start
	times := rnd.Perm(2 * n)
	for i := range n {
		begin, end := min(times[2*i], times[2*i+1]), max(times[2*i], times[2*i+1])
		begins, ends = append(begins, begin), append(ends, end)
		calls = append(calls, Call{Client: i, First: begin, Last: end})
	}
	for _, i := range rnd.Perm(n) {
		next, d := state.Check(j.at, request(j, i))
		state = next
		switch c := &calls[i]; rnd.IntN(8) {
		case 0:
			c.Died, c.Last, ends[i] = true, -1, 1000
		case 1:
			d.Allowed = !d.Allowed
			fallthrough
		default:
			c.Decision = d
		}
	}
	for i := range calls {
		for k := range calls {
			if calls[k].Ended() && ends[k] < begins[i] {
				calls[i].before |= 1 << k
			}
		}
	}
	return calls, begins, ends
}

func request(j judge, call int) model.Request {
	return model.Request{Limit: j.plan.Limit, Cost: 1, ID: fmt.Sprint(Name(call), call)}
}

func operations(calls []Call, begins, ends []int) (ops []porcupine.Operation) {
	for i, c := range calls {
		ops = append(ops, porcupine.Operation{ClientId: i, Input: i, Call: int64(begins[i]), Output: c, Return: int64(ends[i])})
	}
	return ops
}

// asPorcupine is the rule as a model of porcupine's. A call that was told nothing may stand at the end, where it is of no
// consequence to the others.
func asPorcupine(j judge) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return j.start },
		Step: func(state, input, output any) (bool, any) {
			next, d := state.(model.State).Check(j.at, request(j, input.(int)))
			c := output.(Call)
			return c.Died || j.same(c.Decision, d), next
		},
		Equal: func(a, b any) bool { return false }, // logs cannot be compared; nothing is merged then
	}
}
