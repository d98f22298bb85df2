package target_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/target"
)

func TestCatalogueIsWhole(t *testing.T) {
	want := []string{
		"sliding-log", "naive-log", "naive-pipeline", "charging-log", "compact-log", "sliding-counter",
		"fixed-window", "naive-counter", "naive-expire",
		"token-bucket", "naive-bucket", "local-bucket", "skewed-bucket", "watch-bucket", "gcra", "cached-gcra",
		"semaphore", "naive-semaphore", "skewed-semaphore",
	}
	var names []string
	for _, e := range target.Catalogue() {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("rows\n%v, want\n%v", names, want)
	}
}

func TestRowsAreFilled(t *testing.T) {
	atomic := ""
	for _, e := range target.Catalogue() {
		if e.Summary == "" || len(e.Summary) > 60 || len(e.Flaw) > 60 {
			t.Errorf("%s: summary %q and flaw %q, want 1 to 60 bytes and at most 60", e.Name, e.Summary, e.Flaw)
		}
		if e.BrokenBy == "" || e.State == "" || e.Worst == "" || e.Rule.Fresh == nil || e.Rule.Most == nil || e.New == nil {
			t.Errorf("%s: a field is empty", e.Name)
		}
		if e.Atomic() {
			atomic = e.Name
			if e.Flaw != "" || e.BrokenBy != target.Nothing {
				t.Errorf("%s is atomic and has a flaw", e.Name)
			}
		} else if e.Twin != atomic || e.Flaw == "" {
			t.Errorf("%s stands below %q, twin %q, flaw %q", e.Name, atomic, e.Twin, e.Flaw)
		}
	}
}

// TestRowsImitateTheirTwins asks the model of each naive row and of its twin the same: one rule.
func TestRowsImitateTheirTwins(t *testing.T) {
	l := limiter.Limit{Events: 3, Window: time.Second, Burst: 5}
	for _, e := range target.Catalogue() {
		if e.Atomic() {
			continue
		}
		twin, err := target.Find(target.Catalogue(), e.Twin)
		if err != nil {
			t.Fatal(err)
		}
		mine, its := e.Rule.Fresh, twin.Rule.Fresh
		for i := range 40 {
			at := time.UnixMicro(1_700_000_000_000_000 + int64(i)*140_000)
			var d, want limiter.Decision
			mine, d = mine.Check(at, model.Request{Limit: l, Cost: 1, ID: at.String()})
			its, want = its.Check(at, model.Request{Limit: l, Cost: 1, ID: at.String()})
			if d != want {
				t.Fatalf("%s decides %+v where %s decides %+v", e.Name, d, e.Twin, want)
			}
		}
	}
}

func TestFind(t *testing.T) {
	for name, want := range map[string]string{
		"gcra":            "",
		"gcr":             "gcra cached-gcra",
		"GCRA":            "gcra cached-gcra",
		"sliding-lgo":     "sliding-log",
		"bucket":          "token-bucket naive-bucket local-bucket",
		"naive-conter":    "naive-counter",
		"":                "",
		"leaky":           "",
		"x":               "",
		"something-else!": "",
	} {
		e, err := target.Find(target.Catalogue(), name)
		if name == "gcra" {
			if err != nil || e.Name != name {
				t.Errorf("found %q, %v", e.Name, err)
			}
			continue
		}
		var unknown *target.ErrUnknownLimiter
		if !errors.As(err, &unknown) || unknown.Name != name || strings.Join(unknown.Close, " ") != want {
			t.Errorf("%q: %+v, want an unknown limiter near %q", name, err, want)
		}
	}
}

func TestExtend(t *testing.T) {
	like := func(name, twin string) target.Entry {
		e := target.Catalogue()[0]
		e.Name, e.Twin = name, twin
		return e
	}
	all, err := target.Extend(target.Catalogue(), like("rival", ""), like("racy-rival", "rival"), like("naive-gcra", "gcra"))
	if err != nil {
		t.Fatal(err)
	}
	var tail []string
	for _, e := range all[slices.Index(target.Names(all), "gcra"):] {
		tail = append(tail, e.Name)
	}
	if !slices.Equal(tail, []string{
		"gcra", "naive-gcra", "cached-gcra", "semaphore", "naive-semaphore", "skewed-semaphore", "rival", "racy-rival",
	}) {
		t.Errorf("the last rows are %v", tail)
	}
	for _, bad := range [][]target.Entry{
		{like("gcra", "")},
		{like("rival", ""), like("rival", "")},
		{like("", "")},
		{like("racy", "nobody")},
		{like("racy", "naive-log")},
		{{Name: "empty"}},
	} {
		if _, err := target.Extend(target.Catalogue(), bad...); err == nil {
			t.Errorf("rows %q, twin %q were taken", bad[0].Name, bad[0].Twin)
		}
	}
}
