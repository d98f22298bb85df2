package report

import (
	"fmt"
	"regexp"
	"strings"
)

// A page has generated parts between two lines of their own, which say what they are made of:
//
//	<!-- rlctl:KIND WORD... -->
//	<!-- /rlctl -->
var blockBegin = regexp.MustCompile(`^<!-- rlctl:(\S+)((?: \S+)*) -->$`)

const blockEnd = "<!-- /rlctl -->"

// FillBlocks gives each marked block of a page the content that fill returns for its mark, and leaves all else as it
// is. The error of a block names its line, counted from 1.
func FillBlocks(page string, fill func(kind string, words []string) (string, error)) (string, error) {
	var b strings.Builder
	open := 0 // the line where the block began that we are in
	for i, line := range strings.SplitAfter(page, "\n") {
		mark := strings.TrimSuffix(line, "\n")
		begin := blockBegin.FindStringSubmatch(mark)
		switch {
		case begin == nil && strings.HasPrefix(mark, "<!-- rlctl:"):
			return "", fmt.Errorf("line %d: not a mark: %s", i+1, mark)
		case begin != nil && open > 0, mark == blockEnd && open == 0:
			return "", fmt.Errorf("line %d: %s does not belong here", i+1, mark)
		case begin != nil:
			open = i + 1
			content, err := fill(begin[1], strings.Fields(begin[2]))
			if err != nil {
				return "", fmt.Errorf("line %d: %w", open, err)
			}
			fmt.Fprintf(&b, "%s\n%s\n", line, strings.TrimRight(content, "\n")+"\n")
		case mark == blockEnd:
			open = 0
		}
		if open == 0 {
			b.WriteString(line)
		}
	}
	if open > 0 {
		return "", fmt.Errorf("line %d: the block has no end: %s", open, blockEnd)
	}
	return b.String(), nil
}
