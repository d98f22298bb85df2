package accesslog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rlctl/rlctl/pkg/accesslog"
)

// read is all of a log: records as key@at*cost, and faults.
func read(t *testing.T, text string, s accesslog.Spec) (records, faults []string, all accesslog.Batch) {
	t.Helper()
	if s.Fixed == 0 {
		s.Fixed = 1
	}
	l, err := accesslog.Open(t.Context(), strings.NewReader(text), s)
	if err != nil {
		t.Fatal(err)
	}
	err = l.Each(t.Context(), func(b *accesslog.Batch) error {
		for _, r := range b.Records {
			records = append(records, fmt.Sprintf("%d: %s@%d*%d", r.Line, r.Key, r.At, r.Cost))
		}
		for _, f := range b.Faults {
			faults = append(faults, fmt.Sprintf("%d: %s", f.Line, f.Reason))
		}
		all.Lines, all.Blank, all.Bytes = all.Lines+b.Lines, all.Blank+b.Blank, all.Bytes+b.Bytes
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records, faults, all
}

func TestThreeFormatsTellTheSame(t *testing.T) {
	t.Parallel()
	want := []string{"a@1764485932000000*1", "b@1764485932000000*1", "a@1764485933000000*1"}
	for name, c := range map[string]struct {
		text  string
		spec  accesslog.Spec
		taken string
		first int
	}{
		"json": {`{"t":"2025-11-30T06:58:52Z","who":{"ip":"a"}}
{"who":{"ip":"b"},"more":[1,{"t":3}],"t":"2025-11-30 07:58:52,0 +0100"}
{"t":1764485933,"who":{"ip":"\u0061"}}
`, accesslog.Spec{Time: "t", Key: "who.ip", Unit: accesslog.Seconds}, "read as json", 1},
		"csv": {"\xef\xbb\xbf\"who\",t,x\r\na,1764485932,\"1,2\"\r\n\"b\",1764485932.000000999,\r\na,1764485933e0,\"\"\"\"\r\n",
			accesslog.Spec{Time: "t", Key: "who"}, "read as csv; times are taken for Unix seconds (--time-unit s)", 2},
		"csv without header": {"1764485932000;a\n1764485932000;b\n1764485933000;a",
			accesslog.Spec{Time: "1", Key: "2", Separator: ';'}, "times are taken for Unix milliseconds (--time-unit ms)", 1},
		"combined": {`a - - [30/Nov/2025:06:58:52 +0000] "GET /\"x HTTP/1.1" 200 12 "-" "curl \\"
b - u [30/Nov/2025:05:58:52 -0100] "\x16\x03" 400 - "" "" "more"
a - - [30/Nov/2025:06:58:53 +0000] "GET / HTTP/1.1" 200 12`, accesslog.Spec{}, "read as combined", 1},
		"with a virtual host": {`x:443 a - - [30/Nov/2025:06:58:52 +0000] "GET /\"x HTTP/1.1" 200 12 "-" "curl \\"
y:443 b - u [30/Nov/2025:05:58:52 -0100] "\x16\x03" 400 - "" "" "more"
[2001:db8::1]:80 a - - [30/Nov/2025:06:58:53 +0000] "GET / HTTP/1.1" 200 12`, accesslog.Spec{}, "read as vhost_combined", 1},
		"keyed by the host": {`a 2001:db8::1 - - [30/Nov/2025:06:58:52 +0000] "GET / HTTP/1.1" 200 12
b 192.0.2.7 - - [30/Nov/2025:06:58:52 +0000] "GET / HTTP/1.1" 200 12
a 192.0.2.7 - - [30/Nov/2025:06:58:53 +0000] "GET / HTTP/1.1" 200 12`, accesslog.Spec{Format: accesslog.VHost, Key: "host"}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			for i, r := range want {
				lines = append(lines, fmt.Sprintf("%d: %s", c.first+i, r))
			}
			records, faults, _ := read(t, c.text, c.spec)
			if fmt.Sprint(records) != fmt.Sprint(lines) || len(faults) > 0 {
				t.Errorf("%q, %q; want %q", records, faults, lines)
			}
			l, err := accesslog.Open(t.Context(), strings.NewReader(c.text), c.spec)
			if err != nil || strings.Join(l.Taken(), "; ") != c.taken {
				t.Errorf("%v, %q", err, l.Taken())
			}
		})
	}
}

func TestALineThatDoesNotFitIsBroken(t *testing.T) {
	t.Parallel()
	jsonSpec := accesslog.Spec{Format: accesslog.JSON, Time: "t", Key: "k.d", Cost: "c"}
	csvSpec := accesslog.Spec{Format: accesslog.CSV, Time: "1", Key: "2", Unit: accesslog.Seconds}
	for _, c := range []struct {
		spec  accesslog.Spec
		line  string
		fault string
	}{
		{jsonSpec, `{"t":"2025-11-30T06:58:52Z","k":{"d":"a"},"c":1`, "not JSON"},
		{jsonSpec, `{"t":"2025-11-30T06:58:52Z","k":{"d":"a"},"c":1,}`, "not JSON"},
		{jsonSpec, `{"t":"2025-11-30T06:58:52Z","k":{"d":"a"},"c":1} x`, "not JSON"},
		{jsonSpec, `["t"]`, "not a JSON object"},
		{jsonSpec, `{"k":{"d":"a"},"c":1}`, "time: no such field"},
		{jsonSpec, `{"t":"2025-11-30T06:58:52Z","k":"a","c":1}`, "key: no such field"},
		{jsonSpec, `{"t":"2025-11-30T06:58:52Z","k":{"d":"a"},"k.d":"b","c":1}`, "key: the field is there twice"},
		{jsonSpec, `{"t":"2025-11-30T06:58:52Z","k":{"d":null},"c":1}`, "key: no text or number"},
		{jsonSpec, `{"t":"2025-11-30T06:58:52Z","k":{"d":""},"c":1}`, "key: empty"},
		{jsonSpec, `{"t":"2025-11-30T06:58:52Z","k":{"d":"` + strings.Repeat("a", 65537) + `"},"c":1}`, "key: longer than 65,536 bytes"},
		{jsonSpec, `{"t":"2025-11-30T06:58:52Z","k":{"d":"a"},"c":1.5}`, "cost: not a whole number from 0 to 9007199254740991"},
		{jsonSpec, `{"t":"2025-11-30T06:58:52Z","k":{"d":"a"},"c":-1}`, "cost: not a whole number from 0 to 9007199254740991"},
		{jsonSpec, `{"t":"2025-11-30T06:58:52Z","k":{"d":"a"},"c":9007199254740992}`, "cost: not a whole number from 0 to 9007199254740991"},
		{jsonSpec, `{"t":"2025-11-30T06:58:52Z","k":{"d":"a"}}`, "cost: no such field"},
		{jsonSpec, `{"t":"2025-11-30T06:58:52","k":{"d":"a"},"c":1}`, "time: without a zone"},
		{jsonSpec, `{"t":"2025-02-29T06:58:52Z","k":{"d":"a"},"c":1}`, "time: neither RFC 3339 nor [day/month/year:...] nor a Unix time"},
		{jsonSpec, `{"t":1764485932,"k":{"d":"a"},"c":1}`, "time: a number of an unknown unit"},
		{jsonSpec, strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 200), "not JSON"},
		{csvSpec, `1764485932,a,b`, "not as many fields as the first line"},
		{csvSpec, `1764485932,"a`, "a quote that does not begin or end a field of the line"},
		{csvSpec, `1764485932,a"`, "a quote that does not begin or end a field of the line"},
		{csvSpec, `1764485932,"a"b`, "a quote that does not begin or end a field of the line"},
		{csvSpec, `1764485932000,a`, "time: before 1970 or after 2112"},
		{csvSpec, `-1,a`, "time: before 1970 or after 2112"},
		{csvSpec, `0x10,a`, "time: neither RFC 3339 nor [day/month/year:...] nor a Unix time"},
		{csvSpec, `,a`, "time: neither RFC 3339 nor [day/month/year:...] nor a Unix time"},
		{csvSpec, `1764485932,` + strings.Repeat("a", 1<<20), "longer than 1 MiB"},
		{csvSpec, `1764485932,` + strings.Repeat("a", 3<<20), "longer than 1 MiB"},
		{accesslog.Spec{Format: accesslog.Combined}, `v:80 a - - [30/Nov/2025:06:58:52 +0000] "GET /" 200 1`, "not the combined log format"},
		{accesslog.Spec{Format: accesslog.Combined}, `a - john smith [30/Nov/2025:06:58:52 +0000] "GET /" 200 1`, "not the combined log format"},
		{accesslog.Spec{Format: accesslog.VHost}, `a - u [30/Nov/2025:06:58:52 +0000] "GET /" 200 1`, "not the combined log format behind a virtual host"},
		{accesslog.Spec{Format: accesslog.VHost}, `v b - john smith [30/Nov/2025:06:58:52 +0000] "GET /" 200 1`,
			"not the combined log format behind a virtual host"},
		{accesslog.Spec{Format: accesslog.VHost}, `v:80`, "not the combined log format behind a virtual host"},
		{accesslog.Spec{Format: accesslog.Combined}, `a - - [30/Nov/2025:06:58:52 +0000] "GET /`, "not the combined log format"},
		{accesslog.Spec{Format: accesslog.Combined}, `a - - [30/Nov/2025:06:58:52 +0000] "GET /" 200`, "not the combined log format"},
		{accesslog.Spec{Format: accesslog.Combined}, `a - - [30/Nov/2025:06:58:52 +0000] "GET /" 200 1 "-"`, "not the combined log format"},
		{accesslog.Spec{Format: accesslog.Combined}, `a - - [30/Nvo/2025:06:58:52 +0000] "GET /" 200 1`, "time: neither RFC 3339 nor [day/month/year:...] nor a Unix time"},
		{accesslog.Spec{Format: accesslog.Combined, Key: "remote_user"}, `a - - [30/Nov/2025:06:58:52 +0000] "GET /" 200 1`,
			"key: the line has no such field, or - in it"},
	} {
		fine := map[accesslog.Format]string{
			accesslog.JSON: `{"t":"2025-11-30T06:58:52Z","k":{"d":"a"},"c":0}`, accesslog.CSV: "1764485932,a",
			accesslog.Combined: `a - u [30/Nov/2025:06:58:52 +0000] "GET /" 200 1`,
			accesslog.VHost:    `v:80 a - u [30/Nov/2025:06:58:52 +0000] "GET /" 200 1`,
		}[c.spec.Format]
		records, faults, all := read(t, fine+"\n\n"+c.line+"\n"+fine, c.spec)
		short := c.line[:min(len(c.line), 100)]
		if len(records) != 2 || len(faults) != 1 || faults[0] != "3: "+c.fault || records[1][:3] != "4: " {
			t.Errorf("%s: %q, %q; want %q", short, records, faults, c.fault)
		}
		if want := int64(2*len(fine) + len(c.line) + 3); all.Lines != 4 || all.Blank != 1 || all.Bytes != want {
			t.Errorf("%s: %+v, want %d bytes", short, all, want)
		}
	}
}

