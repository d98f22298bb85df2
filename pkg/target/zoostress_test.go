package target_test

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/replay"
)

// stress puts all under load and faults. A mutant meets for a second what loses no replies, so that nothing excuses it,
// or, if the loss of a reply is its kind, what loses many. A sound limiter meets every fault there is. Mutants that stress may
// miss meet it only for the record, with -update.
func (z *zooRun) stress(t *testing.T) trials {
	p := experiment.Stress{
		Limit: limiter.Limit{Events: 20, Window: 100 * time.Millisecond}, Procs: 3, Clients: 1, Keys: 1, Duration: time.Second,
		Timeout: 200 * time.Millisecond, Faults: []string{"script-flush", "clock-step"}, Seed: 1, Prefix: "ratelimit",
	}
	lossy, long := p, p
	lossy.Timeout, lossy.Clients = 50*time.Millisecond, 2
	lossy.Faults = []string{"reply-cut", "server-stop", "server-restart"}
	long.Duration, long.Faults = 3*time.Second, nil
	for _, m := range z.mutants {
		if !*update && !slices.Contains(m.by, "stress") {
			continue
		}
		if slices.Contains(m.by, "cut") {
			lossy.Limiters = append(lossy.Limiters, m.entry.Name)
		} else {
			p.Limiters = append(p.Limiters, m.entry.Name)
		}
	}
	runs := []experiment.Stress{lossy}
	halve := func(p experiment.Stress, all []string) {
		for _, half := range [][]string{all[:len(all)/2], all[len(all)/2:]} {
			p.Limiters = half
			runs = append(runs, p)
		}
	}
	halve(p, p.Limiters)
	halve(long, namesOf(sound()))
	said := make([]trials, len(runs))
	var running sync.WaitGroup
	for i, p := range runs {
		running.Go(func() { said[i] = z.stressed(t, p) })
	}
	running.Wait()
	all := trials{}
	for _, some := range said {
		maps.Copy(all, some)
	}
	return all
}

// stressed is one run, and up to two more of those that did not come out as they must: on a busy machine callers may not
// meet a fault, or not press.
func (z *zooRun) stressed(t *testing.T, p experiment.Stress) trials {
	all := trials{}
	for try := 0; try < 3 && len(p.Limiters) > 0; try++ {
		r, err := p.Run(t.Context(), z.env)
		if err != nil {
			t.Error(err)
			break
		}
		for _, row := range r.Results {
			took := all[row.Limiter].ElapsedUS + row.ElapsedUS
			all[row.Limiter] = experiment.ZooTrial{Verdict: row.Verdict, How: row.Reason, ElapsedUS: took}
		}
		p.Limiters, p.Seed = slices.DeleteFunc(slices.Clone(p.Limiters), func(name string) bool {
			switch all[name].Verdict {
			case replay.Broken:
				return true
			case replay.Inconclusive:
				return !z.must(name, "stress") && !slices.Contains(namesOf(sound()), name)
			}
			return !z.must(name, "stress")
		}), p.Seed+1
	}
	return all
}

// must tells whether an experiment must catch a limiter.
func (z *zooRun) must(name, experiment string) bool {
	return slices.ContainsFunc(z.mutants, func(m mutant) bool { return m.entry.Name == name && slices.Contains(m.by, experiment) })
}
