package target_test

import (
	"math/rand/v2"
	"testing"
)

// dice lets the fuzzer choose where a walk goes: each choice takes a byte, and leaves to chance only what a byte is too
// short to say.
type dice struct {
	chosen []byte
	rest   *rand.PCG
}

// Uint64 implements [rand.Source].
func (d *dice) Uint64() uint64 {
	n := d.rest.Uint64()
	if len(d.chosen) > 0 {
		n = uint64(d.chosen[0])<<56 | n>>8
		d.chosen = d.chosen[1:]
	}
	return n
}

// FuzzWalk drives a script and its model, which the row picks, from bytes.
func FuzzWalk(f *testing.F) {
	stage, rows := newStage(f), atomics()
	walkers := make([]*walker, len(rows))
	for i, e := range rows {
		walkers[i] = newWalker(stage, e)
		f.Add(uint8(i), []byte("take, ask again, step back, change the limit and the window, take more"))
		f.Add(uint8(i), []byte{0, 0, 0, 255, 255, 255, 100, 100, 0, 200, 200, 40, 40, 160, 160, 160, 0, 255, 0, 255})
	}
	f.Fuzz(func(t *testing.T, row uint8, choices []byte) {
		w := walkers[int(row)%len(rows)]
		stage.TB = t
		d := &dice{chosen: choices, rest: rand.NewPCG(1, 2)}
		g := &guide{rand.New(d), w.entry}
		w.begin()
		l := g.limit()
		var made []move
		for n := 0; len(d.chosen) > 0 && n < moves; n++ {
			if g.IntN(4) == 0 {
				l = g.change(l)
			}
			m := g.move(w, l, n)
			made = append(made, m)
			if err := w.play(m); err != nil {
				t.Fatalf("%s:\n%s", w.entry.Name, w.explain(made))
			}
		}
	})
}
