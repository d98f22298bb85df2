package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/report"
)

// A limit that is forgotten is a limit that can be taken again. How much that is depends on the window: what was taken
// before it no longer counts anyway, and a window that is over before the server is back cannot be forgotten.
const (
	restart   = time.Second      // the least that a killed server takes to be back
	reboot    = 30 * time.Second // the least that a machine takes
	unwritten = time.Second      // what appendfsync everysec has not written
	kernel    = 30 * time.Second // what Linux has not written of itself
	quota     = time.Hour        // from this window on, to take a limit twice is no trifle
	tolerable = 0.1              // share of the window that may be forgotten without a warning
)

// persistence: what a crash forgets, against the window.
func persistence(f Facts) Finding {
	if g, bad := cannotWrite(f); bad {
		return g
	}
	window := f.Wants.Limit.Window
	if window <= restart {
		return fine("a window of %s is over before a killed server is back", report.Duration(window))
	}
	aof, ok := f.setting("appendonly", "")
	if !ok {
		if enabled, told := f.count("aof_enabled"); told {
			aof, ok = map[int64]string{0: "no", 1: "yes"}[enabled], true
		}
	}
	if !ok {
		return f.blind("appendonly")
	}
	if aof == "yes" {
		return appended(f)
	}
	save, ok := f.setting("save", "")
	if !ok {
		return f.blind("save")
	}
	return snapshots(f, save)
}

// cannotWrite is a server that refuses admissions because its disk failed.
func cannotWrite(f Facts) (Finding, bool) {
	if status := f.Info.Value["aof_last_write_status"]; status != "" && status != "ok" {
		return seen(Danger, "the last write of the AOF failed").but("each admission is refused (MISCONF)",
			"see the server's log, and make room on its disk"), true
	}
	stops, _ := f.setting("stop-writes-on-bgsave-error", "")
	if status := f.Info.Value["rdb_last_bgsave_status"]; status != "" && status != "ok" && stops != "no" {
		return seen(Danger, "the last snapshot failed").but("each admission is refused (MISCONF)",
			"see the server's log, and make room on its disk", "CONFIG SET stop-writes-on-bgsave-error no"), true
	}
	return Finding{}, false
}

// appended is what a server with an AOF forgets: nothing when it is killed.
func appended(f Facts) Finding {
	sync, ok := f.setting("appendfsync", "")
	window := f.Wants.Limit.Window
	switch {
	case !ok:
		return f.blind("appendfsync")
	case sync == "always":
		return fine("AOF, appendfsync always: no crash forgets what was answered")
	case window <= reboot:
		return fine("AOF, appendfsync %s: a killed server forgets nothing, and a window of %s is over before a machine is back",
			sync, report.Duration(window))
	case sync == "everysec":
		return fine("AOF, appendfsync everysec: a killed server forgets nothing, a dead machine its last second: %s", f.forgets(unwritten))
	case float64(kernel) < tolerable*float64(window):
		return fine("AOF, appendfsync %s: a killed server forgets nothing, a dead machine some 30 s: %s", sync, f.forgets(kernel))
	}
	return seen(Warning, "AOF, appendfsync %s", sync).but(
		"a killed server forgets nothing, a dead machine some 30 s: "+f.forgets(kernel), "CONFIG SET appendfsync everysec")
}

// snapshots is what a server without an AOF forgets: all since the last snapshot, if it makes any.
func snapshots(f Facts, save string) Finding {
	window := f.Wants.Limit.Window
	level, do := Warning, []string{"CONFIG SET appendonly yes", "CONFIG SET appendfsync everysec"}
	if window >= quota {
		level = Danger
	}
	every := longest(save)
	if every == 0 {
		return seen(level, "no persistence: neither AOF nor snapshots").but(fmt.Sprintf(
			"a server that ends has forgotten all: every client may take its %s once more within %s",
			report.Int(f.Wants.Capacity), report.Duration(window)), do...)
	}
	so := fmt.Sprintf("snapshots only (save %s), no AOF", save)
	if changes, ok := f.count("rdb_changes_since_last_save"); ok {
		so += fmt.Sprintf("; %s since the last", report.Count(changes, "change", "changes"))
	}
	if float64(every) < tolerable*float64(window) {
		return fine("%s: a crash forgets at most %s, of a window of %s", so, report.Duration(every), report.Duration(window))
	}
	return seen(level, "%s", so).but(fmt.Sprintf("a crash forgets up to %s: %s", report.Duration(every), f.forgets(every)), do...)
}

// longest is the longest interval of a save setting such as "3600 1 300 100"; 0 if there is none.
func longest(save string) (every time.Duration) {
	words := strings.Fields(save)
	for i := 0; i+1 < len(words); i += 2 {
		if seconds, err := strconv.Atoi(words[i]); err == nil {
			every = max(every, time.Duration(seconds)*time.Second)
		}
	}
	return every
}

