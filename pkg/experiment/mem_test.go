package experiment

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

func memPlan() Mem {
	return Mem{Keys: 100, Limits: []int64{10, 100}, Window: time.Minute, Prefix: "ratelimit", Private: true}
}

func TestMemValidateNamesTheFlag(t *testing.T) {
	for _, c := range []struct {
		flag  string
		spoil func(*Mem)
	}{
		{"--keys", func(p *Mem) { p.Keys = 0 }},
		{"--keys", func(p *Mem) { p.Keys = maxKeys + 1 }},
		{"--limits", func(p *Mem) { p.Limits = nil }},
		{"--limits", func(p *Mem) { p.Limits = []int64{0} }},
		{"--limits", func(p *Mem) { p.Limits = []int64{10, 10} }},
		{"--limits", func(p *Mem) { p.Limits = []int64{maxLimit + 1} }},
		{"--million", func(p *Mem) { p.Million, p.Private, p.Yes = true, false, true }},
		{"--yes", func(p *Mem) { p.Private = false }},
		{"--window", func(p *Mem) { p.Window = time.Nanosecond }},
		{"--prefix", func(p *Mem) { p.Prefix = "a{b" }},
	} {
		p := memPlan()
		c.spoil(&p)
		if err := p.Validate(target.Catalogue()); err == nil || !strings.HasPrefix(err.Error(), c.flag+": ") {
			t.Errorf("%s: %v", c.flag, err)
		}
	}
	if err := memPlan().Validate(target.Catalogue()); err != nil {
		t.Error(err)
	}
}

// What keeps nothing in Redis, or what another row does, is left out of the whole catalogue; the former is refused by its name.
func TestMemMeasuresWhatKeepsSomething(t *testing.T) {
	p := memPlan()
	rows, err := p.rows(target.Catalogue())
	if names := target.Names(rows); err != nil || len(names) != len(target.Catalogue())-5 || slices.Contains(names, "local-bucket") ||
		slices.Contains(names, "semaphore") || slices.Contains(names, "cached-gcra") {
		t.Errorf("%v, %v", names, err)
	}
	p.Limiters = []string{"gcra", "local-bucket"}
	if _, err := p.rows(target.Catalogue()); err == nil {
		t.Error("local-bucket was taken")
	}
}

func TestTablesOfKnownSize(t *testing.T) {
	for n, want := range map[int64]int64{1: 4, 4: 4, 5: 8, 8: 8, 10_000: 16384, 16384: 16384, 16385: 32768, 1e6: 1 << 20, 1e9: 1 << 30} {
		if got := slots(n); got != want {
			t.Errorf("%d keys: %d slots, want %d", n, got, want)
		}
	}
	for _, c := range []struct {
		quantum, keys int64
		want          float64
	}{
		{8, 16384, 2*8 + 24}, {8, 10_000, 2*8*1.6384 + 24}, {16, 16384, 2*8 + 32 + 8}, {8, 16385, 2*8*2 + 24},
	} {
		if got := (tables{c.quantum}).perName(c.keys); math.Abs(got-c.want) > 0.01 {
			t.Errorf("%+v: %f bytes", c, got)
		}
	}
	for _, c := range []struct {
		encoding string
		quantum  int64
		want     float64
	}{
		{"listpack", 16, 0}, {"skiplist", 8, 0}, {"skiplist", 16, 8000}, {"quicklist", 8, 0}, {"quicklist", 16, 3 * 8},
	} {
		if got := (tables{c.quantum}).inner(c.encoding, 1000, 10_000); got != c.want {
			t.Errorf("%+v: %f bytes", c, got)
		}
	}
}

func TestTheAllocatorTellsItsQuantum(t *testing.T) {
	for stats, want := range map[string]int64{
		"Arenas: 1\nQuantum size: 16\nPage size: 4096": 16, "Quantum size: 8\n": 8, "Stats not supported for the current allocator": 8,
		"": 8, "Quantum size: 0": 8, "Quantum size: 99999999999999999999": 8,
	} {
		if got := allocating(stats); got.quantum != want {
			t.Errorf("%q: %d", stats, got.quantum)
		}
	}
}