func TestASpecThatTheLogDoesNotBear(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		spec accesslog.Spec
		want string
	}{
		{"{\"b\":{\"c\":1,\"a\":2},\"a\":1}\n", accesslog.Spec{}, "time: want the name of the field; the first line has a, b.a, b.c"},
		{"t,k\n", accesslog.Spec{Time: "t"}, "key: want the name of the field; the first line has t, k"},
		{"1700000000,secret\n", accesslog.Spec{}, "time: want the name of the field; the first line has 2 fields"},
		{"secret,a@b.c\n", accesslog.Spec{Time: "t", Key: "k"}, "time: the header has no t: it has 2 fields"},
		{"t,k\n", accesslog.Spec{Time: "t", Key: "x"}, "key: the header has no x: it has t, k"},
		{"t,k,k\n", accesslog.Spec{Time: "t", Key: "k"}, "key: the header has k twice: name a column by its number"},
		{"1,2\n", accesslog.Spec{Time: "1", Key: "3"}, "key: want a column from 1 to 2, got 3"},
		{"12345,2\n", accesslog.Spec{Time: "1", Key: "2"}, "time-unit: the first time is a number and may count anything: want one of s, ms, us, ns"},
		{"hello\n", accesslog.Spec{}, "input: the first lines are neither JSON nor the combined log format, and have no comma: want one of json, csv, combined, vhost_combined, or a --separator"},
		{"v 192.0.2.7 - - [30/Nov/2025:06:58:52 +0000] \"GET /\" 200 1\n", accesslog.Spec{}, // a name with a space, or a host?
			"input: the first lines are neither JSON nor the combined log format, and have no comma: want one of json, csv, combined, vhost_combined, or a --separator"},
		{"2001:db8::1 - john smith [30/Nov/2025:06:58:52 +0000] \"GET /\" 200 1\n", accesslog.Spec{}, // which ends as a port does
			"input: the first lines are neither JSON nor the combined log format, and have no comma: want one of json, csv, combined, vhost_combined, or a --separator"},
		{"{\"a\":1}\n", accesslog.Spec{Format: accesslog.JSON, Separator: ';'}, "separator: only a CSV has one, and the log is read as json"},
		{"x", accesslog.Spec{Format: accesslog.Combined, Header: true}, "header: only a CSV has one, and the log is read as combined"},
		{"x", accesslog.Spec{Format: accesslog.VHost, Unit: accesslog.Millis}, "time-unit: the combined log format has no times that are numbers"},
		{"{\"user\":{\"ann@example.org\":1},\"@t\":1}\n", accesslog.Spec{}, "time: want the name of the field; the first line has @t, ..."},
		{"\x1f\x8b\x08", accesslog.Spec{}, "input: the log is compressed: gunzip -c FILE, and - for FILE"},
		{"x", accesslog.Spec{Format: accesslog.Combined, Time: "t"}, "time: the combined log format has only one, in brackets"},
		{"x", accesslog.Spec{Format: accesslog.Combined, Cost: "t"}, "cost-field: the combined log format has none"},
		{"x", accesslog.Spec{Format: accesslog.Combined, Key: "ip"},
			"key: the combined log format has remote_addr, remote_user, request, http_referer, http_user_agent"},
	} {
		_, err := accesslog.Open(t.Context(), strings.NewReader(c.text), c.spec)
		var spec *accesslog.SpecError
		if !errors.As(err, &spec) || err.Error() != c.want {
			t.Errorf("%q, %+v: %v, want %s", c.text, c.spec, err, c.want)
		}
	}
}