// forgets says how many events of a client's limit a time may hold: at a steady rate, and at worst.
func (f Facts) forgets(d time.Duration) string {
	l := f.Wants.Limit
	steady := min(f.Wants.Capacity, share(l, d))
	if steady == f.Wants.Capacity {
		return "all " + report.Int(steady) + " of a client"
	}
	return fmt.Sprintf("%s of a client's %s at a steady rate, at worst all", report.Int(steady), report.Int(f.Wants.Capacity))
}

// share is how many events of a steady client fall into d, rounded up.
func share(l limiter.Limit, d time.Duration) int64 {
	if d >= l.Window {
		return l.Events
	}
	exact := float64(l.Events) * float64(d) / float64(l.Window)
	n := int64(exact)
	if float64(n) < exact {
		n++
	}
	return n
}

// lagging is how long a replica may not have been heard of.
const lagging = 10 // seconds

// replication: an admission is answered before any replica has it.
func replication(f Facts) Finding {
	switch f.Info.Value["role"] {
	case "":
		return f.blind("role")
	case "slave":
		host, port := f.Info.Value["master_host"], f.Info.Value["master_port"]
		return seen(Danger, "a replica of %s:%s", host, port).but("it refuses writes, so nothing is ever admitted (READONLY)",
			fmt.Sprintf("rlctl doctor -h %s -p %s", report.ShellWord(host), port))
	}
	replicas, behind := replicasOf(f)
	so := report.Count(replicas, "replica", "replicas")
	least, ok := f.number("min-replicas-to-write", "")
	good, told := f.count("min_slaves_good_slaves") // told where some are demanded
	switch {
	case replicas == 0 && !told:
		return fine("no replica, so no failover that could forget")
	case !ok:
		return f.blind("min-replicas-to-write")
	case least > 0 && told && good < least:
		return seen(Danger, "%s, of which %s good; min-replicas-to-write %d", so, report.Int(good), least).but(
			"each admission is refused (NOREPLICAS), and --on-failure decides", "bring the replicas back, or: CONFIG SET min-replicas-to-write 0")
	case behind != "":
		return seen(Warning, "%s; %s", so, behind).but("a failover to it forgets what it has not got: up to a whole limit of each client",
			"INFO replication, on both sides")
	case least == 0:
		return seen(Warning, "%s, min-replicas-to-write 0", so).but(
			"a failover forgets what no replica had yet, and a master that is cut off goes on admitting beside the new one",
			"CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-max-lag 10",
			"without a replica admissions are then refused, and --on-failure decides")
	}
	return fine("%s, min-replicas-to-write %d: a failover may still forget what was in flight", so, least)
}

// replicasOf counts the replicas of a master, and says of the first that is not well what is wrong.
func replicasOf(f Facts) (n int64, behind string) {
	n, _ = f.count("connected_slaves")
	for i := range n {
		state := map[string]string{}
		for field := range strings.SplitSeq(f.Info.Value[fmt.Sprintf("slave%d", i)], ",") {
			name, value, _ := strings.Cut(field, "=")
			state[name] = value
		}
		lag, err := strconv.Atoi(state["lag"])
		switch {
		case behind != "" || len(state) < 2:
		case state["state"] != "online":
			behind = fmt.Sprintf("one is not online but %q", state["state"])
		case err == nil && lag > lagging:
			behind = fmt.Sprintf("one was last heard of %d s ago", lag)
		}
	}
	return n, behind
}

const slots = 16384

// cluster: what a part of it that is missing does to limits.
func cluster(f Facts) Finding {
	if f.Info.Value["cluster_enabled"] != "1" {
		return Finding{}
	}
	if f.State.Why != "" {
		return couldNot(f.State.Why)
	}
	if !f.Wants.Cluster {
		return seen(Warning, "a node of a cluster, looked at alone").but("the other masters were not looked at", "rlctl doctor --cluster")
	}
	state := f.State.Value
	assigned, _ := strconv.Atoi(state["cluster_slots_assigned"])
	coverage, _ := f.setting("cluster-require-full-coverage", "")
	end := "clients whose slot is missing are refused (CLUSTERDOWN)"
	if coverage == "yes" {
		end = "every client is refused (CLUSTERDOWN), since cluster-require-full-coverage is yes"
	}
	replicas, told := f.count("connected_slaves")
	switch {
	case state["cluster_state"] != "ok":
		return seen(Danger, "cluster_state %s, %s of %s slots served", state["cluster_state"], state["cluster_slots_ok"], report.Int(slots)).but(
			end, "redis-cli --cluster check HOST:PORT")
	case assigned < slots:
		return seen(Danger, "%s of %s slots are assigned", report.Int(int64(assigned)), report.Int(slots)).but(end, "redis-cli --cluster fix HOST:PORT")
	case told && replicas == 0:
		return seen(Warning, "ok, all slots served; this master has no replica").but("when it goes, "+end,
			"redis-cli --cluster add-node HOST:PORT HOST:PORT --cluster-slave", "CONFIG SET cluster-require-full-coverage no")
	}
	return fine("ok, all slots served; this master has %s", report.Count(replicas, "replica", "replicas"))
}
