package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape makes text safe to print: control characters, line breaks, bytes that are not UTF-8 and characters that
// reorder or hide text become Go escapes such as \n, \x1b and \u202e. All else stays as it is, a backslash too, so
// the result is for reading; JSON holds the exact text.
func Escape(text string) string {
	if strings.IndexFunc(text, hidden) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case hidden(r):
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
		text = text[n:]
	}
	return b.String()
}

// escapeMarkdown makes text stand in Markdown as it is: what would be code, a link, emphasis, HTML or the end of a cell there
// is preceded by a backslash. An underscore inside a word means nothing, and < before anything but a tag's name.
func escapeMarkdown(text string) string {
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
	var b strings.Builder
	last := ' '
	for i, r := range text {
		next, _ := utf8.DecodeRuneInString(text[i+1:])
		means := strings.ContainsRune("\\`*[]&|", r)
		switch r {
		case '_':
			means = !word(last) || !word(next)
		case '<':
			means = word(next) || strings.ContainsRune("/!?", next)
		}
		if means {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
		last = r
	}
	return b.String()
}

func hidden(r rune) bool { return !unicode.IsPrint(r) }
