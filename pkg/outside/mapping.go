package outside

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// A mapping stands in comments of a Lua file, anywhere in it, one line for each of
//
//	-- rlctl: keys  {key}
//	-- rlctl: argv  {limit} {window_s}
//	-- rlctl: reply count
//
// Words of keys and argv are separated by spaces; each is text in which {…} stands for a value. Without keys the script
// gets the one key; without argv no arguments. A file without any of these lines keeps the contract of our own scripts.
//
// docs/scripts.md is this for its users.

// mapping says what a script gets and how it replies.
type mapping struct {
	keys, argv []template
	reply      []replyName
	units      bool // a request takes one event: argv holds no cost
	callers    bool // argv holds the caller's clock
}

// mappingMark begins each line of a mapping, behind the dashes of a comment.
const mappingMark = "rlctl:"

// parseMapping reads the mapping in a source; ok is false where there is none. An error begins with the number of the
// line at fault.
func parseMapping(source string) (m mapping, ok bool, err error) {
	seen := map[string]int{}
	n := 0
	for text := range strings.Lines(source) {
		n++
		comment, is := strings.CutPrefix(strings.TrimSpace(text), "--")
		text, is2 := strings.CutPrefix(strings.TrimLeft(comment, "- \t"), mappingMark)
		if !is || !is2 {
			continue
		}
		what, words := "", strings.Fields(text)
		if len(words) > 0 {
			what, words = words[0], words[1:]
		}
		if before := seen[what]; before > 0 {
			return m, true, fmt.Errorf("%d: another line of %s, as line %d", n, what, before)
		}
		seen[what] = n
		if err := m.add(what, words); err != nil {
			return m, true, fmt.Errorf("%d: %w", n, err)
		}
	}
	switch {
	case len(seen) == 0:
		return m, false, nil
	case seen["reply"] == 0:
		return m, true, fmt.Errorf("%d: a mapping without a line that says how the script replies, such as: -- rlctl: reply allowed", n)
	case seen["keys"] == 0:
		m.keys = []template{{{word: "key"}}}
	}
	m.units = !holds(m.argv, "cost")
	m.callers = holds(m.argv, "now_us") || holds(m.argv, "now_ms") || holds(m.argv, "now_s")
	return m, true, nil
}

// add takes the words of one line.
func (m *mapping) add(what string, words []string) (err error) {
	switch what {
	case "keys":
		m.keys, err = templates(words)
		return errors.Join(err, checkKeys(m.keys))
	case "argv":
		m.argv, err = templates(words)
		return err
	case "reply":
		m.reply, err = replyNames(words)
		return err
	}
	return fmt.Errorf("%q is none of keys, argv, reply", what)
}

// checkKeys sees to it that all keys of a client are its own, and in one slot of a cluster.
func checkKeys(keys []template) error {
	if len(keys) == 0 {
		return errors.New("keys wants one key or more, each with {key} in it")
	}
	for _, k := range keys {
		for _, p := range k {
			if isCalls(p.word) && p.word != "key" {
				return fmt.Errorf("{%s} differs from call to call and cannot be part of a key", p.word)
			}
		}
		if !holds([]template{k}, "key") {
			return errors.New("every key must hold {key}, or two clients would share it")
		}
	}
	return nil
}

// template is one key or argument: its pieces in their order.
type template []piece

// piece is text, or a word that stands for a value.
type piece struct{ text, word string }

