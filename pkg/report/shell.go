package report

import "strings"

// ShellWord is a word as a shell reads it, in quotes where it has to be.
func ShellWord(word string) string {
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !bare(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// bare tells whether a shell takes the rune for itself.
func bare(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune("-_./:=,@%+", r)
}
