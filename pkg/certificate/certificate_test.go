package certificate

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// whole is a log of 2 per ms that admitted 3.
func whole() Certificate {
	c := Certificate{Schema: Schema, Limiter: "naive-log", Rule: "sliding-log", Key: "k", Limit: 2, WindowUS: 1000, Burst: 2,
		FromUS: 5_000, ToUS: 5_999, Most: 2, Admitted: 3}
	for i := range int64(3) {
		c.Admissions = append(c.Admissions, Admission{Client: int(i), Seq: 1, Cost: 1, CallNS: i, ReturnNS: 400_000 + i, FromUS: 5_000 + i, ToUS: 5_400 + i})
	}
	return c.Sealed()
}

func TestAWholeCertificateIsTaken(t *testing.T) {
	text, err := json.Marshal(whole())
	if err != nil {
		t.Fatal(err)
	}
	c, err := Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

func TestATamperedOneIsRefused(t *testing.T) {
	for what, tamper := range map[string]func(*Certificate){
		"a higher limit":         func(c *Certificate) { c.Limit = 3 },
		"a shorter window":       func(c *Certificate) { c.WindowUS = 500 },
		"another rule":           func(c *Certificate) { c.Rule = "fixed-windows" },
		"a wider interval":       func(c *Certificate) { c.ToUS++ },
		"a narrower interval":    func(c *Certificate) { c.FromUS++ },
		"less admitted":          func(c *Certificate) { c.Admitted-- },
		"less allowed":           func(c *Certificate) { c.Most-- },
		"an admission less":      func(c *Certificate) { c.Admissions = c.Admissions[1:] },
		"one less, and the sum":  func(c *Certificate) { c.Admissions, c.Admitted = c.Admissions[1:], 2 },
		"an admission twice":     func(c *Certificate) { c.Admissions[1] = c.Admissions[0] },
		"a free one":             func(c *Certificate) { c.Admissions[0].Cost, c.Admissions[1].Cost = 2, 0 },
		"one before":             func(c *Certificate) { c.Admissions[0].FromUS-- },
		"one after":              func(c *Certificate) { c.Admissions[0].ToUS = 6_000 },
		"a span that was cut":    func(c *Certificate) { c.Admissions[0].ToUS = 5_200 },
		"two at once":            func(c *Certificate) { c.Admissions[1].Client, c.Admissions[1].Seq = 0, 2 },
		"one that ends at first": func(c *Certificate) { c.Admissions[2].ReturnNS = -1 },
		"no interval":            func(c *Certificate) { c.ToUS = 4_000 },
	} {
		c := whole()
		tamper(&c)
		if err := c.Sealed().Check(); err == nil {
			t.Errorf("%s was taken", what)
		}
	}
}

// TestAnyNumberThatWasChangedIsFound: whether or not the proof rests on it.
func TestAnyNumberThatWasChangedIsFound(t *testing.T) {
	text, err := json.Marshal(whole())
	if err != nil {
		t.Fatal(err)
	}
	numbers := regexp.MustCompile(`:(\d+)`).FindAllSubmatchIndex(text, -1)
	for _, at := range numbers {
		other := slices.Concat(text[:at[2]], []byte("7"), text[at[2]:]) // a digit more
		c, err := Read(bytes.NewReader(other))
		if err != nil {
			t.Fatal(err)
		}
		if c.Check() == nil {
			t.Errorf("taken: %s", other)
		}
	}
	if len(numbers) != 7+3*8 {
		t.Errorf("changed %d numbers", len(numbers))
	}
}

func TestWhatRulesAdmit(t *testing.T) {
	for _, c := range []struct {
		rule     string
		from, to int64
		most     int64
	}{
		{"sliding-log", 5_500, 6_499, 2}, {"sliding-log", 5_500, 6_500, 4}, {"compact-log", 5_500, 5_500, 2},
		{"fixed-window", 5_999, 6_000, 4}, {"fixed-window", 5_000, 5_999, 2},
		{"token-bucket", 5_000, 5_000, 7}, {"token-bucket", 5_000, 5_499, 7}, {"gcra", 5_000, 5_500, 8},
		{"sliding-counter", 5_000, 5_999, 2}, {"sliding-counter", 5_999, 6_000, 2}, {"sliding-counter", 5_999, 6_999, 3},
	} {
		got, err := Certificate{Rule: c.rule, Limit: 2, WindowUS: 1000, Burst: 7, FromUS: c.from, ToUS: c.to}.most()
		if err != nil || got.Int64() != c.most {
			t.Errorf("%s from %d to %d: %v, want %d: %v", c.rule, c.from, c.to, got, c.most, err)
		}
	}
}

func TestRubbishIsNoCertificate(t *testing.T) {
	for _, text := range []string{"", "{}", `{"schema":"rlctl.race/v1"}`, `{"schema":"rlctl.certificate/v1","more":1}`} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
