package accesslog

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// Each line is read as one of each format, and held against what the standard library finds in it.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		`{"t":1,"k":{"d":"a\u00e9\"\\"},"c":3}`, `{"k":{"d":""},"k.d":[]}`, ` { "a" : [ 1 , -0.5e+10 , true , { } ] , "t" : null } `,
		`{"t":"\ud800"}`, `{"t":01}`, `{"t":1.}`, `{"t":"` + "\x01" + `"}`, `{}`, `{"a":{"b":{"c":[[[]]]}}}x`, `[1,2]`, `"a"`, `{"\u0074":7}`,
	} {
		f.Add(line)
	}
	for _, line := range []string{`a,b,c`, `"a","b ""c""",`, `a"b,c`, `"a`, `"a"b`, ``, `,`, `"",""""`, ` "a",b`} {
		f.Add(line)
	}
	for _, text := range []string{
		"2026-11-30T06:58:52Z", "2026-11-30 06:58:52.123456789+05:30", "2024-02-29T00:00:00-23:59", "1900-02-29T00:00:00Z",
		"30/Nov/2026:06:58:52 +0000", "29/Feb/2000:23:59:59 -0700", "1700000000", "1700000000.5", "1.7e9", "99999999999999999999", "1e999",
		"2026-11-30T06:58:60Z", "0000-01-01T00:00:00Z", "2026-11-30T06:58:52,123+0530", "2026-11-30 06:58:52.5 -08", "2026-11-30 06:58:52 Z",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, line string) {
		checkJSON(t, []byte(line))
		checkCSV(t, line)
		checkTime(t, line)
	})
}

// checkJSON takes for a line of JSON what encoding/json does, and finds the same in it.
func checkJSON(t *testing.T, line []byte) {
	got, wrong := newObjects(Spec{Time: "t", Key: "k.d", Cost: "c"}).find(line)
	if valid := json.Valid(line); valid == (wrong == notJSON) && bytes.Count(line, []byte("{"))+bytes.Count(line, []byte("[")) < maxDepth {
		t.Fatalf("%q: %q, valid %t", line, wrong, valid)
	}
	if wrong != "" {
		return
	}
	var want struct {
		T, C any
		K    struct{ D any }
		KD   any `json:"k.d"`
	}
	in := json.NewDecoder(bytes.NewReader(line))
	in.UseNumber()
	if err := in.Decode(&want); err != nil {
		return // names that differ in their case are one to encoding/json
	}
	if want.K.D == nil {
		want.K.D = want.KD
	}
	for _, field := range []struct {
		got  []byte
		want any
	}{{got.time, want.T}, {got.key, want.K.D}, {got.cost, want.C}} {
		text, ok := field.want.(string)
		if n, number := field.want.(json.Number); number {
			text, ok = n.String(), true
		}
		if ok && text != string(field.got) && !strings.Contains(strings.ToLower(string(line)), `u00`) && !folded(line) {
			t.Fatalf("%q: %q, want %q", line, field.got, text)
		}
	}
}

// folded tells a line in which a name comes in two cases, which encoding/json takes for one.
func folded(line []byte) bool { return bytes.ContainsAny(line, "TKCD") || !isASCII(line) }

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// checkCSV finds the fields that encoding/csv does.
func checkCSV(t *testing.T, line string) {
	if strings.ContainsAny(line, "\r\n") {
		return
	}
	var got []string
	wrong := eachField([]byte(line), ',', func(field []byte) { got = append(got, string(field)) })
	want, err := csv.NewReader(strings.NewReader(line)).Read()
	if line == "" {
		want, err = []string{""}, nil
	}
	if (err != nil) != (wrong != "") || err == nil && strings.Join(got, "\x00") != strings.Join(want, "\x00") {
		t.Fatalf("%q: %q, %q; want %q, %v", line, got, wrong, want, err)
	}
}

// checkTime reads a time as package time does, cut to µs. In a line of the combined format a key is found or it is broken.
func checkTime(t *testing.T, text string) {
	c := newCombined(Combined, "request")
	for _, line := range []string{text, `a b c [` + text + `] "x" 200 1`, `a b c [] "` + text + `" 200 1 "` + text + `" "` + text + `"`} {
		if found, wrong := c.find([]byte(line)); wrong == "" && len(found.key) == 0 {
			t.Fatalf("%q: no key and no fault", line)
		}
	}
	got, wrong := parseTime([]byte(text), Seconds)
	if wrong != "" {
		return
	}
	var want time.Time
	var err error
	switch {
	case strings.Contains(text, "/"):
		want, err = time.Parse("02/Jan/2006:15:04:05 -0700", text)
	case strings.Contains(text, ":"):
		want, err = parseISO(text)
	default:
		return
	}
	if err != nil || want.UnixMicro() != got {
		t.Fatalf("%q: %d, want %d, %v", text, got, want.UnixMicro(), err)
	}
}

// parseISO reads RFC 3339 and what else ISO 8601 allows of that form.
func parseISO(text string) (at time.Time, err error) {
	text = strings.ToUpper(strings.Replace(text, " ", "T", 1))
	text = strings.Replace(strings.Replace(text, " ", "", 1), ",", ".", 1)
	for _, zone := range []string{"Z07:00", "Z0700", "Z07"} {
		if at, err = time.Parse("2006-01-02T15:04:05.999999999"+zone, text); err == nil {
			return at, nil
		}
	}
	return at, err
}

// Every day is the one that package time knows, and no other is one.
func TestDays(t *testing.T) {
	t.Parallel()
	for year := 1968; year <= 2112; year++ {
		for month := 1; month <= 12; month++ {
			for day := 1; day <= 31; day++ {
				at := time.Date(year, time.Month(month), day, 23, 59, 58, 0, time.UTC)
				us, ok := civil(year, month, day, 23, 59, 58)
				if real := at.Day() == day; ok != real || real && us != at.UnixMicro() {
					t.Fatalf("%d-%d-%d: %d, %t", year, month, day, us, ok)
				}
			}
		}
	}
}
