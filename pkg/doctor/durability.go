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

// cannotWrite is a server that refuses admissions because its disk failed, or that does not tell. A snapshot that failed
// matters only where some are made by themselves.
func cannotWrite(f Facts) (Finding, bool) {
	for _, field := range []string{"aof_last_write_status", "rdb_last_bgsave_status"} {
		if f.Info.Value[field] == "" {
			return f.blind(field), true
		}
	}
	if f.Info.Value["aof_last_write_status"] != "ok" {
		return seen(Danger, "the last write of the AOF failed").but("each admission is refused (MISCONF)",
			"see the server's log, and make room on its disk"), true
	}
	stops, _ := f.setting("stop-writes-on-bgsave-error", "")
	save, told := f.setting("save", "")
	if f.Info.Value["rdb_last_bgsave_status"] != "ok" && stops != "no" && (!told || longest(save) > 0) {
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
	case "master":
	case "slave":
		host, port := f.Info.Value["master_host"], f.Info.Value["master_port"]
		return seen(Danger, "a replica of %s:%s", host, port).but("it refuses writes, so nothing is ever admitted (READONLY)",
			fmt.Sprintf("rlctl doctor -h %s -p %s", report.ShellWord(host), port))
	default:
		return f.blind("role")
	}
	replicas, behind, told := replicasOf(f)
	if !told {
		return f.blind("connected_slaves")
	}
	good, told := f.count("min_slaves_good_slaves") // told where some are demanded
	if replicas == 0 && !told {
		return fine("no replica, so no failover that could forget")
	}
	least, off, ok := f.least()
	if !ok {
		return f.blind("min-replicas-to-write")
	}
	so := report.Count(replicas, "replica", "replicas")
	switch {
	case least > 0 && !told:
		return f.blind("min_slaves_good_slaves")
	case least > 0 && good < least:
		return seen(Danger, "%s, of which %s good; min-replicas-to-write %d", so, report.Int(good), least).but(
			"each admission is refused (NOREPLICAS), and --on-failure decides", "bring the replicas back, or: CONFIG SET min-replicas-to-write 0")
	case replicas == 0:
		return fine("no replica, so no failover that could forget")
	case behind != "":
		return seen(Warning, "%s; %s", so, behind).but("a failover to it forgets what it has not got: up to a whole limit of each client",
			"INFO replication, on both sides")
	case least == 0:
		return seen(Warning, "%s, %s", so, off).but(
			"a failover forgets what no replica had yet, and a master that is cut off goes on admitting beside the new one",
			"CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-max-lag 10",
			"without a replica admissions are then refused, and --on-failure decides")
	}
	return fine("%s, min-replicas-to-write %d: a failover may still forget what was in flight", so, least)
}

// least is how many replicas must be well for a write; 0 where one of two settings turns that off, and which.
func (f Facts) least() (least int64, off string, ok bool) {
	least, ok = f.number("min-replicas-to-write", "")
	lag, told := f.number("min-replicas-max-lag", "")
	switch {
	case !ok || least == 0:
		return 0, "min-replicas-to-write 0", ok
	case told && lag == 0:
		return 0, fmt.Sprintf("min-replicas-max-lag 0, which turns min-replicas-to-write %d off", least), true
	}
	return least, "", told
}

// replicasOf counts the replicas of a master, and says of the first that is not well what is wrong.
func replicasOf(f Facts) (n int64, behind string, told bool) {
	n, told = f.count("connected_slaves")
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
	return n, behind, told
}

const slots = 16384

// cluster: what a part of it that is missing does to limits.
func cluster(f Facts) Finding {
	switch {
	case f.Info.Value["cluster_enabled"] == "0":
		return fine("no node of a cluster: this server has all keys")
	case f.Info.Value["cluster_enabled"] != "1":
		return f.blind("cluster_enabled")
	case f.State.Why != "":
		return couldNot(f.State.Why)
	case !f.Wants.Cluster:
		return seen(Warning, "a node of a cluster, looked at alone").but("the other masters were not looked at", "rlctl doctor --cluster")
	}
	return slotsOf(f)
}

// slotsOf looks for slots that are not served, or would not be without this master.
func slotsOf(f Facts) Finding {
	state := f.State.Value
	assigned, err := strconv.Atoi(state["cluster_slots_assigned"])
	served, err2 := strconv.Atoi(state["cluster_slots_ok"])
	replicas, told := f.count("connected_slaves")
	end := "clients whose slot is missing are refused (CLUSTERDOWN)"
	if coverage, ok := f.setting("cluster-require-full-coverage", ""); coverage == "yes" {
		end = "every client is refused (CLUSTERDOWN), since cluster-require-full-coverage is yes"
	} else if !ok {
		end += ", and unless cluster-require-full-coverage is no all others as well"
	}
	switch {
	case state["cluster_state"] == "" || err != nil || err2 != nil:
		return couldNot("CLUSTER INFO does not tell state and slots")
	case !told:
		return f.blind("connected_slaves")
	case state["cluster_state"] != "ok" || served < assigned:
		return seen(Danger, "cluster_state %s, %s of %s slots served", state["cluster_state"], state["cluster_slots_ok"], report.Int(slots)).but(
			end, "redis-cli --cluster check HOST:PORT")
	case assigned < slots:
		return seen(Danger, "%s of %s slots are assigned", report.Int(int64(assigned)), report.Int(slots)).but(end, "redis-cli --cluster fix HOST:PORT")
	case replicas == 0:
		return seen(Warning, "ok, all slots served; this master has no replica").but("when it goes, "+end,
			"redis-cli --cluster add-node HOST:PORT HOST:PORT --cluster-slave", "CONFIG SET cluster-require-full-coverage no")
	}
	return fine("ok, all slots served; this master has %s", report.Count(replicas, "replica", "replicas"))
}
