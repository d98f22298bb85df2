package load

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"
)

// Keys names the keys that the clients of one process ask. Each of its keys is asked Budget times under one name and
// then goes on under another, fresh one, so that a load that is to be allowed is; the names are made once each, not once
// a call. Many clients may use it at once.
type Keys struct {
	base   string
	budget int64
	slots  []slot
}

// slot is one key. Its padding keeps two that are counted by two cores out of one cache line.
type slot struct {
	asked atomic.Int64
	name  atomic.Pointer[generation]
	_     [48]byte
}

// generation is a name and its number among those of its key.
type generation struct {
	number int64
	name   string
}

// NewKeys returns n keys whose names begin with base; with a budget of 0 they keep the one they begin with.
func NewKeys(base string, n int, budget int64) *Keys {
	return &Keys{base: base, budget: budget, slots: make([]slot, n)}
}

// Len is the number of keys.
func (k *Keys) Len() int { return len(k.slots) }

// Name is the name of key i in the given generation.
func (k *Keys) Name(i int, generation int64) string {
	return k.base + "-" + strconv.Itoa(i) + "-" + strconv.FormatInt(generation, 10)
}

// Ask takes n of a key's present name's budget at once and returns that name.
func (k *Keys) Ask(i int, n int64) string {
	s := &k.slots[i]
	number := int64(0)
	if asked := s.asked.Add(n) - n; k.budget > 0 {
		number = asked / k.budget
	}
	if g := s.name.Load(); g != nil && g.number == number {
		return g.name
	}
	g := &generation{number, k.Name(i, number)}
	s.name.Store(g)
	return g.name
}

// Names calls do for each name that was given so far, until do says no.
func (k *Keys) Names(do func(name string) bool) {
	for i := range k.slots {
		for g := int64(0); g <= k.last(i); g++ {
			if !do(k.Name(i, g)) {
				return
			}
		}
	}
}

// last is the number of the last generation of key i that was asked, -1 of a key that never was.
func (k *Keys) last(i int) int64 {
	switch asked := k.slots[i].asked.Load(); {
	case asked == 0:
		return -1
	case k.budget == 0:
		return 0
	default:
		return (asked - 1) / k.budget
	}
}

// Cycle is one client's way through the keys, each in its turn. Clients begin apart.
func (k *Keys) Cycle(client, clients int) func() string {
	n := len(k.slots)
	i := client * n / clients % n
	return func() string {
		at := i
		if i++; i == n {
			i = 0
		}
		return k.Ask(at, 1)
	}
}

// Zipf is one client's way through the keys by chance: key i is asked in proportion to (i+1)^-exponent. The exponent
// must be above 1.
func (k *Keys) Zipf(exponent float64, client uint64) func() string {
	z := rand.NewZipf(rand.New(rand.NewPCG(client, client)), exponent, 1, uint64(len(k.slots)-1))
	return func() string { return k.Ask(int(z.Uint64()), 1) }
}

// Alternate takes from both in turn.
func Alternate(a, b func() string) func() string {
	return func() string {
		a, b = b, a
		return b()
	}
}
