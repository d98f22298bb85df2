package experiment

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"golang.org/x/perf/benchmath"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/load"
)

// figures are what one round measured.
func figures(got fleet.Round, used *use, pings load.Summary) BenchFigures {
	calls := float64(got.Summary.Calls())
	elapsed := got.Usage.Elapsed
	f := BenchFigures{
		OpsPerSec: known(calls / elapsed.Seconds()), Allocs: known(float64(got.Usage.Mallocs) / calls),
		ClientCPUShare: share(got.Usage.CPU, elapsed), Max: micros(got.Summary.Latency.Max()),
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
	return micros(l.Quantile(q))
}

func micros(d time.Duration) *float64 { return known(float64(d) / float64(time.Microsecond)) }

func share(cpu, of time.Duration) *float64 { return known(cpu.Seconds() / of.Seconds()) }

// known is a figure, unless it is no number.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// byName are the figures by their JSON names.
func (f BenchFigures) byName() map[string]*float64 {
	text, err := json.Marshal(f)
	if err != nil {
		panic(fmt.Sprintf("bench: figures: %v", err)) // they are numbers, none of them NaN
	}
	out := map[string]*float64{}
	if err := json.Unmarshal(text, &out); err != nil {
		panic(fmt.Sprintf("bench: figures: %v", err))
	}
	return out
}

func figuresOf(names map[string]*float64) (f BenchFigures) {
	text, err := json.Marshal(names)
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		panic(fmt.Sprintf("bench: figures: %v", err))
	}
	return f
}

// confidence is that of all intervals.
const confidence = 0.95

// summarise gives the median of each figure over the rounds, and the interval that holds the true median in 95 of 100
// cases whatever the distribution, where there are rounds enough for one: six. A figure that a round lacks is unknown.
func summarise(rounds []BenchFigures) (BenchFigures, map[string][2]float64) {
	columns := map[string][]float64{}
	for _, r := range rounds {
		for name, v := range r.byName() {
			if v != nil {
				columns[name] = append(columns[name], *v)
			}
		}
	}
	medians, spread := map[string]*float64{}, map[string][2]float64{}
	for name, values := range columns {
		if len(values) < len(rounds) {
			continue
		}
		s := benchmath.AssumeNothing.Summary(sample(values), confidence)
		medians[name] = known(s.Center)
		if known(s.Lo) != nil && known(s.Hi) != nil {
			spread[name] = [2]float64{s.Lo, s.Hi}
		}
	}
	return figuresOf(medians), spread
}

func sample(values []float64) *benchmath.Sample {
	return benchmath.NewSample(append([]float64(nil), values...), &benchmath.DefaultThresholds)
}
