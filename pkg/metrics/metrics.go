// Package metrics tells what a limiter in service does: numbers for Prometheus, and lines for a log where it fails.
//
// Both are decorators. The numbers go around a failure policy, so that they say what callers were told; the lines go
// beneath it, where every failure can still be seen:
//
//	l = m.Limiter("gcra", policy(lines.Limiter("gcra", l)))
//
// Nothing that a client sends becomes a label: labels are the limiter's name, which the program gives, and words from
// fixed lists. A log shows a client's key as a digest under a secret of the process. So neither grows with the number of
// clients, and neither tells who they are.
package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// The outcomes of a call. Each call has one.
const (
	Allowed         = "allowed"
	Denied          = "denied"
	Failed          = "failed"           // an error, and certainly not counted
	Unknown         = "unknown"          // an error, and it may have been counted
	DegradedAllowed = "degraded-allowed" // a failure policy's answer
	DegradedDenied  = "degraded-denied"  // a failure policy's answer
)

// Outcomes are all of them.
func Outcomes() []string {
	return []string{Allowed, Denied, Failed, Unknown, DegradedAllowed, DegradedDenied}
}

// outcome is what became of a call, as its place in Outcomes.
func outcome(d limiter.Decision, err error) int {
	switch {
	case err != nil && limiter.Counted(err):
		return 3
	case err != nil:
		return 2
	case d.Degraded && d.Allowed:
		return 4
	case d.Degraded:
		return 5
	case d.Allowed:
		return 0
	}
	return 1
}

// buckets are the upper bounds of latencies in seconds: a Redis beside the caller answers in 50 µs, one that takes a
// second has been given up.
var buckets = []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1}

// Metrics are the numbers of any number of limiters in one registry:
//
//	ratelimit_decisions_total{limiter,outcome}   calls by what callers were told: see Outcomes
//	ratelimit_decision_seconds{limiter}          how long calls took, failed and recalled ones too (histogram)
//	ratelimit_failures_total{limiter,class}      failures by class, those too that a policy answered
//	ratelimit_bad_requests_total{limiter,reason} requests that no limiter was asked about: see Bad
//	ratelimit_script_loads_total{limiter}        how often a server did not know the script and was given it
//	ratelimit_recalled_total{limiter}            of the calls that were denied, those answered from memory
type Metrics struct {
	decisions, failures, loads, bad, recalled *prometheus.CounterVec
	seconds                                   *prometheus.HistogramVec
}

// New registers the numbers, all of them 0. The error is the registry's, which has them already.
func New(registry prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "ratelimit", Name: name, Help: help}, labels)
	}
	m := &Metrics{
		decisions: counter("decisions_total", "Calls by what their callers were told.", "limiter", "outcome"),
		failures:  counter("failures_total", "Calls that were not decided, by class.", "limiter", "class"),
		loads:     counter("script_loads_total", "Times a server did not know the script and was given it.", "limiter"),
		bad:       counter("bad_requests_total", "Requests that the limiter was not asked about, by what is wrong.", "limiter", "reason"),
		recalled:  counter("recalled_total", "Calls that were denied from memory, without asking Redis.", "limiter"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "ratelimit", Name: "decision_seconds", Help: "How long calls took, failed ones too.", Buckets: buckets,
		}, []string{"limiter"}),
	}
	for _, c := range []prometheus.Collector{m.decisions, m.failures, m.loads, m.bad, m.recalled, m.seconds} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Limiter counts what next, called name, answers. It is Identified if next is; other powers of next are found by limiter.As.
// Two limiters of one name add up.
func (m *Metrics) Limiter(name string, next limiter.Limiter) limiter.Limiter {
	c := &counted{next: next, took: m.seconds.WithLabelValues(name)}
	for i, outcome := range Outcomes() {
		c.outcomes[i] = m.decisions.WithLabelValues(name, outcome)
	}
	if named, ok := next.(limiter.Identified); ok {
		return &identified{c, named}
	}
	return c
}

// Loaded counts the loading of a script: it is what limiter.WithLoaded wants.
func (m *Metrics) Loaded(name string) func() { return m.loads.WithLabelValues(name).Inc }

// What may be wrong with a request that no limiter is asked about.
const (
	BadKey    = "key"    // none, or one that cannot be
	BadCost   = "cost"   // no such cost
	BadPath   = "path"   // there is nothing
	BadMethod = "method" // it is asked otherwise
	BadOther  = "other"
)

// Bad counts requests that the limiter was not asked about, by one of the reasons; any other is BadOther.
func (m *Metrics) Bad(name string) func(reason string) {
	reasons := map[string]prometheus.Counter{}
	for _, reason := range []string{BadKey, BadCost, BadPath, BadMethod, BadOther} {
		reasons[reason] = m.bad.WithLabelValues(name, reason)
	}
	return func(reason string) {
		if c, known := reasons[reason]; known {
			c.Inc()
			return
		}
		reasons[BadOther].Inc()
	}
}

// Recalled counts refusals from memory: it is what policy.DenyCache wants.
func (m *Metrics) Recalled(name string) func() { return m.recalled.WithLabelValues(name).Inc }

// Failed counts failures by class, of which open and closed policies tell nobody else: it is what policy.Policy wants.
func (m *Metrics) Failed(name string) func(context.Context, error) {
	classes := map[limiter.Class]prometheus.Counter{}
	for _, class := range limiter.Classes() {
		classes[class] = m.failures.WithLabelValues(name, string(class))
	}
	return func(_ context.Context, err error) { classes[classOf(err)].Inc() }
}

// classOf is the class of an error, "other" where a limiter from outside has a class of its own or none.
func classOf(err error) limiter.Class {
	var e *limiter.Error
	if errors.As(err, &e) {
		for _, class := range limiter.Classes() {
			if e.Class == class {
				return class
			}
		}
	}
	return limiter.ClassOther
}

// counted is a limiter that is counted.
type counted struct {
	next     limiter.Limiter
	outcomes [6]prometheus.Counter
	took     prometheus.Observer
}

// identified is one that takes ids.
type identified struct {
	*counted
	named limiter.Identified
}

// Unwrap is the limiter.
func (c *counted) Unwrap() limiter.Limiter { return c.next }

// Check asks, and counts the answer.
func (c *counted) Check(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	start := time.Now()
	d, err := c.next.Check(ctx, key, cost)
	c.count(start, d, err)
	return d, err
}

// CheckID is Check of the request with that id.
func (i *identified) CheckID(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
	start := time.Now()
	d, err := i.named.CheckID(ctx, key, cost, id)
	i.count(start, d, err)
	return d, err
}

func (c *counted) count(start time.Time, d limiter.Decision, err error) {
	c.took.Observe(time.Since(start).Seconds())
	c.outcomes[outcome(d, err)].Inc()
}
