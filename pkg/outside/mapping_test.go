package outside

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

func TestMappingIsRead(t *testing.T) {
	t.Parallel()
	source := "#!lua flags=no-writes\n-- a limiter\n--- rlctl:  keys\t{key}:tokens x{key}:{limit}\n" +
		"local a = 1\n  --rlctl: argv {limit} {burst} {window_ms} {rate_per_s} {rate_per_ms} {cost} {id} {now_us} {now_ms} {now_s} {id}-{cost} plain\n" +
		"-- rlctl: reply allowed _ retry_s\nreturn a\n"
	m, ok, err := parseMapping(source)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if m.units || !m.callers || m.whole() {
		t.Errorf("units %v, callers %v, whole %v", m.units, m.callers, m.whole())
	}
	l := limiter.Limit{Events: 90, Window: time.Minute, Burst: 7}
	keys, err := bind(m.keys, l)
	if err != nil {
		t.Fatal(err)
	}
	argv, err := bind(m.argv, l)
	if err != nil {
		t.Fatal(err)
	}
	a := asked{key: "p:{c}:gcra", id: "id-1", cost: 3, now: time.UnixMicro(1_700_000_000_999_999)}
	if got, want := fill(keys, a), []string{"p:{c}:gcra:tokens", "xp:{c}:gcra:90"}; !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
	want := []string{
		"90", "7", "60000", "1.5", "0.0015", "3", "id-1", "1700000000999999", "1700000000999", "1700000000", "id-1-3", "plain",
	}
	if got := fill(argv, a); !slices.Equal(got, want) {
		t.Errorf("argv %q, want %q", got, want)
	}
}

func TestMappingByDefault(t *testing.T) {
	t.Parallel()
	if _, ok, err := parseMapping("-- rlctl runs this\nreturn 1\n"); ok || err != nil {
		t.Errorf("a file without a mapping: %v, %v", ok, err)
	}
	m, _, err := parseMapping("-- rlctl: reply allowed\r\nreturn 1")
	if err != nil {
		t.Fatal(err)
	}
	if got := fill(m.keys, asked{key: "k"}); !slices.Equal(got, []string{"k"}) || len(m.argv) > 0 || !m.units || m.callers {
		t.Errorf("keys %q, argv %v, units %v, callers %v", got, m.argv, m.units, m.callers)
	}
}

func TestMappingFaults(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"return 1\n-- rlctl: keys {key}\nreturn 2":               "without a line that says how the script replies",
		"-- rlctl: reply allowed\n-- rlctl: reply count":         "2: another line of reply, as line 1",
		"\n-- rlctl: args {limit}":                               `2: "args" is none of keys, argv, reply`,
		"-- rlctl:":                                              `1: "" is none of`,
		"-- rlctl: argv {limt}\n-- rlctl: reply count":           "1: {limt} stands for nothing: want one of {key}",
		"-- rlctl: argv {limit\n-- rlctl: reply count":           "1: \"{limit\" opens a brace",
		"-- rlctl: argv limit}\n-- rlctl: reply count":           "1: \"limit}\" closes a brace",
		"-- rlctl: argv {}\n-- rlctl: reply count":               "1: {} stands for nothing",
		"-- rlctl: keys\n-- rlctl: reply count":                  "1: keys wants one key or more",
		"-- rlctl: keys {key} other\n-- rlctl: reply count":      "1: every key must hold {key}",
		"-- rlctl: keys {key}:{now_s}\n-- rlctl: reply count":    "1: {now_s} differs from call to call",
		"-- rlctl: reply":                                        "1: the reply does not tell who is let in",
		"-- rlctl: reply remaining reset_s":                      "1: the reply does not tell who is let in",
		"-- rlctl: reply allowed denied":                         "1: the reply holds allowed and denied",
		"-- rlctl: reply allowed retry_s retry_ms":               "1: the reply holds retry twice",
		"-- rlctl: reply alowed":                                 `1: a reply cannot hold "alowed": want some of _ allowed count denied now_us remaining`,
		"-- rlctl: reply allowed now_ms":                         `1: a reply cannot hold "now_ms"`,
		"a = 1 -- rlctl: argv {limit}\n-- rlctl: reply whatever": `2: a reply cannot hold "whatever"`, // only a whole line is one
	} {
		_, ok, err := parseMapping(source)
		if err == nil || !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", source, err, want)
		}
	}
}