// A log without lines is one that holds nothing, also when some come after its end was seen.
func TestALogWithoutLines(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n \r\n", "\xef\xbb\xbf"} {
		records, faults, all := read(t, text, accesslog.Spec{})
		if len(records)+len(faults) > 0 || all.Lines != all.Blank || all.Lines != int64(strings.Count(text, "\n")) {
			t.Errorf("%q: %q, %q, %+v", text, records, faults, all)
		}
	}
	if _, err := accesslog.Open(t.Context(), strings.NewReader(strings.Repeat("\n", 1<<17)), accesslog.Spec{}); err == nil {
		t.Error("a log that cannot be told from its beginning was opened")
	}
	ends := &endsTwice{texts: []string{"\n", "a,1\n"}}
	l, err := accesslog.Open(t.Context(), ends, accesslog.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	broken := 0
	err = l.Each(t.Context(), func(b *accesslog.Batch) error {
		broken += len(b.Faults)
		return nil
	})
	if err != nil || broken != 1 {
		t.Errorf("%d broken lines, %v; want 1", broken, err)
	}
}

// endsTwice is a file that grows behind its end.
type endsTwice struct{ texts []string }

func (e *endsTwice) Read(p []byte) (int, error) {
	if len(e.texts) == 0 || e.texts[0] == "" {
		e.texts = e.texts[min(1, len(e.texts)):]
		return 0, io.EOF
	}
	n := copy(p, e.texts[0])
	e.texts[0] = e.texts[0][n:]
	return n, nil
}

