package explore

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/outside"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
)

// full is the search without any of its ideas: live clients run every order, one complete run each.
func full(ctx context.Context, srv Server, p Plan) (Result, error) {
	x, err := open(ctx, srv, p)
	if err != nil {
		return Result{}, err
	}
	defer x.close()
	result := Result{Shown: Schedule{Steps: make([]Step, 1000)}}
	for todo := [][]choice{{}}; len(todo) > 0; {
		choices := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		r, err := x.begin(ctx)
		if err != nil {
			return result, err
		}
		possible := true
		for {
			can := r.all()
			if len(can) == 0 || !possible {
				break
			}
			at := len(r.s.Steps)
			if at == len(choices) {
				for _, c := range can[1:] {
					todo = append(todo, append(slices.Clone(choices), c))
				}
				choices = append(slices.Clone(choices), can[0])
			}
			if possible, err = r.step(ctx, choices[at]); err != nil {
				return result, err
			}
		}
		if !possible { // to die it would have to ask
			if err := r.abandon(ctx); err != nil {
				return result, err
			}
			continue
		}
		if err := r.finish(ctx); err != nil {
			return result, err
		}
		result.Orders++
		result.Retries = max(result.Retries, r.s.Retries)
		if r.s.Violation != nil {
			result.Violating++
			if len(r.s.Steps) < len(result.Shown.Steps) {
				result.Shown = r.s
			}
		}
	}
	return result, nil
}

// all are the choices that there are.
func (r *run) all() (can []choice) {
	dead := slices.ContainsFunc(r.clients, func(c *client) bool { return c.dead })
	for i := range r.clients {
		if r.canGo(i) {
			can = append(can, choice{client: i})
		}
	}
	if r.plan.Crash && !dead {
		for _, c := range can {
			can = append(can, choice{c.client, true})
		}
	}
	return can
}

// TestMergingPositionsChangesNoCount compares the search with the one that runs every order.
func TestMergingPositionsChangesNoCount(t *testing.T) {
	if testing.Short() {
		t.Skip("one client runs at a time: there is nothing for the race detector to see")
	}
	srv := redisdtest.Start(t, redisd.Options{Clock: true})
	same := func(name string, clients int, change func(*Plan)) {
		t.Helper()
		e, err := target.Find(target.Catalogue(), name)
		if err != nil {
			t.Fatal(err)
		}
		p := Plan{Entry: e, Limit: limiter.Limit{Events: 5, Window: time.Minute}, Clients: clients, Calls: 1, Start: OneLeft, Prefix: "p"}
		change(&p)
		merged, err := Run(t.Context(), srv, p, nil)
		all, err2 := full(t.Context(), srv, p)
		if err := errors.Join(err, err2); err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		same := merged.Orders == all.Orders && merged.Violating == all.Violating && merged.Retries == all.Retries
		if v, w := merged.Shown.Violation, all.Shown.Violation; v != nil && w != nil {
			same = same && v.Kind == w.Kind && len(merged.Shown.Steps) == len(all.Shown.Steps)
		}
		if !same {
			t.Errorf("%s, %+v: merged %d orders, %d broken, %d retries, %s; in full %d, %d, %d, %s", name, p, merged.Orders,
				merged.Violating, merged.Retries, merged.Shown.Order, all.Orders, all.Violating, all.Retries, all.Shown.Order)
		}
	}
	for _, name := range target.Names(target.Catalogue()) {
		same(name, 2, func(p *Plan) { p.Crash = true })
		same(name, 2, func(p *Plan) { p.Skew = true })
		same(name, 2, func(p *Plan) { p.Start, p.Limit.Events = Empty, 1 })
	}
	for _, e := range target.Catalogue() {
		name := e.Name
		if slices.Contains([]string{"naive-bucket", "naive-log", "naive-pipeline", "naive-semaphore", "watch-bucket"}, name) { // more than three commands
			continue
		}
		same(name, 3, func(p *Plan) { p.Crash = true })
		same(name, 3, func(p *Plan) { p.Crash, p.Start, p.Limit.Events = true, Empty, 2 })
	}
	same("naive-counter", 2, func(p *Plan) { p.Calls = 2 })
	same("semaphore", 3, func(p *Plan) { p.Crash, p.Release = true, true })
	same("watch-bucket", 2, func(p *Plan) { p.Start, p.Limit.Events, p.Crash = Empty, 2, true })
}

// BenchmarkSchedule is one complete run, of two clients that GET and then INCR, from the restored start to the verdict.
func BenchmarkSchedule(b *testing.B) { benchmark(b, "naive-counter") }

// BenchmarkScheduleOfWorkers is the same of workers in another language.
func BenchmarkScheduleOfWorkers(b *testing.B) {
	benchmark(b, "exec:python3 ../../examples/workers/naive.py")
}

func benchmark(b *testing.B, name string) {
	srv := redisdtest.Start(b, redisd.Options{Clock: true})
	e, err := target.Open(target.Catalogue(), name, outside.Terms{As: "fixed-window"})
	if err != nil {
		b.Fatal(err)
	}
	limit := limiter.Limit{Events: 10, Window: time.Minute}
	x, err := open(b.Context(), srv, Plan{Entry: e, Limit: limit, Clients: 2, Calls: 1, Start: OneLeft, Prefix: "p"})
	if err != nil {
		b.Fatal(err)
	}
	defer x.close()
	for b.Loop() {
		r, err := x.begin(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range []int{0, 1, 0, 1} {
			if _, err := r.step(b.Context(), choice{client: c}); err != nil {
				b.Fatal(err)
			}
		}
		if err := r.finish(b.Context()); err != nil || r.s.Violation == nil {
			b.Fatal(err, r.s)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "schedules/s")
}