// A window is handed over exactly or not at all.
func TestMappingNeverRounds(t *testing.T) {
	t.Parallel()
	for word, window := range map[string]time.Duration{
		"window_s": 1500 * time.Millisecond, "window_ms": 1500 * time.Microsecond, "window_us": 1500 * time.Nanosecond,
	} {
		m, _, err := parseMapping("-- rlctl: argv {" + word + "}\n-- rlctl: reply count")
		if err != nil {
			t.Fatal(err)
		}
		_, err = bind(m.argv, limiter.Limit{Events: 1, Window: window})
		var field *limiter.FieldError
		if !errors.As(err, &field) || field.Field != "window" {
			t.Errorf("%s of %v: %v", word, window, err)
		}
		if got, err := bind(m.argv, limiter.Limit{Events: 1, Window: 2 * window}); err != nil || got[0][0].text != "3" && word != "window_us" {
			t.Errorf("%s of %v: %v, %v", word, 2*window, got, err)
		}
	}
}

func reading(t testing.TB, reply string) mapping {
	t.Helper()
	m, _, err := parseMapping("-- rlctl: argv {cost}\n-- rlctl: reply " + reply)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestReplies(t *testing.T) {
	t.Parallel()
	const now = int64(1_700_000_000_000_001)
	for _, c := range []struct {
		mapping string
		reply   any
		want    limiter.Decision
	}{
		{"allowed", int64(1), limiter.Decision{Allowed: true}},
		{"allowed", int64(0), limiter.Decision{}},
		{"allowed", []any{int64(1)}, limiter.Decision{Allowed: true}},
		{"allowed", "1", limiter.Decision{Allowed: true}},
		{"denied", int64(0), limiter.Decision{Allowed: true}},
		{"denied", int64(1), limiter.Decision{}},
		{"count", int64(10), limiter.Decision{Allowed: true}},
		{"count", int64(7), limiter.Decision{Allowed: true, Remaining: 3}},
		{"count", int64(11), limiter.Decision{}},
		{"count reset_s", []any{int64(11), int64(3)}, limiter.Decision{ResetAfter: 3 * time.Second}},
		{"retry_ms", int64(0), limiter.Decision{Allowed: true}},
		{"retry_ms", int64(5), limiter.Decision{RetryAfter: 5 * time.Millisecond}},
		{"retry_s", "0.7", limiter.Decision{RetryAfter: 700 * time.Millisecond}},
		{"retry_s", "0.0000001", limiter.Decision{RetryAfter: time.Microsecond}},
		{"retry_s", int64(-1), limiter.Decision{RetryAfter: limiter.Never}},
		{"allowed remaining _ retry_s", []any{int64(1), "4", nil, int64(-1)}, limiter.Decision{Allowed: true, Remaining: 4}},
		{"denied _ remaining retry_s reset_s", []any{int64(1), int64(10), int64(0), int64(2), int64(9)},
			limiter.Decision{RetryAfter: 2 * time.Second, ResetAfter: 9 * time.Second}},
		{"allowed remaining retry_us reset_us now_us", []any{int64(0), int64(2), int64(3), int64(4), now},
			limiter.Decision{Remaining: 2, RetryAfter: 3 * time.Microsecond, ResetAfter: 4 * time.Microsecond, At: time.UnixMicro(now)}},
		{"allowed remaining retry_ms reset_us now_us", []any{int64(0), int64(2), int64(3), int64(4), now},
			limiter.Decision{Remaining: 2, RetryAfter: 3 * time.Millisecond, ResetAfter: 4 * time.Microsecond}}, // a rounded time is not compared
		{"allowed now_us", []any{int64(1), now}, limiter.Decision{Allowed: true}},
	} {
		got, err := reading(t, c.mapping).decision(c.reply, limiter.Limit{Events: 10})
		if err != nil || got != c.want {
			t.Errorf("%s %v: got %+v, %v; want %+v", c.mapping, c.reply, got, err, c.want)
		}
	}
}

// What a reply says by the caller's clock is not taken for the server's.
func TestCallersClockIsNotTheServers(t *testing.T) {
	t.Parallel()
	m, _, err := parseMapping("-- rlctl: argv {now_us}\n-- rlctl: reply allowed remaining retry_us reset_us now_us")
	if err != nil {
		t.Fatal(err)
	}
	d, err := m.decision([]any{int64(1), int64(1), int64(0), int64(1), int64(1_700_000_000_000_000)}, limiter.Limit{Events: 10})
	if err != nil || !d.At.IsZero() || m.whole() {
		t.Errorf("got %+v, %v", d, err)
	}
}

// A reply that makes no sense is an error, and never a denial.
func TestRepliesThatDoNotFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mapping string
		reply   any
		says    string
	}{
		{"allowed", nil, "value 1 of the reply, allowed: it is nil"},
		{"allowed", int64(2), "2 is neither 0 nor 1"},
		{"allowed", int64(-1), "-1 is neither"},
		{"allowed", "yes", `"yes" is no whole number`},
		{"allowed", "0.5", `"0.5" is no whole number`},
		{"allowed", []any{}, "holds 0 values, where the mapping has 1"},
		{"allowed", []any{int64(1), int64(2)}, "holds 2 values"},
		{"allowed remaining", int64(1), "holds 1 values, where the mapping has 2"},
		{"allowed remaining", []any{int64(1), int64(-1)}, "-1 is negative"},
		{"allowed", true, "it is no number, but a bool"},
		{"allowed", []any{[]any{int64(1)}}, "it is no number"},
		{"allowed", []any{errors.New("WRONGTYPE no")}, "WRONGTYPE no"},
		{"denied", nil, "nil"},
		{"count", int64(-5), "negative"},
		{"count", nil, "nil"},
		{"retry_s", int64(-2), "no time"},
		{"retry_s", "-0.5", "negative time"},
		{"retry_s", "nan", "no time"},
		{"retry_s", "inf", "no time"},
		{"retry_s", int64(1 << 62), "no time"},
		{"allowed retry_s", []any{int64(1), int64(2)}, "allows, and says to wait 2s"},
		{"allowed reset_s", []any{int64(1), int64(-1)}, "negative"},
		{"allowed now_us", []any{int64(1), int64(0)}, "no time of a server's clock"},
	} {
		got, err := reading(t, c.mapping).decision(c.reply, limiter.Limit{Events: 10})
		if err == nil || !strings.Contains(err.Error(), c.says) || got != (limiter.Decision{}) {
			t.Errorf("%s %v: got %+v, %v; want %s", c.mapping, c.reply, got, err, c.says)
		}
	}
}

