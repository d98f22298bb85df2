package experiment

import (
	"iter"
	"math"
	"reflect"
	"time"

	"golang.org/x/perf/benchmath"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/load"
)

// measured is what one round came to.
func measured(got fleet.Round, used *use, pings load.Summary) BenchFigures {
	calls := float64(got.Summary.Calls())
	elapsed := got.Usage.Elapsed
	f := BenchFigures{
		OpsPerSec: known(calls / elapsed.Seconds()), Allocs: known(float64(got.Usage.Mallocs) / calls),
		ClientCPUShare: share(got.Usage.CPU, elapsed), Max: microseconds(got.Summary.Latency.Max()),
	}
	response, service := got.Summary.Latency, got.Summary.Service
	if service.Count() == 0 {
		service = response
	}
	f.P50, f.P90 = quantile(response, 0.5), quantile(response, 0.9)
	f.P99, f.P999 = quantile(response, 0.99), quantile(response, 0.999)
	f.ServiceP50, f.ServiceP99 = quantile(service, 0.5), quantile(service, 0.99)
	f.LagP99, f.PingP99 = quantile(got.Summary.Lag, 0.99), quantile(pings.Service, 0.99)
	if used == nil {
		return f
	}
	time, commands := used.others(), used.others()
	if script, ok := used.scripted(); ok {
		time = script
	}
	f.Script, f.Commands = known(float64(time.usec)/calls), known(float64(commands.calls)/calls)
	f.CPU, f.ServerCPUShare = known(used.cpu.Seconds()*1e6/calls), share(used.cpu, used.elapsed)
	f.WireBytes = known(float64(used.bytes) / calls)
	return f
}

// quantile is in µs, and not known of fewer durations than it takes for one to lie beyond it.
func quantile(l load.Latency, q float64) *float64 {
	if float64(l.Count())*(1-q) < 1-1e-9 {
		return nil
	}
	return microseconds(l.Quantile(q))
}

func microseconds(d time.Duration) *float64 { return known(float64(d) / float64(time.Microsecond)) }

func share(cpu, of time.Duration) *float64 { return known(cpu.Seconds() / of.Seconds()) }

// known is a figure, unless it is no number.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// fields are the figures by their JSON names.
func (f *BenchFigures) fields() iter.Seq2[string, **float64] {
	return func(yield func(string, **float64) bool) {
		for field, v := range reflect.ValueOf(f).Elem().Fields() {
			if !yield(field.Tag.Get("json"), v.Addr().Interface().(**float64)) {
				return
			}
		}
	}
}

// confidence is that of all intervals.
const confidence = 0.95

// summarise gives the median of each figure over the rounds, and the interval that holds the true median in 95 of 100
// cases whatever the distribution, where there are rounds enough for one: six. A figure that a round lacks is unknown.
func summarise(rounds []BenchFigures) (medians BenchFigures, spread map[string][2]float64) {
	spread = map[string][2]float64{}
	for name, figure := range medians.fields() {
		values := BenchRow{Samples: rounds}.samples(name)
		if len(values) == 0 || len(values) < len(rounds) {
			continue
		}
		s := benchmath.AssumeNothing.Summary(sample(values), confidence)
		*figure = known(s.Center)
		if !unbounded(s) {
			spread[name] = [2]float64{s.Lo, s.Hi}
		}
	}
	return medians, spread
}

func sample(values []float64) *benchmath.Sample {
	return benchmath.NewSample(append([]float64(nil), values...), &benchmath.DefaultThresholds)
}