// silent is a pipe that nobody writes to after what it holds.
type silent struct {
	text *strings.Reader
	wait chan struct{}
}

func (s silent) Read(p []byte) (int, error) {
	if s.text.Len() == 0 {
		<-s.wait
	}
	return s.text.Read(p)
}

// What a pipe holds is read without waiting for more, and a context that ends is heeded though nothing comes.
func TestAPipeThatFallsSilent(t *testing.T) {
	t.Parallel()
	pipe := silent{strings.NewReader("t,k\n1764485932,a\n17"), make(chan struct{})}
	defer close(pipe.wait)
	l, err := accesslog.Open(t.Context(), pipe, accesslog.Spec{Time: "t", Key: "k", Unit: accesslog.Seconds})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	err = l.Each(ctx, func(b *accesslog.Batch) error {
		if len(b.Records) == 1 {
			cancel(why)
		}
		return nil
	})
	if !errors.Is(err, why) {
		t.Error(err)
	}
	if _, err := accesslog.Open(ctx, pipe, accesslog.Spec{}); !errors.Is(err, why) {
		t.Error(err)
	}
}

// A log of many blocks comes in its order, however it is read.
func TestOrder(t *testing.T) {
	t.Parallel()
	const lines = 50_000
	var text strings.Builder
	for n := range lines {
		fmt.Fprintf(&text, "%d,%s\n", 1_700_000_000_000_000+n, strings.Repeat("k", n%40+1))
	}
	l, err := accesslog.Open(t.Context(), strings.NewReader(text.String()), accesslog.Spec{Time: "1", Key: "2"})
	if err != nil {
		t.Fatal(err)
	}
	next := int64(0)
	err = l.Each(t.Context(), func(b *accesslog.Batch) error {
		for _, r := range b.Records {
			if r.Line != next+1 || r.At != 1_700_000_000_000_000+next || len(r.Key) != int(next%40)+1 {
				return fmt.Errorf("%+v after %d", r, next)
			}
			next++
		}
		return nil
	})
	if err != nil || next != lines {
		t.Error(err, next)
	}
}