func templates(words []string) (out []template, err error) {
	for _, w := range words {
		t, err := parseTemplate(w)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func parseTemplate(text string) (t template, err error) {
	for rest := text; rest != ""; {
		before, after, opened := strings.Cut(rest, "{")
		if strings.Contains(before, "}") {
			return nil, fmt.Errorf("%q closes a brace that is not open", text)
		}
		if before != "" {
			t = append(t, piece{text: before})
		}
		if !opened {
			break
		}
		word, following, closed := strings.Cut(after, "}")
		if !closed {
			return nil, fmt.Errorf("%q opens a brace and does not close it", text)
		}
		if !isCalls(word) && !isLimits(word) {
			return nil, fmt.Errorf("{%s} stands for nothing: want one of {%s}", word, strings.Join(argumentWords(), "} {"))
		}
		t = append(t, piece{word: word})
		rest = following
	}
	return t, nil
}

func holds(ts []template, word string) bool {
	return slices.ContainsFunc(ts, func(t template) bool {
		return slices.ContainsFunc(t, func(p piece) bool { return p.word == word })
	})
}

// argumentWords are all that {…} can hold.
func argumentWords() []string {
	return append([]string{"key", "cost", "id", "now_us", "now_ms", "now_s"},
		"limit", "burst", "window_us", "window_ms", "window_s", "rate_per_s", "rate_per_ms")
}

// isCalls tells whether a word stands for what differs from call to call.
func isCalls(word string) bool { return slices.Contains(argumentWords()[:6], word) }

// isLimits tells whether a word stands for what a limit holds.
func isLimits(word string) bool { return slices.Contains(argumentWords()[6:], word) }

// ofLimit is what a word of the limit stands for. A window that is no whole number of the unit is a FieldError.
func ofLimit(l limiter.Limit, word string) (string, error) {
	switch word {
	case "limit":
		return strconv.FormatInt(l.Events, 10), nil
	case "burst":
		return strconv.FormatInt(l.Capacity(), 10), nil
	case "window_us":
		return inUnits(l.Window, time.Microsecond, "microseconds")
	case "window_ms":
		return inUnits(l.Window, time.Millisecond, "milliseconds")
	case "window_s":
		return inUnits(l.Window, time.Second, "seconds")
	case "rate_per_s":
		return strconv.FormatFloat(float64(l.Events)/l.Window.Seconds(), 'f', -1, 64), nil
	}
	return strconv.FormatFloat(float64(l.Events)/(l.Window.Seconds()*1000), 'f', -1, 64), nil // rate_per_ms
}

func inUnits(d, unit time.Duration, name string) (string, error) {
	if d%unit != 0 {
		return "", &limiter.FieldError{Field: "window", Problem: "must be whole " + name + ", in which the script takes it"}
	}
	return strconv.FormatInt(int64(d/unit), 10), nil
}

// bind puts in what the limit says, so that only what differs from call to call is left.
func bind(ts []template, l limiter.Limit) ([]template, error) {
	out := make([]template, len(ts))
	for i, t := range ts {
		for _, p := range t {
			if isLimits(p.word) {
				text, err := ofLimit(l, p.word)
				if err != nil {
					return nil, err
				}
				p = piece{text: text}
			}
			if last := len(out[i]) - 1; last >= 0 && p.word == "" && out[i][last].word == "" {
				out[i][last].text += p.text
				continue
			}
			out[i] = append(out[i], p)
		}
	}
	return out, nil
}

// asked is what a call is of.
type asked struct {
	key, id string
	cost    int64
	now     time.Time // by the caller's clock
}

// fill makes the texts that a call sends.
func fill(ts []template, a asked) []string {
	out := make([]string, len(ts))
	for i, t := range ts {
		if len(t) == 1 {
			out[i] = t[0].of(a)
			continue
		}
		for _, p := range t {
			out[i] += p.of(a)
		}
	}
	return out
}

func (p piece) of(a asked) string {
	switch p.word {
	case "key":
		return a.key
	case "cost":
		return strconv.FormatInt(a.cost, 10)
	case "id":
		return a.id
	case "now_us":
		return strconv.FormatInt(a.now.UnixMicro(), 10)
	case "now_ms":
		return strconv.FormatInt(a.now.UnixMilli(), 10)
	case "now_s":
		return strconv.FormatInt(a.now.Unix(), 10)
	}
	return p.text
}