func TestGrowth(t *testing.T) {
	ramp := func(n int, first, step int64) (g growth) {
		for i := range int64(n) {
			g.bytes = append(g.bytes, first+i*step)
			g.encodings = append(g.encodings, map[bool]string{true: "packed", false: "spread"}[i < 128])
		}
		return g
	}
	log, counter := ramp(200, 80, 10), ramp(200, 100, 0)
	counter.bytes[199] += 16 // it got longer by a digit
	if !log.grows() || counter.grows() || (growth{}).grows() {
		t.Error("a log grows, and a counter does not")
	}
	if got := log.firsts(); !slices.Equal(got, []MemEncoding{{"packed", 1}, {"spread", 129}}) {
		t.Errorf("encodings: %v", got)
	}
	if got := (growth{encodings: []string{"a", "b", "a", "b"}}).firsts(); !slices.Equal(got, []MemEncoding{{"a", 1}, {"b", 2}}) {
		t.Errorf("to and fro: %v", got)
	}
	for bytes, want := range map[int64]int64{0: 1, 79: 1, 80: 2, 100: 4, 109: 4, 110: 5, 5000: 0} {
		if got := passes(log.bytes, bytes); got != want {
			t.Errorf("passes %d at %d events, want %d", bytes, got, want)
		}
	}
}

func TestABucketIsToldByItsRule(t *testing.T) {
	var buckets []string
	for _, e := range target.Catalogue() {
		if bucket(e) && e.Atomic() && !e.Rule.Recalls {
			buckets = append(buckets, e.Name)
		}
	}
	if !slices.Equal(buckets, []string{"token-bucket", "gcra"}) {
		t.Errorf("%v", buckets)
	}
}

// eventfulMem has something in every place that a Document looks at.
func eventfulMem() *MemResult {
	row := func(name string, limit, keys int64, usage float64) MemRow {
		return MemRow{
			Limiter: name, Limit: limit, EventsPerKey: limit, RequestsPerKey: 1, Keys: keys, NamesPerKey: 1, NameBytes: 48,
			BytesPerKey: usage, TableBytesPerKey: 60, Encoding: "listpack", Million: 1 << 30, Billion: 1 << 40,
		}
	}
	r := &MemResult{
		Schema: MemSchema, Env: Provenance{Redis: Server{Version: "7.0.15", Private: true, At: "unix socket"}},
		Config:     MemConfig{Keys: 10_000, Limits: []int64{10, 100}, Rows: 6, WindowUS: 6e8, RowBytes: rowBytes, Quantum: 16, Seed: "5eed"},
		Million:    []MemMillion{(MemMillion{Limiter: "gcra", Limit: 100, Keys: million, Bytes: 200e6, Projected: 199e6}).compared()},
		Unmeasured: []string{"mine: why"},
		Limiters: []MemLimiter{
			{Limiter: "sliding-log", Atomic: true, Log: true, Encodings: []MemEncoding{{"listpack", 1}, {"skiplist", 129}}, grown: []int64{150, 180, 210}},
			{Limiter: "gcra", Atomic: true, Bucket: true, Encodings: []MemEncoding{{"int", 1}}, MostBytes: 160, grown: []int64{100, 160}},
		},
	}
	for _, measured := range []struct {
		row  MemRow
		grew int64
	}{
		{row("sliding-log", 10, 10_000, 440), 5e6}, {row("sliding-log", 100, 10_000, 3140), 32e6},
		{row("gcra", 10, 10_000, 100), 1.6e6}, {row("gcra", 100, 10_000, 100), 1.6e6},
	} {
		measured.row.grewBy(measured.grew)
		r.add(measured.row)
	}
	r.conclude(false)
	return r
}

