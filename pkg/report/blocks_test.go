package report

import (
	"errors"
	"strings"
	"testing"
)

func TestFillBlocks(t *testing.T) {
	const page = "head\n<!-- rlctl:race a.json -->\nold\n\nolder\n<!-- /rlctl -->\nmiddle <!-- rlctl:race x -->\n" +
		"<!-- rlctl:both a.json b.json -->\n<!-- /rlctl -->\nno newline at the end"
	const want = "head\n<!-- rlctl:race a.json -->\n\nrace of a.json\n\n<!-- /rlctl -->\nmiddle <!-- rlctl:race x -->\n" +
		"<!-- rlctl:both a.json b.json -->\n\nboth of a.json b.json\n\n<!-- /rlctl -->\nno newline at the end"
	fill := func(kind string, words []string) (string, error) {
		return kind + " of " + strings.Join(words, " ") + "\n\n", nil
	}
	got, err := FillBlocks(page, fill)
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if again, err := FillBlocks(got, fill); err != nil || again != got {
		t.Errorf("filled twice it differs: %v\n%s", err, again)
	}
	for page, want := range map[string]string{
		"a\n<!-- rlctl:race a -->\nb":                  "line 2: the block has no end",
		"a\n<!-- /rlctl -->\n":                         "line 2: <!-- /rlctl --> does not belong here",
		"<!-- rlctl:race a -->\n<!-- rlctl:race b -->": "line 2: <!-- rlctl:race b --> does not belong here",
		"<!-- rlctl:race a-->\n<!-- /rlctl -->":        "line 1: not a mark",
		"\n\n<!-- rlctl:bad a -->\n<!-- /rlctl -->\n":  "line 3: no such file",
	} {
		_, err := FillBlocks(page, func(kind string, _ []string) (string, error) {
			if kind == "bad" {
				return "", errors.New("no such file")
			}
			return "", nil
		})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", page, err, want)
		}
	}
}
