package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

const noEviction = "noeviction"

// eviction: every limit has a TTL, so that no policy but noeviction spares it.
func eviction(f Facts) Finding {
	policy, ok := f.setting("maxmemory-policy", "maxmemory_policy")
	if !ok {
		return f.blind("maxmemory-policy")
	}
	most, known := f.number("maxmemory", "maxmemory")
	evicted, told := f.count("evicted_keys")
	if !told {
		return f.blind("evicted_keys")
	}
	so := fmt.Sprintf("%s, %s evicted so far", policy, report.Count(evicted, "key", "keys"))
	if policy == noEviction && evicted == 0 {
		return fine("%s: what does not fit is refused, and nothing is forgotten", policy)
	}
	if policy == noEviction {
		return seen(Warning, "%s", so).but("some time ago another policy was in force, and limits were forgotten",
			"find out who sets maxmemory-policy")
	}
	what := "an evicted limit is unused again: its client gets all of it once more"
	if strings.HasPrefix(policy, "volatile-") {
		what = "only keys with a TTL are evicted, and every limit has one, so limits go first; " + what
	}
	level := Danger
	if known && most == 0 {
		level, so = Warning, so+"; without maxmemory none ever is"
	}
	return seen(level, "%s", so).but(what, "CONFIG SET maxmemory-policy noeviction",
		"where other keys must be evicted, give limits a server of their own")
}

// memory: full, or without bound.
func memory(f Facts) Finding {
	most, ok := f.number("maxmemory", "maxmemory")
	used, told := f.count("used_memory")
	if !ok || !told {
		return f.blind("maxmemory")
	}
	if most == 0 {
		return unbounded(f, used)
	}
	policy, ok := f.setting("maxmemory-policy", "maxmemory_policy")
	if !ok {
		return f.blind("maxmemory-policy")
	}
	used -= f.uncounted()
	share := float64(used) / float64(most)
	so := fmt.Sprintf("%s of maxmemory %s used, %.0f %%", size(used), size(most), share*100)
	end := "full, it refuses each admission with OOM, and --on-failure decides; denials and peeks still work"
	if policy != noEviction {
		end = "full, it evicts"
	}
	switch {
	case share < 0.8:
		return fine("%s", so)
	case share < 0.95 || policy != noEviction:
		return seen(Warning, "%s", so).but(end, f.more(most)...)
	}
	return seen(Danger, "%s", so).but(end, f.more(most)...)
}

// more says how to get twice the memory, if the machine has it.
func (f Facts) more(most int64) []string {
	all, told := f.count("total_system_memory")
	if told && all > 0 && 2*most > all/4*3 {
		return []string{fmt.Sprintf("a machine with more memory: this one has %s in all", size(all))}
	}
	return []string{"CONFIG SET maxmemory " + megabytes(2*most), shared}
}

// shared goes with every advice about memory: of how much is left for one server, its own figures do not tell.
const shared = "take less where the machine is shared, or a container has a limit"

func unbounded(f Facts, used int64) Finding {
	so := fmt.Sprintf("no maxmemory, %s used", size(used))
	do := []string{"CONFIG SET maxmemory SIZE, less than the machine has", shared}
	if all, ok := f.count("total_system_memory"); ok && all > 0 {
		so += fmt.Sprintf(" of the machine's %s", size(all))
		do = []string{"CONFIG SET maxmemory " + megabytes(all/4*3), "that is 75 % of the whole machine: " + shared}
	}
	return seen(Warning, "%s", so).but("when the machine's memory runs out, the system kills the server, and every limit is forgotten", do...)
}

// uncounted is memory that maxmemory does not count: buffers of replicas and the AOF.
func (f Facts) uncounted() int64 {
	n, _ := f.count("mem_not_counted_for_evict")
	return n
}

func megabytes(bytes int64) string { return fmt.Sprintf("%dmb", max(1, bytes>>20)) }

func size(bytes int64) string {
	units := []string{"MiB", "GiB", "TiB"}
	x, i := float64(bytes)/(1<<20), 0
	for ; x >= 1024 && i < len(units)-1; i++ {
		x /= 1024
	}
	return report.Figure(x) + " " + units[i]
}

// manyEvents is from how many events on the key of a log takes long to free.
const manyEvents = 10_000

// freeing: an expired sorted set of many entries is freed at once, and everybody waits, unless that is left to another thread.
func freeing(f Facts) Finding {
	lazy, ok := f.setting("lazyfree-lazy-expire", "")
	grows := slices.Contains([]string{"sliding-log", target.Semaphore}, f.Wants.Limiter) && f.Wants.Limit.Events >= manyEvents
	switch {
	case !ok:
		return f.blind("lazyfree-lazy-expire")
	case lazy == "yes":
		return fine("expired keys are freed beside the work (lazyfree-lazy-expire yes)")
	case !grows:
		return fine("expired keys are freed at once, which a %s of %s does in no time", f.Wants.Limiter, events(f.Wants.Limit.Events))
	}
	return seen(Warning, "lazyfree-lazy-expire no, and a %s holds up to %s", f.Wants.Limiter, events(f.Wants.Limit.Events)).but(
		"all callers wait while an expired one is freed: a third of a second for a million entries",
		"CONFIG SET lazyfree-lazy-expire yes")
}

func events(n int64) string { return report.Count(n, "event", "events") }