func TestWhatAMemResultSays(t *testing.T) {
	r := eventfulMem()
	if slope := r.Results[1].BytesPerEntry; slope == nil || *slope != 30 || r.Results[0].BytesPerEntry != nil || r.Results[3].BytesPerEntry != nil {
		t.Errorf("an entry takes 30 bytes: %+v", r.Results)
	}
	table := shown(t, r.Document())["table"]
	for _, want := range []string{
		"every key has a TTL   both measures agree within 0.0 %", "\ngcra           any  100.0    60.0  160.0  0.0 %      –",
		"\nsliding-log    100  3,140    60.0  3,200  0.0 %   30.0", "sliding-log: listpack, skiplist from 129 events on\n",
		"for memory a bucket is the better choice than sliding-log: gcra from 2 events on (1/20 at 100)\n", "\ngcra: a USAGE of up to 160 before", "not measured: mine: why\n", "1.0 GiB",
		"a real 1,000,000 clients of gcra take 191 MiB, projected were 190 MiB: 0.5 % apart\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

func TestMemVerdicts(t *testing.T) {
	for _, c := range []struct {
		what  string
		spoil func(*MemResult)
		want  replay.Verdict
	}{
		{"as it is", func(r *MemResult) {}, replay.Held},
		{"a key without TTL", func(r *MemResult) { r.Results[2].NoTTL = 1 }, replay.Broken},
		{"one of a million without TTL", func(r *MemResult) { r.Million[0].NoTTL = 1 }, replay.Broken},
		{"measures apart", func(r *MemResult) { r.Results[1].grewBy(30e6) }, replay.Inconclusive},
		{"apart by less than a buffer", func(r *MemResult) { r.Results[2].Keys = 100; r.Results[2].grewBy(25e3) }, replay.Held},
		{"a projection that fails", func(r *MemResult) { r.Million[0].Apart = 0.06 }, replay.Inconclusive},
		{"unmeasured", func(r *MemResult) { r.Unmeasured = []string{"why"} }, replay.Inconclusive},
		{"interrupted", func(r *MemResult) { r.Partial = true }, replay.Inconclusive},
		{"nothing", func(r *MemResult) { r.Results = nil }, replay.Inconclusive},
	} {
		r := eventfulMem()
		r.Unmeasured = nil
		c.spoil(r)
		r.conclude(r.Partial)
		if r.Verdict != c.want || r.Reason == "" {
			t.Errorf("%s: %s, %s", c.what, r.Verdict, r.Reason)
		}
		if text := shown(t, r.Document())["table"]; (r.noTTL() > 0) != strings.Contains(text, "BROKEN") {
			t.Errorf("%s: %s", c.what, text)
		}
	}
}

// A result that was kept shows what it showed when it was new.
func TestAMemResultIsInItsJSON(t *testing.T) {
	r := eventfulMem()
	fresh := shown(t, r.Document())
	var again MemResult
	if err := json.Unmarshal([]byte(fresh[string(report.JSONFormat)]), &again); err != nil {
		t.Fatal(err)
	}
	for format, text := range shown(t, again.Document()) {
		if text != fresh[format] {
			t.Errorf("%s:\n%s\nwas\n%s", format, text, fresh[format])
		}
	}
}

func TestARowStaysWithinItsBytes(t *testing.T) {
	row := MemRow{BytesPerKey: 1 << 20, TableBytesPerKey: 1 << 20}
	if got := fit(row, 10_000); got != 256 {
		t.Errorf("%d clients of 2 MiB in 512 MiB", got)
	}
	if got := fit(row, 10); got != 10 {
		t.Errorf("%d of 10", got)
	}
	row.BytesPerKey = 1 << 40
	if got := fit(row, 10); got != 1 {
		t.Errorf("%d: one must do", got)
	}
}

func TestSizes(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 KiB", 4096: "4.0 KiB", 146e6: "139 MiB", 16 << 40: "16 TiB"} {
		if got := size(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
}

// TestFewRequestsFillAsManyDo: what is filled in requests of many events takes as much as what is filled one by one.
func TestFewRequestsFillAsManyDo(t *testing.T) {
	s := redisdtest.Start(t, redisd.Options{})
	m := mem{Mem: memPlan(), srv: &server{conn: target.Conn{Socket: s.Socket()}}}
	for _, name := range []string{"sliding-log", "compact-log", "naive-log", "naive-pipeline", "charging-log"} {
		e, err := target.Find(target.Catalogue(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int64{37, 100, 1000} { // at 37 one digit more in each member would need the next size of the allocator
			usage := map[int64]int64{}
			for _, cost := range []int64{0, 1} {
				f, err := m.open(e, limiter.Limit{Events: limit, Window: time.Hour}, false)
				if err != nil {
					t.Fatal(err)
				}
				if cost > 0 {
					f.cost = cost
				}
				if err := f.fill(t.Context(), m.newClients(1), func() {}); err != nil {
					t.Fatal(err)
				}
				seen, err := f.look(t.Context())
				if err != nil || seen.names != 1 {
					t.Fatal(seen, err)
				}
				usage[cost] = seen.usage
				f.close()
			}
			if off := apart(float64(usage[0]), float64(usage[1])); off > 0.02 {
				t.Errorf("%s at %d: %d bytes in steps, %d one by one", name, limit, usage[0], usage[1])
			}
		}
	}
}

// What the page on scale multiplies for a million and a billion clients is what mem projected for them.
func TestScaleIsWhatWasProjected(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mem", "mem-million"} {
		raw, err := os.ReadFile("../../results/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var r MemResult
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		for _, row := range r.Results {
			if *row.Apart > 0.001 { // there the projection is of what was counted, and the page's of what was used
				continue
			}
			for n, want := range map[int64]int64{million: row.Million, 1000 * million: row.Billion} {
				if got := row.of(n); math.Abs(got/float64(want)-1) > 0.001 {
					t.Errorf("%s, limit %d: %d clients take %.0f bytes, projected %d", row.Limiter, row.Limit, n, got, want)
				}
			}
		}
		for _, m := range r.Million {
			i := slices.IndexFunc(r.Results, func(row MemRow) bool { return row.Limiter == m.Limiter && row.Limit == m.Limit })
			if got := r.Results[i].of(m.Keys); math.Abs(got/float64(m.Bytes)-1) > 0.001 {
				t.Errorf("%s: %d clients take %.0f bytes, measured %d", m.Limiter, m.Keys, got, m.Bytes)
			}
		}
	}
}
