package main

import (
	"path/filepath"
	"strings"
)

// experiment is one run of rlctl whose result is kept.
type experiment struct{ name, command string }

func (x experiment) args() []string { return strings.Fields(x.command) }
func (x experiment) file() string   { return filepath.Join("results", x.name+".json") }

// atomic are the limiters to compare where all of the catalogue would take too long or hide each other.
const atomic = "sliding-log compact-log sliding-counter fixed-window token-bucket gcra"

// racy are the limiters that a race breaks, and one that it does not.
const racy = "naive-log naive-pipeline naive-counter naive-bucket local-bucket gcra"

// matrix is all that results/ holds, short enough to be run again on two cores in a quarter of an hour.
var matrix = []experiment{
	{"race-2", "race --procs 2 --rounds 3"},
	{"race-5", "race --procs 5 --rounds 3"},
	{"race-20", "race --procs 20 --rounds 3"},
	{"race-50", "race --procs 50 --rounds 3"},
	{"race-20-1ms", "race " + racy + " --procs 20 --limit 107 --rounds 3 --rtt 1ms"},
	{"race-20-5ms", "race " + racy + " --procs 20 --limit 107 --rounds 3 --rtt 5ms --attempts 50"},
	{"failover", "race " + atomic + " --failover"},
	{"failover-lag", "race " + atomic + " --failover --lag 300ms"},
	{"failover-cluster", "race " + atomic + " --cluster --failover --lag 300ms"},
	{"bench-1", "bench " + atomic + " --path allowed --clients 1 --duration 2s"},
	{"bench-8", "bench " + atomic + " --path allowed --clients 8 --duration 2s"},
	{"bench-64", "bench " + atomic + " --path allowed --clients 64 --duration 2s"},
	{"bench-512", "bench " + atomic + " --path allowed --clients 512 --duration 2s"},
	{"bench-hot", "bench " + atomic + " --path denied --keys 1 --duration 2s"},
	{"bench-deny", "bench cached-gcra gcra --path denied --keys 1 --duration 2s"},
	{"bench-open", "bench " + atomic + " --rate 4000 --duration 3s"},
	{"bench-pipe", "bench " + atomic + " --pipeline 16 --duration 2s"},
	{"bench-cluster", "bench " + atomic + " --cluster --pipeline 16 --duration 2s"},
	{"bench", "bench"}, // the whole catalogue, both paths; after failovers the machine is busy
	{"generator", "generator"},
	{"mem", "mem"},
	{"mem-million", "mem gcra fixed-window token-bucket sliding-counter --limits 100 --million"},
}

// picture is drawn of what some results show together, or of one.
type picture struct{ name, of string }

func (p picture) file() string { return filepath.Join("results", p.name+".svg") }

func (p picture) files() (names []string) {
	for _, name := range strings.Fields(p.of) {
		names = append(names, experiment{name: name}.file())
	}
	return names
}

var pictures = []picture{
	{"overshoot", "race-2 race-5 race-20 race-50"},
	{"throughput", "bench-1 bench-8 bench-64 bench-512"},
	{"latency", "bench-open"},
	{"memory", "mem"},
	{"safety", "race-20 bench mem"},
}
