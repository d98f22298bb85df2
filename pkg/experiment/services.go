package experiment

import (
	"fmt"

	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// What a service says in headers is judged beside its verdict and does not change it: the verdict tells whether callers
// got more than the rule gives, and a wrong header gives nobody anything. But it misleads those who obey it, so it is
// shown wherever the verdict is.

// headersOf judges the headers of one key; nil of a limiter that has none.
func headersOf(e target.Entry, ops []history.Op, course replay.Course) *replay.Headers {
	if !e.Service {
		return nil
	}
	h := replay.JudgeHeaders(ops, e.Judged(), course)
	return &h
}

// together are the headers of several keys.
func together(a, b *replay.Headers) *replay.Headers {
	if a == nil || b == nil {
		return b
	}
	sum := *a
	sum.Add(*b)
	return &sum
}

// headerNotes says what a limiter's headers came to.
func headerNotes(name string, h *replay.Headers) []report.Line {
	if h == nil {
		return nil
	}
	tone, word := report.Good, "headers"
	switch {
	case h.Denials+h.Told == 0:
		tone = report.Neutral
	case !h.Honest():
		tone, word = report.Bad, "DISHONEST headers"
	case h.Silent > 0:
		tone = report.Warn
	}
	return []report.Line{{{Text: fmt.Sprintf("%s: %s: %s; %s", name, word, retryText(h), remainingText(h)), Tone: tone}}}
}

func retryText(h *replay.Headers) string {
	honest := h.Denials - h.Silent - h.TooShort - h.TooLong
	switch {
	case h.Denials == 0:
		return "no denial that could name a wait"
	case h.Silent == h.Denials:
		return "no Retry-After on " + outOf(h.Silent, h.Denials, "denial", "denials")
	}
	return "Retry-After honest on " + outOf(honest, h.Denials, "denial", "denials") +
		but(h.Silent, "missing or 0") + but(h.TooShort, "too short") + but(h.TooLong, "too long")
}

func remainingText(h *replay.Headers) string {
	text := "what remains is not told"
	if h.Told > 0 {
		text = "remaining honest on " + outOf(h.Told-h.TooMuch-h.Garbled, h.Told, "answer", "answers")
	}
	return text + but(h.TooMuch, "too high") + but(h.Garbled, "no number") + but(h.LateFull, "reset too late")
}

func outOf(n, of int64, one, many string) string {
	return report.Int(n) + " of " + report.Count(of, one, many)
}

// but is nothing if there is nothing to say.
func but(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return ", " + what + " on " + report.Int(n)
}