// FuzzMapping: what is not refused can be filled, and what is refused names its line.
func FuzzMapping(f *testing.F) {
	f.Add("-- rlctl: keys {key}:a {key}:b\n-- rlctl: argv {limit} {window_s} x{id}\n-- rlctl: reply allowed remaining _ retry_s\n")
	f.Add("-- rlctl: reply count\n-- rlctl: reply count\n")
	f.Add("--- rlctl:argv {{key}} }{ {now_us}{now_ms}\r\n--rlctl: reply denied")
	line := regexp.MustCompile(`^[1-9][0-9]*: `)
	f.Fuzz(func(t *testing.T, source string) {
		m, ok, err := parseMapping(source)
		if err != nil {
			if !ok || !line.MatchString(err.Error()) {
				t.Errorf("%v: %v", ok, err)
			}
			return
		}
		if !ok {
			return
		}
		for _, ts := range [][]template{m.keys, m.argv} {
			bound, err := bind(ts, limiter.Limit{Events: 3, Window: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			a := asked{key: "<{c}>", id: "i", cost: 2, now: time.UnixMicro(1)}
			if got := fill(bound, a); len(got) != len(ts) || slices.Contains(got, "") {
				t.Errorf("%v filled is %q", ts, got)
			}
		}
		for _, k := range fill(m.keys, asked{key: "<{c}>"}) {
			if _, tag, _ := strings.Cut(k, "{"); !strings.HasPrefix(tag, "c}") {
				t.Errorf("key %q has another tag", k)
			}
		}
	})
}

// FuzzReply: whatever a script replies is an error, or a decision that does not contradict itself.
func FuzzReply(f *testing.F) {
	all := []string{"_", "allowed", "denied", "count", "remaining", "retry_us", "retry_ms", "retry_s", "reset_us", "reset_s", "now_us"}
	f.Add([]byte{1}, int64(1), int64(0), "1", uint8(0))
	f.Add([]byte{1, 4, 5, 8, 10}, int64(0), int64(1_700_000_000_000_000), "5", uint8(1))
	f.Add([]byte{3, 7}, int64(-1), int64(1<<62), "0.3", uint8(2))
	f.Fuzz(func(t *testing.T, chosen []byte, a, b int64, text string, kind uint8) {
		words := make([]string, len(chosen))
		values := make([]any, len(chosen))
		for i, c := range chosen {
			words[i] = all[int(c)%len(all)]
			values[i] = []any{a, b, text, nil, []any{a}, fmt.Errorf("%s", text), float64(a), true}[(int(kind)+i*(1+int(c)/len(all)))%8]
		}
		names, err := replyNames(words)
		if err != nil {
			return
		}
		m := mapping{reply: names}
		d, err := m.decision(any(values), limiter.Limit{Events: 10, Window: time.Second})
		switch {
		case err != nil && d != (limiter.Decision{}):
			t.Errorf("%v %v: %+v beside %v", words, values, d, err)
		case err != nil:
		case d.Allowed && d.RetryAfter != 0, d.Remaining < 0, d.ResetAfter < 0, d.RetryAfter < limiter.Never, d.At.IsZero() == m.whole():
			t.Errorf("%v %v: %+v", words, values, d)
		}
	})
}
