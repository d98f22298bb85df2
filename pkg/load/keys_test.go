package load

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// TestNoNameIsAskedBeyondItsBudget has many clients ask at once.
func TestNoNameIsAskedBeyondItsBudget(t *testing.T) {
	const clients, budget, calls = 8, 7, 1000
	k := NewKeys("k", 3, budget)
	asked := make([]map[string]int, clients)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			asked[c] = map[string]int{}
			for next, i := k.Cycle(c, clients), 0; i < calls; i++ {
				asked[c][next()]++
			}
		})
	}
	wg.Wait()
	sum, all := map[string]int{}, 0
	for _, a := range asked {
		for name, n := range a {
			sum[name] += n
			all += n
		}
	}
	for name, n := range sum {
		if n > budget {
			t.Errorf("%s was asked %d times, its budget is %d", name, n, budget)
		}
	}
	told := map[string]bool{}
	k.Names(func(name string) bool { told[name] = true; return true })
	for name := range sum {
		if !told[name] {
			t.Errorf("%s was given and is not among the names to delete", name)
		}
	}
	if all != clients*calls || len(told) != len(sum) {
		t.Errorf("%d calls; %d names given, %d told", all, len(sum), len(told))
	}
}

func TestAPhaseCountsAgainstTheBudget(t *testing.T) {
	k := NewKeys("k", 1, 5)
	if got := k.Ask(0, 3); got != "k-0-0" {
		t.Error(got)
	}
	var got []string
	for next := k.Cycle(0, 1); len(got) < 4; {
		got = append(got, next())
	}
	if want := []string{"k-0-0", "k-0-0", "k-0-1", "k-0-1"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestKeysThatWereNotAskedHaveNoNames(t *testing.T) {
	k := NewKeys("k", 5, 0)
	k.Ask(2, 1)
	k.Ask(2, 1000)
	var got []string
	k.Names(func(name string) bool { got = append(got, name); return true })
	if want := []string{"k-2-0"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestZipfPrefersTheFirst: with exponent 2, the first key is asked four times as often as the second.
func TestZipfPrefersTheFirst(t *testing.T) {
	k := NewKeys("k", 100, 0)
	asked := map[string]int{}
	for next, i := k.Zipf(2, 1), 0; i < 40_000; i++ {
		asked[next()]++
	}
	if r := float64(asked["k-0-0"]) / float64(asked["k-1-0"]); r < 3 || r > 5 {
		t.Errorf("the first was asked %.1f times as often as the second: %v", r, asked)
	}
}

func TestAlternateTakesFromBoth(t *testing.T) {
	a, b := NewKeys("a", 2, 0).Cycle(0, 1), NewKeys("b", 1, 0).Cycle(0, 1)
	got := ""
	for next, i := Alternate(a, b), 0; i < 4; i++ {
		got += fmt.Sprint(next(), " ")
	}
	if want := "a-0-0 b-0-0 a-1-0 b-0-0 "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
