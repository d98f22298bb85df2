package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/accesslog"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
	"github.com/rlctl/rlctl/pkg/report"
)

// csvPlan reads lines of time in ms, key and cost.
func csvPlan(limits ...limiter.Limit) Replay {
	return Replay{
		Limiters: []string{"sliding-log", "gcra"}, Limits: limits, Top: 3, ShowKeys: true,
		Log: accesslog.Spec{Format: accesslog.CSV, Time: "1", Key: "2", Cost: "3", Unit: accesslog.Millis},
	}
}

// Clients that are let go and come back are counted once, with all that they asked, and decided on as if they had stayed.
func TestClientsThatComeBack(t *testing.T) {
	t.Parallel()
	const clients, visits = 4 * firstSweep, 3
	l := limiter.Limit{Events: 2, Window: time.Second}
	var text strings.Builder
	rnd := rand.New(rand.NewPCG(1, 2))
	want, asked := map[string]int64{}, map[string]int64{}
	states := map[string]model.State{}
	ask := func(n, times int, at time.Time) {
		key := fmt.Sprint("c", n)
		for range times {
			fmt.Fprintf(&text, "%d,%s,1\n", at.UnixMilli(), key)
			asked[key]++
			if states[key] == nil {
				states[key] = model.SlidingLog().Fresh
			}
			next, d := states[key].Check(at, model.Request{Limit: l, Cost: 1})
			if states[key] = next; !d.Allowed {
				want[key]++
			}
		}
	}
	for visit := range visits {
		for n := range clients {
			at := time.UnixMilli(1_700_000_000_000 + int64(visit*clients+n))
			ask(n, 1+rnd.IntN(3)*(n%97/96), at)
			if again := n - 700; again >= 0 && again%89 == 0 {
				ask(again, 2, at)
			}
		}
	}
	p := csvPlan(l)
	p.Top = clients
	r, err := p.Run(t.Context(), quiet(), strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, c := range r.Most {
		if c.Refused[0] > 0 {
			got[c.Client] = c.Refused[0]
		}
		if c.Requests != asked[c.Client] {
			t.Errorf("%s: %d requests, want %d", c.Client, c.Requests, asked[c.Client])
		}
	}
	if r.Log.Clients != clients || !reflect.DeepEqual(got, want) || len(want) == 0 || r.Results[0].ClientsRefused != int64(len(want)) {
		t.Errorf("%d clients, %d refused; want %d, %d", r.Log.Clients, len(got), clients, len(want))
	}
}

// A shard holds no more clients than its rules have a use for.
func TestClientsAreLetGo(t *testing.T) {
	t.Parallel()
	rules, err := csvPlan(limiter.Limit{Events: 2, Window: time.Second}).rules(quiet().Catalogue)
	if err != nil {
		t.Fatal(err)
	}
	s := newReplayShard(rules)
	most := 0
	for n := range 100 {
		var records []accesslog.Record
		for i := range 1000 {
			id := n*1000 + i
			records = append(records, accesslog.Record{At: int64(id) * 1000, Cost: 1, Hash: uint64(id), Key: []byte(fmt.Sprint(id))})
		}
		s.batch(records, 0, 1)
		most = max(most, len(s.clients))
	}
	if used := 1000; most > 2*used+firstSweep+1000 || s.all() != 100_000 {
		t.Errorf("%d clients were held, %d counted", most, s.all())
	}
}

// Whatever a log's order, --sort decides in that of time, and requests of one time in that of the log.
func TestSort(t *testing.T) {
	t.Parallel()
	l := limiter.Limit{Events: 1, Window: time.Second}
	text := "2000,a,1\n1000,a,1\n3000,b,1\n1000,a,0\n3500,b,1\n" // one of b is refused
	p := csvPlan(l)
	late, err := p.Run(t.Context(), quiet(), strings.NewReader(text))
	if err != nil || late.Log.Unsorted != 2 || late.Log.Requests != 3 || late.Complete || late.Results[0].Refused != 1 {
		t.Errorf("%+v, %v", late, err)
	}
	p.Sort = true
	all, err := p.Run(t.Context(), quiet(), strings.NewReader(text))
	if err != nil || all.Log.Unsorted != 2 || all.Log.Requests != 5 || !all.Complete || all.Results[0].Refused != 1 ||
		all.Log.FromUS != 1_000_000 || all.Log.ToUS != 3_500_000 {
		t.Errorf("%+v, %v", all, err)
	}
	p.Limits[0].Events = 2
	tied, err := p.Run(t.Context(), quiet(), strings.NewReader("2000,b,0\n1000,a,2\n1000,a,1\n"))
	if err != nil || tied.Results[0].Refused != 1 || tied.Results[0].RefusedCost != 1 {
		t.Errorf("%+v, %v", tied, err)
	}
}

// A cost that the limiter does not take is neither allowed nor refused; one that can never pass is refused.
func TestOddCosts(t *testing.T) {
	t.Parallel()
	r, err := csvPlan(limiter.Limit{Events: 2000, Window: time.Second}).Run(t.Context(), quiet(), strings.NewReader("1,a,1500\n2,a,2001\n3,a,0\n"))
	if err != nil {
		t.Fatal(err)
	}
	log, bucket := r.Results[0], r.Results[1]
	if log.Untaken != 1 || log.Refused != 1 || log.Never != 1 || log.Cost != 2001 || log.RefusedCost != 2001 {
		t.Errorf("%+v", log)
	}
	if bucket.Untaken != 0 || bucket.Refused != 1 || bucket.Never != 1 || bucket.Cost != 3501 || bucket.RefusedCost != 2001 {
		t.Errorf("%+v", bucket)
	}
	text := shown(t, r.Document())["table"]
	for _, want := range []string{"1 request can never pass: more than any of the limits holds\n", "sliding-log 2,000/1s takes at most 1,000 events at once: 1 request was"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// slow is a log that ends with an error, or an interrupt.
type slow struct {
	text io.Reader
	end  func() error
}

func (s slow) Read(p []byte) (int, error) {
	n, err := s.text.Read(p)
	if errors.Is(err, io.EOF) {
		err = s.end()
	}
	return n, err
}

// What was read before an interrupt or an error is the result, and is marked.
func TestAReplayThatIsInterrupted(t *testing.T) {
	t.Parallel()
	why := errors.New("enough")
	for name, end := range map[string]func(stop func(error)) error{
		"interrupt": func(stop func(error)) error { stop(why); return nil },
		"error":     func(func(error)) error { return why },
	} {
		ctx, stop := context.WithCancelCause(t.Context())
		p := csvPlan(limiter.Limit{Events: 1, Window: time.Second})
		log := slow{strings.NewReader("1,a,1\n2,a,1\n"), func() error { return end(stop) }}
		r, err := p.Run(ctx, quiet(), log)
		if !errors.Is(err, why) || r == nil || !r.Partial || r.Complete {
			t.Errorf("%s: %+v, %v", name, r, err)
			continue
		}
		if text := shown(t, r.Document())["table"]; !strings.Contains(text, "partial") && r.Log.Requests > 0 {
			t.Errorf("%s: not said to be partial:\n%s", name, text)
		}
	}
}

// A result that was kept shows what it showed when it was new.
func TestAReplaySurvivesItsJSON(t *testing.T) {
	t.Parallel()
	p := csvPlan(limiter.Limit{Events: 1, Window: time.Second}, limiter.Limit{Events: 3, Window: time.Minute, Burst: 2})
	r, err := p.Run(t.Context(), quiet(), strings.NewReader("1,a,1\n2,a,1\n0,b,1\nx\n3000,c,9\n4000,a\",1\n"))
	if err != nil {
		t.Fatal(err)
	}
	survives(t, r)
	survives(t, NewReplayCheck(Provenance{Command: "make replay"}, Server{Version: "7.0.15", Private: true}, Put{Requests: 4}, r,
		map[string]Refusals{"gcra": {Of: map[string]int64{"a": 1}, At: []int64{2000}}}, []ReplaySpeed{{Input: "csv", Rounds: 1, Median: 1e6}}, time.Second))
}

// A share is 0 or 100 % only if it is nothing or all.
func TestPercentage(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]string{
		0: "0 %", 1: "100 %", 0.5: "50 %", 0.315: "31.5 %", 1. / 3: "33.3 %", 0.0004: "0.04 %", 0.999: "99.9 %",
		1 / 3e6: "< 0.0001 %", 1 - 1/3e6: "> 99.9999 %", 2_999_000. / 3e6: "99.9666 %", 2_999_990. / 3e6: "99.9996 %", 2e-6: "0.0002 %",
	} {
		if got := percentage(share); got != want {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
}

// On a narrow terminal a table leaves columns out, and a chart begins where its axis says it does.
func TestReplayIsShown(t *testing.T) {
	t.Parallel()
	const narrow = 60
	p := csvPlan(limiter.Limit{Events: 1, Window: time.Minute, Burst: 1_000_000}, limiter.Limit{Events: 2, Window: time.Minute, Burst: 1_000_000})
	r, err := p.Run(t.Context(), quiet(), strings.NewReader("1764485899999,a,1\n1764485899999,a,1\n1764572290000,a,1\n"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.Document().Write(&b, report.TableFormat, report.Style{Width: narrow}); err != nil {
		t.Fatal(err)
	}
	table := 0
	for line := range strings.Lines(b.String()) {
		if row := strings.TrimSpace(line); strings.HasPrefix(row, "sliding-log") || strings.HasPrefix(row, "LIMITER") {
			if table++; len([]rune(row)) > narrow {
				t.Errorf("%d columns: %s", len([]rune(row)), row)
			}
		}
	}
	if table < 3 {
		t.Errorf("%d lines of a table:\n%s", table, &b)
	}
	begin := utcMicro(r.Over.FromUS).Format(time.RFC3339)
	if c := r.charts()[0]; r.Over.FromUS == r.Log.FromUS || !strings.HasSuffix(c.X.Label, " from "+begin+" on") || c.Series[0].Points[0].X != 0 {
		t.Errorf("%q, want the begin %s", c.X.Label, begin)
	}
}
