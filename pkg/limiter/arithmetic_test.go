package limiter_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/rlctl/rlctl/scripts"
)

var (
	arguments = regexp.MustCompile(`(?s)\nlocal argv, key, call.*?\nif not good then\n.*?\nend\n`)
	muldiv    = regexp.MustCompile(`(?s)\n-- a \* b / c .*?\nend\n`)
)

// TestSharedPartsAreTheSame holds what each script repeats, to be complete in itself, to one text.
func TestSharedPartsAreTheSame(t *testing.T) {
	for part, c := range map[*regexp.Regexp]int{arguments: 9, muldiv: 3} {
		texts, n := map[string]bool{}, 0
		for _, name := range scripts.Names() {
			source, _ := scripts.Source(name)
			if found := part.FindString(source); found != "" {
				texts[found], n = true, n+1
			}
		}
		if n != c || len(texts) != 1 {
			t.Errorf("%d scripts of %d have this part, in %d forms: %s", n, c, len(texts), part)
		}
	}
}

// TestScriptsOpenWithTheirIdea wants 10 to 30 lines of how it works before the first statement, and the habits that
// keep numbers exact.
func TestScriptsOpenWithTheirIdea(t *testing.T) {
	eachScript(t, func(t *testing.T, name string) {
		source, _ := scripts.Source(name)
		head, body, _ := strings.Cut(source, "\n\n")
		if n := strings.Count(head, "\n") + 1; n < 10 || n > 30 || !strings.HasPrefix(head, "-- "+name+": ") {
			t.Errorf("%d lines at the head", n)
		}
		for _, line := range strings.Split(head, "\n") {
			if !strings.HasPrefix(line, "--") {
				t.Errorf("%q is at the head", line)
			}
		}
		for _, word := range []string{"tostring", "KEYS[2]", "'EXPIRE'", "math.random", "cjson"} {
			if strings.Contains(body, word) {
				t.Errorf("%s is used", word)
			}
		}
	})
}

// TestMuldiv holds the products that pass 2^53 to exact arithmetic, at the bounds of what the scripts ask for.
func TestMuldiv(t *testing.T) {
	const most = 1 << 53
	r := newRig(t)
	source, _ := scripts.Source("gcra")
	call := "local floor = math.floor\n" + muldiv.FindString(source) + `
		local out = {}
		for i = 1, #ARGV, 3 do
			local q, r = muldiv(ARGV[i] + 0, ARGV[i + 1] + 0, ARGV[i + 2] + 0)
			out[#out + 1] = string.format('%.0f %.0f', q, r)
		end
		return out`
	rng := rand.New(rand.NewPCG(1, 2))
	near := func(limit int64) int64 { // often close to a bound or to a power of two
		v := rng.Int64N(limit) + 1
		switch rng.IntN(4) {
		case 0:
			v = limit - rng.Int64N(min(limit, 3))
		case 1:
			v >>= rng.IntN(50)
		case 2:
			v = min(limit, int64(1)<<rng.IntN(53)+rng.Int64N(3)-1)
		}
		return max(v, 1)
	}
	var args []any
	var want []string
	for len(want) < 20_000 {
		a, b, c := near(most-1), near(31622400000000), near(31622400000000)
		q, rest := new(big.Int).DivMod(new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), big.NewInt(c), new(big.Int))
		if q.BitLen() > 53 {
			continue
		}
		args = append(args, a, b, c)
		want = append(want, fmt.Sprint(q, " ", rest))
	}
	for i := 0; i < len(want); i += 1000 {
		got := r.do(append([]any{"eval", call, 0}, args[3*i:3*i+3000]...)...).([]any)
		for j := range got {
			if k := i + j; got[j] != want[k] {
				t.Fatalf("muldiv%v = %v, want %v", args[3*k:3*k+3], got[j], want[k])
			}
		}
	}
}
