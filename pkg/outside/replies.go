package outside

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// replyName is what one number of a script's reply means.
type replyName struct {
	name string        // allowed, denied, count, remaining, retry, reset, now; empty: nothing
	unit time.Duration // of retry, reset and now
}

// knownReplies are the words of a mapping's line of replies.
func knownReplies() map[string]replyName {
	return map[string]replyName{
		"_": {}, "allowed": {name: "allowed"}, "denied": {name: "denied"}, "count": {name: "count"}, "remaining": {name: "remaining"},
		"retry_us": {"retry", time.Microsecond}, "retry_ms": {"retry", time.Millisecond}, "retry_s": {"retry", time.Second},
		"reset_us": {"reset", time.Microsecond}, "reset_ms": {"reset", time.Millisecond}, "reset_s": {"reset", time.Second},
		"now_us": {"now", time.Microsecond},
	}
}

func replyNames(words []string) (out []replyName, err error) {
	known := knownReplies()
	for _, w := range words {
		r, ok := known[w]
		if !ok {
			names := []string{}
			for name := range known {
				names = append(names, name)
			}
			slices.Sort(names)
			return nil, fmt.Errorf("a reply cannot hold %q: want some of %s", w, strings.Join(names, " "))
		}
		if r.name != "" && says(out, r.name) {
			return nil, fmt.Errorf("the reply holds %s twice", r.name)
		}
		out = append(out, r)
	}
	switch {
	case says(out, "allowed") && says(out, "denied"):
		return nil, errors.New("the reply holds allowed and denied: one of them says it")
	case !says(out, "allowed") && !says(out, "denied") && !says(out, "count") && !says(out, "retry"):
		return nil, errors.New("the reply does not tell who is let in: want allowed, denied, count or a retry")
	}
	return out, nil
}

func says(names []replyName, name string) bool {
	return slices.ContainsFunc(names, func(r replyName) bool { return r.name == name })
}

// whole tells whether a reply holds all of a Decision, by the server's clock and to the microsecond.
func (m mapping) whole() bool {
	exact := func(name string) bool { return slices.Contains(m.reply, replyName{name, time.Microsecond}) }
	return !m.callers && (says(m.reply, "allowed") || says(m.reply, "denied")) && says(m.reply, "remaining") &&
		exact("retry") && exact("reset") && exact("now")
}

// told is what a reply said.
type told struct {
	allowed          bool
	count, remaining int64
	retry, reset     time.Duration
	now              time.Time
}

// decision reads a reply. One that does not fit the mapping is an error, and never a denial.
func (m mapping) decision(reply any, l limiter.Limit) (limiter.Decision, error) {
	values := []any{reply}
	if list, ok := reply.([]any); ok {
		values = list
	}
	if len(values) != len(m.reply) {
		return limiter.Decision{}, fmt.Errorf("the reply holds %d values, where the mapping has %d", len(values), len(m.reply))
	}
	var t told
	for i, r := range m.reply {
		if err := t.hear(r, values[i]); err != nil {
			return limiter.Decision{}, fmt.Errorf("value %d of the reply, %s: %w", i+1, r.name, err)
		}
	}
	switch {
	case says(m.reply, "allowed") || says(m.reply, "denied"):
	case says(m.reply, "count"):
		t.allowed, t.remaining = t.count <= l.Events, max(t.remaining, l.Events-t.count)
	default:
		t.allowed = t.retry == 0
	}
	d := limiter.Decision{Allowed: t.allowed, Remaining: t.remaining, RetryAfter: t.retry, ResetAfter: t.reset}
	switch {
	case t.allowed && t.retry > 0:
		return limiter.Decision{}, fmt.Errorf("the reply allows, and says to wait %v", t.retry)
	case t.allowed:
		d.RetryAfter = 0
	}
	if m.whole() { // else nobody shall compare what it does not tell
		d.At = t.now
	}
	return d, nil
}

// hear takes one value.
func (t *told) hear(r replyName, value any) (err error) {
	switch r.name {
	case "allowed", "denied":
		n, err := wholeNumber(value)
		if err == nil && n != 0 && n != 1 {
			err = fmt.Errorf("%d is neither 0 nor 1", n)
		}
		t.allowed = (n == 1) == (r.name == "allowed")
		return err
	case "count":
		t.count, err = notNegative(value)
	case "remaining":
		t.remaining, err = notNegative(value)
	case "retry":
		t.retry, err = duration(value, r.unit)
		if err == nil && t.retry < 0 && t.retry != -r.unit {
			err = errors.New("a negative time other than -1")
		} else if t.retry < 0 {
			t.retry = limiter.Never
		}
	case "reset":
		if t.reset, err = duration(value, r.unit); err == nil && t.reset < 0 {
			err = errors.New("a negative time")
		}
	case "now":
		var us int64
		if us, err = notNegative(value); err == nil && (us == 0 || us > 1<<53) {
			err = fmt.Errorf("%d us is no time of a server's clock", us)
		}
		t.now = time.UnixMicro(us)
	}
	return err
}

// wholeNumber reads an integer, or a text that is one.
func wholeNumber(value any) (int64, error) {
	switch v := value.(type) {
	case int64:
		return v, nil
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%.40q is no whole number", v)
		}
		return n, nil
	case nil:
		return 0, errors.New("it is nil, as Lua's nil and false are in a reply")
	case error:
		return 0, v
	}
	return 0, fmt.Errorf("it is no number, but a %T", value)
}

func notNegative(value any) (int64, error) {
	n, err := wholeNumber(value)
	if err == nil && n < 0 {
		err = fmt.Errorf("%d is negative", n)
	}
	return n, err
}

// duration reads a number of units: an integer, or a text that may have a fraction.
func duration(value any, unit time.Duration) (time.Duration, error) {
	if text, ok := value.(string); ok {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.Abs(f) > float64(math.MaxInt64/2)/float64(unit) {
			return 0, fmt.Errorf("%.40q is no time", text)
		}
		us := math.Ceil(f * float64(unit/time.Microsecond))
		return time.Duration(us) * time.Microsecond, nil
	}
	n, err := wholeNumber(value)
	if err == nil && (n > math.MaxInt64/int64(unit) || n < -1) {
		err = fmt.Errorf("%d is no time", n)
	}
	return time.Duration(n) * unit, err
}