// What is seldom meant is noted, and read all the same.
func TestSuspects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, key, want string
	}{
		{"{\"t\":\"x\",\"k\":1}\n{\"t\":\"x\"}\n", "user", "no line at the beginning has the field user: the first has k, t"},
		{"{\"t\":\"x\"}\n{\"t\":\"x\",\"k\":1}\n", "k", ""},
		{"{\"t\":\"x\",\"k\":\"192.0.2.7:4711\"}\n{\"t\":\"x\",\"k\":\"[2001:db8::1]:80\"}\n{\"t\":\"x\"}\n", "k",
			"keys are addresses with ports, so that each connection is a client of its own"},
		{"{\"t\":\"x\",\"k\":\"192.0.2.7:4711\"}\n{\"t\":\"x\",\"k\":\"192.0.2.7\"}\n", "k", ""},
		{"{\"t\":\"x\",\"k\":\"2001:db8::1:80\"}\n", "k", ""},
	} {
		l, err := accesslog.Open(t.Context(), strings.NewReader(c.text), accesslog.Spec{Format: accesslog.JSON, Time: "t", Key: c.key})
		if err != nil || strings.Join(l.Taken(), "; ") != c.want {
			t.Errorf("%q: %v, %q; want %q", c.text, err, l.Taken(), c.want)
		}
	}
}
