package experiment

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Provenance says what made a result: the program, the machine and the command line. What the machine does not tell is
// null.
type Provenance struct {
	Command  string  `json:"command"` // without secrets
	Time     string  `json:"time"`    // when it began, RFC 3339 in UTC
	Version  string  `json:"version"` // of rlctl
	Commit   *string `json:"commit"`
	Modified *bool   `json:"modified"` // the work tree differed from the commit
	Go       string  `json:"go"`
	OS       string  `json:"os"`
	Arch     string  `json:"arch"`
	Kernel   *string `json:"kernel"`
	CPU      *string `json:"cpu"` // model
	Cores    int     `json:"cores"`
	Memory   *int64  `json:"memory_bytes"`
	Redis    Server  `json:"redis"`
}

// madeOn adds to what the program said of itself when and where it runs, and on which server.
func (p Provenance) madeOn(s Server) Provenance {
	p.Time = time.Now().UTC().Format(time.RFC3339)
	p.Kernel = firstLine("/proc/sys/kernel/osrelease")
	p.CPU = field("/proc/cpuinfo", "model name")
	p.Cores = runtime.NumCPU()
	p.Memory = memory()
	p.Redis = s
	return p
}

// memory is all that the machine has, in bytes.
func memory() *int64 {
	total := field("/proc/meminfo", "MemTotal")
	if total == nil {
		return nil
	}
	kib, err := strconv.ParseInt(strings.TrimSuffix(*total, " kB"), 10, 64)
	if err != nil {
		return nil
	}
	return new(kib * 1024)
}

// field is the first value of that name in a file of "name: value" lines, as Linux keeps them below /proc.
func field(file, name string) *string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return new(strings.TrimSpace(value))
		}
	}
	return nil
}

// loadAverage is how many tasks ran or waited for a core over the last minute.
func loadAverage() *float64 {
	line := firstLine("/proc/loadavg")
	if line == nil {
		return nil
	}
	minute, _, _ := strings.Cut(*line, " ")
	load, err := strconv.ParseFloat(minute, 64)
	if err != nil {
		return nil
	}
	return known(load)
}

func firstLine(file string) *string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return &line
}
