package doctor_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/doctor"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/scripts"
)

var now = time.Unix(1_700_000_000, 0)

// healthy are facts of which nothing is to be said.
func healthy() doctor.Facts {
	f := doctor.Facts{
		Node: "here", Now: now,
		Wants: doctor.Wants{
			Limiter: "sliding-log", Limit: limiter.Limit{Events: 100, Window: time.Minute}, Capacity: 100, Prefix: "p", Timeout: time.Second,
		},
		Info: doctor.Said[map[string]string]{Value: map[string]string{
			"redis_version": "7.0.15", "role": "master", "connected_slaves": "0", "used_memory": "1000000", "evicted_keys": "0",
			"connected_clients": "10", "number_of_cached_scripts": "9", "rdb_last_bgsave_status": "ok", "aof_last_write_status": "ok",
			"total_system_memory": "8589934592", "cluster_enabled": "0", "rejected_connections": "0",
		}},
		Config: map[string]doctor.Said[string]{},
		Cached: doctor.Said[map[string]bool]{Value: map[string]bool{"gcra": true}},
		Rights: doctor.Said[doctor.Rights]{Value: doctor.Rights{How: "ACL DRYRUN", All: true}},
	}
	for name, value := range map[string]string{
		"maxmemory": "100000000", "maxmemory-policy": "noeviction", "appendonly": "yes", "appendfsync": "everysec", "save": "",
		"maxclients": "10000", "min-replicas-to-write": "0", "busy-reply-threshold": "5000", "lazyfree-lazy-expire": "no",
		"slowlog-log-slower-than": "10000", "slowlog-max-len": "128", "min-replicas-max-lag": "10", "stop-writes-on-bgsave-error": "yes", "cluster-require-full-coverage": "yes",
	} {
		f.Config[name] = doctor.Said[string]{Value: value}
	}
	for i := range 200 {
		f.Trips.Value = append(f.Trips.Value, doctor.Trip{Took: time.Duration(200+i) * time.Microsecond, Offset: 5 * time.Millisecond})
	}
	return f
}

// change is facts that differ from the healthy ones in a few words: name=value of a setting, or of INFO after "info:".
func change(words ...string) func(*doctor.Facts) {
	return func(f *doctor.Facts) {
		for _, w := range words {
			name, value, _ := strings.Cut(w, "=")
			if field, ok := strings.CutPrefix(name, "info:"); ok {
				f.Info.Value[field] = value
			} else {
				f.Config[name] = doctor.Said[string]{Value: value}
			}
		}
	}
}

func window(d time.Duration, words ...string) func(*doctor.Facts) {
	return func(f *doctor.Facts) {
		f.Wants.Limit.Window = d
		change(words...)(f)
	}
}

// without takes settings away, as if the server did not know them.
func without(names ...string) func(*doctor.Facts) {
	return func(f *doctor.Facts) {
		for _, name := range names {
			delete(f.Config, name)
			delete(f.Info.Value, name)
		}
	}
}

// inCluster is a healthy master of a cluster.
func inCluster(words ...string) func(*doctor.Facts) {
	return func(f *doctor.Facts) {
		f.Wants.Cluster = true
		f.State.Value = map[string]string{"cluster_state": "ok", "cluster_slots_assigned": "16384", "cluster_slots_ok": "16384"}
		change("info:cluster_enabled=1", "info:connected_slaves=1", "min-replicas-to-write=1", "info:min_slaves_good_slaves=1")(f)
		for _, w := range words {
			name, value, _ := strings.Cut(w, "=")
			f.State.Value[name] = value
		}
	}
}

func slow(calls ...doctor.SlowCall) func(*doctor.Facts) {
	return func(f *doctor.Facts) { f.Slow.Value = calls }
}

func trips(took, offset time.Duration) func(*doctor.Facts) {
	return func(f *doctor.Facts) {
		for i := range f.Trips.Value {
			f.Trips.Value[i] = doctor.Trip{Took: took, Offset: offset}
		}
	}
}

func lacking(r doctor.Rights) func(*doctor.Facts) {
	return func(f *doctor.Facts) {
		r.How = "ACL DRYRUN"
		f.Rights.Value = r
	}
}

// noLimit lets nothing in, so that no state is kept.
func noLimit(words ...string) func(*doctor.Facts) {
	return func(f *doctor.Facts) {
		f.Wants.Limit.Events, f.Wants.Capacity = 0, 0
		change(words...)(f)
	}
}

const replicas = "info:slave0=ip=127.0.0.1,port=1,state=online,offset=1,lag=0"

func cases() []testCase {
	ms, GCRA := time.Millisecond, "gcra"
	ours := doctor.SlowCall{At: now.Add(-time.Hour), Took: 14 * ms, Command: "evalsha", Script: GCRA}
	old := doctor.SlowCall{At: now.Add(-48 * time.Hour), Took: 14 * ms, Command: "evalsha", Script: GCRA}
	return []testCase{
		{"version", change("info:redis_version=4.0.9"), doctor.Danger, "redis 4.0.9", "7.0"},
		{"version", change("info:arch_bits=32"), doctor.Danger, "redis 7.0.15 of 32 bits", "64 bits"},
		{"version", change("info:redis_version=6.2.6"), doctor.Warning, "redis 6.2.6", "7.0"},
		{"version", change("info:redis_version=7.2.4", "info:valkey_version=8.1.1"), doctor.Fine, "valkey 8.1.1, which equals redis 7.2.4", ""},
		{"version", change("info:redis_version=7.2.4", "info:redict_version=7.3.6"), doctor.Fine, "redict 7.3.6", ""},
		{"version", change("info:redis_version=next"), doctor.Unknown, "next", ""},
		{"version", without("redis_version"), doctor.Unknown, "does not tell its version", ""},

		{"rights", lacking(doctor.Rights{Missing: map[string][]string{"sliding-log": {"+zadd", "+zrem"}}}), doctor.Danger, "lacks +zadd +zrem", "ACL SETUSER NAME +zadd +zrem"},
		{"rights", func(f *doctor.Facts) {
			f.Wants.DB = 2
			f.Rights.Value.Missing = map[string][]string{"sliding-log": {"+select"}}
		}, doctor.Danger, "lacks +select", "rlctl doctor --acl sliding-log --db 2 --prefix p"},
		{"rights", lacking(doctor.Rights{Missing: map[string][]string{"sliding-log": {"~a\"b:{*}:sliding-log"}}}), doctor.Danger, "lacks ~a", `NAME "~a\"b:{*}:sliding-log"`},
		{"rights", lacking(doctor.Rights{All: true, Missing: map[string][]string{GCRA: {"+set"}}}), doctor.Fine, "not so gcra (", ""},
		{"rights", lacking(doctor.Rights{All: true, Gone: []string{"+lpush"}}), doctor.Fine, "not so compact-log (", ""},
		{"rights", lacking(doctor.Rights{All: true, Unclear: map[string][]string{GCRA: {"+set"}}}), doctor.Fine, "not so gcra (", ""},
		{"rights", lacking(doctor.Rights{Unclear: map[string][]string{"sliding-log": {"+zadd"}}}), doctor.Unknown, "do not tell whether sliding-log may +zadd", ""},
		{"rights", func(f *doctor.Facts) { f.Rights.Value = doctor.Rights{} }, doctor.Unknown, "not tried", ""},
		{"rights", lacking(doctor.Rights{Gone: []string{"+zadd", "+lpush"}}), doctor.Danger, "not there: +zadd", "rename-command"},
		{"rights", lacking(doctor.Rights{Gone: []string{"+lpush"}}), doctor.Fine, "", ""},
		{"rights", lacking(doctor.Rights{Untried: map[string][]string{"sliding-log": {"+lpush"}}}), doctor.Unknown, "+lpush", ""},
		{"rights", func(f *doctor.Facts) { f.Rights.Why = "rights failed: ERR" }, doctor.Unknown, "rights failed", ""},

		{"eviction", change("maxmemory-policy=allkeys-lru"), doctor.Danger, "allkeys-lru, 0 keys", "CONFIG SET maxmemory-policy noeviction"},
		{"eviction", change("maxmemory-policy=allkeys-random", "maxmemory=0"), doctor.Warning, "without maxmemory", "noeviction"},
		{"eviction", change("maxmemory-policy=volatile-ttl", "info:evicted_keys=7"), doctor.Danger, "7 keys evicted", "noeviction"},
		{"eviction", change("info:evicted_keys=1"), doctor.Warning, "1 key evicted", "maxmemory-policy"},
		{"eviction", without("maxmemory-policy"), doctor.Unknown, "maxmemory-policy", ""},
		{"eviction", without("evicted_keys"), doctor.Unknown, "evicted_keys", ""},
		{"eviction", noLimit("maxmemory-policy=allkeys-lru"), doctor.Fine, "a limit of 0 keeps nothing", ""},
		{"eviction", func(f *doctor.Facts) { // a service that forbids CONFIG tells in INFO
			f.Config["maxmemory-policy"] = doctor.Said[string]{Why: "no right to CONFIG GET"}
			f.Info.Value["maxmemory_policy"] = "volatile-lru"
		}, doctor.Danger, "volatile-lru", "noeviction"},

		{"memory", change("maxmemory=0"), doctor.Warning, "no maxmemory, 0.954 MiB used of the machine's 8 GiB", "CONFIG SET maxmemory 6144mb\nthat is 75 % of the whole machine: take less where the machine is shared"},
		{"memory", change("maxmemory=0", "info:total_system_memory=0"), doctor.Warning, "no maxmemory", "SIZE"},
		{"memory", change("info:used_memory=79000000"), doctor.Fine, "79 %", ""},
		{"memory", change("info:used_memory=81000000"), doctor.Warning, "81 %", "CONFIG SET maxmemory 190mb\ntake less where the machine is shared"},
		{"memory", change("info:used_memory=96000000", "info:total_system_memory=200000000"), doctor.Danger, "96 %", "more memory: this one has 191 MiB in all"},
		{"memory", without("maxmemory-policy"), doctor.Unknown, "maxmemory-policy", ""},
		{"memory", noLimit("maxmemory=0"), doctor.Fine, "a limit of 0 keeps nothing", ""},
		{"memory", change("info:used_memory=96000000"), doctor.Danger, "96 %", "CONFIG SET maxmemory"},
		{"memory", change("info:used_memory=96000000", "maxmemory-policy=allkeys-lru"), doctor.Warning, "96 %", "CONFIG SET maxmemory"},
		{"memory", change("info:used_memory=96000000", "info:mem_not_counted_for_evict=50000000"), doctor.Fine, "46 %", ""},
		{"memory", without("used_memory"), doctor.Unknown, "maxmemory", ""},

		{"persistence", change("appendfsync=always"), doctor.Fine, "no crash forgets", ""},
		{"persistence", change(), doctor.Fine, "2 of a client's 100 at a steady rate", ""},
		{"persistence", change("appendfsync=no"), doctor.Warning, "appendfsync no", "CONFIG SET appendfsync everysec"},
		{"persistence", window(time.Hour, "appendfsync=no"), doctor.Fine, "1 of a client's 100", ""},
		{"persistence", window(30*time.Second, "appendfsync=no"), doctor.Fine, "over before a machine is back", ""},
		{"persistence", change("appendonly=no"), doctor.Warning, "no persistence", "CONFIG SET appendonly yes"},
		{"persistence", window(time.Second, "appendonly=no"), doctor.Fine, "over before a killed server is back", ""},
		{"persistence", window(time.Hour, "appendonly=no"), doctor.Danger, "no persistence", "CONFIG SET appendonly yes"},
		{"persistence", change("appendonly=no", "save=3600 1 60 10000", "info:rdb_changes_since_last_save=41"), doctor.Warning, "(save 3600 1 60 10000), no AOF; 41 changes", "appendonly yes"},
		{"persistence", window(2*time.Hour, "appendonly=no", "save=3600 1"), doctor.Danger, "save 3600 1", "appendonly yes"},
		{"persistence", window(24*time.Hour, "appendonly=no", "save=3600 1"), doctor.Fine, "at most 1h0m0s, of a window of 1d", ""},
		{"persistence", change("info:aof_last_write_status=err"), doctor.Danger, "AOF failed", "disk"},
		{"persistence", change("info:rdb_last_bgsave_status=err", "save=60 1"), doctor.Danger, "snapshot failed", "stop-writes-on-bgsave-error no"},
		{"persistence", change("info:rdb_last_bgsave_status=err"), doctor.Fine, "AOF", ""}, // of a snapshot that somebody asked for
		{"persistence", without("rdb_last_bgsave_status"), doctor.Unknown, "rdb_last_bgsave_status", ""},
		{"persistence", window(time.Millisecond, "info:aof_last_write_status="), doctor.Unknown, "aof_last_write_status", ""},
		{"persistence", noLimit("appendonly=no"), doctor.Fine, "a limit of 0 keeps nothing", ""},
		{"persistence", change("info:rdb_last_bgsave_status=err", "save=60 1", "stop-writes-on-bgsave-error=no"), doctor.Fine, "AOF", ""},
		{"persistence", without("appendonly"), doctor.Unknown, "appendonly", ""},
		{"persistence", without("appendfsync"), doctor.Unknown, "appendfsync", ""},
		{"persistence", func(f *doctor.Facts) {
			without("appendonly", "save")(f)
			change("info:aof_enabled=0")(f)
		}, doctor.Unknown, "save", ""},

		{"replication", change("info:role=slave", "info:master_host=10.0.0.1", "info:master_port=6379"), doctor.Danger, "a replica of 10.0.0.1:6379", "rlctl doctor -h 10.0.0.1 -p 6379"},
		{"replication", change("info:connected_slaves=1", replicas), doctor.Warning, "1 replica, min-replicas-to-write 0", "CONFIG SET min-replicas-to-write 1"},
		{"replication", change("info:connected_slaves=1", replicas, "min-replicas-to-write=1", "info:min_slaves_good_slaves=1"), doctor.Fine, "1 replica", ""},
		{"replication", change("min-replicas-to-write=1", "info:min_slaves_good_slaves=0"), doctor.Danger, "0 replicas, of which 0 good", "min-replicas-to-write 0"},
		{"replication", func(f *doctor.Facts) { // no replica, and CONFIG is forbidden
			without("min-replicas-to-write")(f)
			change("info:min_slaves_good_slaves=0")(f)
		}, doctor.Unknown, "min-replicas-to-write", ""},
		{"replication", change("info:connected_slaves=1", replicas, "min-replicas-to-write=2", "info:min_slaves_good_slaves=1"), doctor.Danger, "1 good", "min-replicas-to-write 0"},
		{"replication", change("min-replicas-to-write=1", "info:min_slaves_good_slaves=0"), doctor.Danger, "0 replicas, of which 0 good", "min-replicas-to-write 0"},
		{"replication", change("info:connected_slaves=1", replicas, "min-replicas-to-write=1"), doctor.Unknown, "min_slaves_good_slaves", ""},
		{"replication", change("info:connected_slaves=1", replicas, "min-replicas-to-write=1", "min-replicas-max-lag=0"), doctor.Warning, "1 replica, min-replicas-max-lag 0", "CONFIG SET min-replicas-max-lag 10"},
		{"replication", change("min-replicas-to-write=1", "min-replicas-max-lag=0"), doctor.Fine, "no replica", ""},
		{"replication", without("connected_slaves"), doctor.Unknown, "connected_slaves", ""},
		{"replication", without("min-replicas-to-write"), doctor.Fine, "no replica", ""}, // INFO would tell how many are well
		{"replication", change("info:role=other"), doctor.Unknown, "role", ""},
		{"replication", noLimit("info:role=slave"), doctor.Fine, "a limit of 0 keeps nothing", ""},
		{"replication", change("info:connected_slaves=1", "info:slave0=state=wait_bgsave,lag=0"), doctor.Warning, `"wait_bgsave"`, "INFO replication"},
		{"replication", change("info:connected_slaves=2", replicas, "info:slave1=state=online,lag=11"), doctor.Warning, "11 s ago", "INFO replication"},
		{"replication", func(f *doctor.Facts) {
			without("min-replicas-to-write")(f)
			change("info:connected_slaves=1")(f)
		}, doctor.Unknown, "min-replicas-to-write", ""},

		{"cluster", inCluster(), doctor.Fine, "this master has 1 replica", ""},
		{"cluster", change(), doctor.Fine, "no node of a cluster", ""},
		{"cluster", without("cluster_enabled"), doctor.Unknown, "cluster_enabled", ""},
		{"cluster", inCluster("cluster_slots_assigned="), doctor.Unknown, "CLUSTER INFO", ""},
		{"cluster", inCluster("cluster_slots_ok=16383"), doctor.Danger, "cluster_state ok, 16383 of 16,384", "redis-cli --cluster check"},
		{"cluster", func(f *doctor.Facts) { inCluster()(f); without("connected_slaves")(f) }, doctor.Unknown, "connected_slaves", ""},
		{"cluster", inCluster("cluster_state=fail"), doctor.Danger, "cluster_state fail", "redis-cli --cluster check"},
		{"cluster", inCluster("cluster_slots_assigned=16383"), doctor.Danger, "16,383 of 16,384", "redis-cli --cluster fix"},
		{"cluster", func(f *doctor.Facts) { inCluster()(f); change("info:connected_slaves=0")(f) }, doctor.Warning, "no replica", "add-node"},
		{"cluster", func(f *doctor.Facts) { inCluster()(f); f.Wants.Cluster = false }, doctor.Warning, "looked at alone", "rlctl doctor --cluster"},
		{"cluster", func(f *doctor.Facts) { inCluster()(f); f.State.Why = "no right to CLUSTER INFO" }, doctor.Unknown, "no right", ""},

		{"scripts", change("info:number_of_cached_scripts=501"), doctor.Warning, "501 scripts cached", "CLIENT LIST"},
		{"scripts", change("info:evicted_scripts=3"), doctor.Warning, "3 evicted", "rlctl script flush"},
		{"scripts", func(f *doctor.Facts) { f.Cached.Value = map[string]bool{"a": true, "b": false} }, doctor.Fine, "1 of the 2 scripts of rlctl are loaded; who first", ""},
		{"scripts", func(f *doctor.Facts) { f.Cached.Why = "no right to SCRIPT EXISTS" }, doctor.Unknown, "SCRIPT EXISTS", ""},

		{"slow log", slow(ours, ours, old), doctor.Warning, "gcra, 2 calls, up to 14 ms", "SLOWLOG GET"},
		{"slow log", slow(old), doctor.Fine, "", ""},
		{"slow log", slow(doctor.SlowCall{At: now, Took: 300 * ms, Command: "keys"}), doctor.Warning, "keys, 1 call, up to 300 ms", "SLOWLOG GET"},
		{"slow log", slow(doctor.SlowCall{At: now, Took: 99 * ms, Command: "keys"}), doctor.Fine, "", ""},
		{"slow log", change("slowlog-log-slower-than=-1"), doctor.Unknown, "off", ""},
		{"slow log", change("slowlog-max-len=0"), doctor.Unknown, "off", ""},
		{"slow log", change("slowlog-log-slower-than=100001"), doctor.Unknown, "over 100001 µs", ""},
		{"slow log", without("slowlog-log-slower-than"), doctor.Unknown, "slowlog-log-slower-than", ""},
		{"slow log", without("slowlog-max-len"), doctor.Unknown, "slowlog-max-len", ""},
		{"slow log", func(f *doctor.Facts) { f.Slow.Why = "no right to SLOWLOG GET" }, doctor.Unknown, "no right", ""},

		{"long scripts", change("busy-reply-threshold=0"), doctor.Warning, "busy-reply-threshold 0", "CONFIG SET busy-reply-threshold 5000"},
		{"long scripts", func(f *doctor.Facts) { without("busy-reply-threshold")(f); change("lua-time-limit=3000")(f) }, doctor.Fine, "after 3s", ""},
		{"long scripts", without("busy-reply-threshold"), doctor.Unknown, "lua-time-limit", ""},

		{"freeing", func(f *doctor.Facts) { f.Wants.Limit.Events = 10_000 }, doctor.Warning, "up to 10,000 events", "CONFIG SET lazyfree-lazy-expire yes"},
		{"freeing", func(f *doctor.Facts) { f.Wants.Limit.Events, f.Wants.Limiter = 10_000, GCRA }, doctor.Fine, "", ""},
		{"freeing", func(f *doctor.Facts) { f.Wants.Limit.Events = 9_999 }, doctor.Fine, "", ""},
		{"freeing", func(f *doctor.Facts) { f.Wants.Limit.Events, f.Wants.Limiter = 10_000, "semaphore" }, doctor.Warning, "up to 10,000 events", "lazyfree-lazy-expire yes"},
		{"freeing", without("lazyfree-lazy-expire"), doctor.Unknown, "lazyfree", ""},
		{"freeing", change("lazyfree-lazy-expire=yes"), doctor.Fine, "beside the work", ""},
		{"freeing", func(f *doctor.Facts) { f.Wants.Limit.Events = 10_000; without("lazyfree-lazy-expire")(f) }, doctor.Unknown, "lazyfree", ""},

		{"clients", change("info:connected_clients=8000"), doctor.Warning, "8,000 of 10,000 clients", "CONFIG SET maxclients 20000"},
		{"clients", change("info:connected_clients=7999"), doctor.Fine, "7,999", ""},
		{"clients", change("info:rejected_connections=1"), doctor.Warning, "1 refused", "CONFIG SET maxclients"},
		{"clients", without("rejected_connections"), doctor.Unknown, "rejected_connections", ""},
		{"clients", without("maxclients"), doctor.Unknown, "maxclients", ""},

		{"latency", trips(250*ms, 0), doctor.Warning, "p99 250 ms", "--timeout 2.5s"},
		{"latency", trips(249*ms, 0), doctor.Fine, "p50 249 ms", ""},
		{"latency", func(f *doctor.Facts) { f.Trips.Value[0].Took, f.Trips.Value[1].Took = time.Second, time.Second }, doctor.Fine, "longest 1,000 ms", ""},
		{"latency", func(f *doctor.Facts) {
			f.Trips.Value[0].Took, f.Trips.Value[1].Took, f.Trips.Value[2].Took = time.Second, time.Second, time.Second
		}, doctor.Warning, "p99 1,000 ms", "--timeout"},
		{"latency", func(f *doctor.Facts) { f.Trips = doctor.Said[[]doctor.Trip]{Why: "no right to TIME"} }, doctor.Unknown, "TIME", ""},

		{"clock", trips(ms, 1001*ms), doctor.Warning, "1,001 ms ahead of this machine's, give or take 500 µs", "timedatectl"},
		{"clock", trips(ms, -time.Hour), doctor.Warning, "1h0m0s behind", "timedatectl"},
		{"clock", trips(100*ms, -1040*ms), doctor.Fine, "behind this machine's, give or take 50 ms", ""},
		{"clock", func(f *doctor.Facts) { f.Trips = doctor.Said[[]doctor.Trip]{Why: "no right to TIME"} }, doctor.Unknown, "TIME", ""},
	}
}

type testCase struct {
	check string
	make  func(*doctor.Facts)
	level doctor.Level
	seen  string // part of what was seen
	do    string // part of what to do
}

func TestChecks(t *testing.T) {
	for _, c := range cases() {
		f := healthy()
		c.make(&f)
		found := doctor.Examine(f)
		i := slices.IndexFunc(found, func(g doctor.Finding) bool { return g.Check == c.check })
		if i < 0 {
			t.Errorf("%s: nothing found", c.check)
			continue
		}
		g := found[i]
		if g.Level != c.level || !strings.Contains(g.Seen, c.seen) || !strings.Contains(strings.Join(g.Do, "\n"), c.do) {
			t.Errorf("want %s of %s with %q and %q, got\n%+v", c.level, c.check, c.seen, c.do, g)
		}
		if bad := g.Level == doctor.Warning || g.Level == doctor.Danger; bad != (g.Endangers != "") || bad != (len(g.Do) > 0) {
			t.Errorf("%s: what is bad says why and what to do, what is not does not: %+v", c.check, g)
		}
		for _, other := range found {
			if other.Check != c.check && other.Level != doctor.Fine && !related(c.check, other.Check) {
				t.Errorf("%s: %s came up as well: %+v", c.check, other.Check, other)
			}
		}
	}
}

// related checks may look at the same fact.
func related(a, b string) bool {
	pairs := []string{"eviction memory", "latency clock", "replication cluster", "version replication", "cluster replication"}
	return slices.Contains(pairs, a+" "+b) || slices.Contains(pairs, b+" "+a)
}

func TestEveryLevelOfEveryCheckIsTried(t *testing.T) {
	tried := map[string]map[doctor.Level]bool{}
	for _, c := range cases() {
		if tried[c.check] == nil {
			tried[c.check] = map[doctor.Level]bool{}
		}
		tried[c.check][c.level] = true
	}
	inside := healthy()
	inCluster()(&inside)
	for _, g := range doctor.Examine(inside) {
		if g.Level != doctor.Fine {
			t.Errorf("healthy, and yet %+v", g)
		}
		if !tried[g.Check][doctor.Unknown] || len(tried[g.Check]) < 2 {
			t.Errorf("%s: only %v tried", g.Check, slices.Collect(maps.Keys(tried[g.Check])))
		}
	}
}

// Of a node that does not answer nothing else is said.
func TestANodeThatIsGone(t *testing.T) {
	found := doctor.Examine(doctor.Facts{Node: "there", Gone: errors.New("refused")})
	if len(found) != 1 || found[0].Level != doctor.Danger || found[0].Check != "node" || found[0].Node != "there" {
		t.Errorf("%+v", found)
	}
}

// A cluster of which no master answers is an error and not a list without a fault.
func TestNoMasterIsAnError(t *testing.T) {
	gone := errors.New("refused")
	for _, c := range []struct {
		all  []doctor.Facts
		want string
	}{
		{nil, "no node of the cluster is a master now"},
		{[]doctor.Facts{{Gone: gone}, {Gone: gone}}, "refused"},
		{[]doctor.Facts{{Gone: gone}, {}}, "<nil>"},
	} {
		if got := fmt.Sprint(doctor.Unseen(c.all)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.all, got, c.want)
		}
	}
}

// Of a server that tells nothing, nothing is called fine.
func TestNothingUnseenIsFine(t *testing.T) {
	f := doctor.Facts{Wants: healthy().Wants}
	f.Info.Why, f.Cached.Why, f.Slow.Why, f.Rights.Why, f.Trips.Why = "no right to INFO", "no right", "no right", "no right", "no right"
	f.Config = map[string]doctor.Said[string]{}
	for name := range healthy().Config {
		f.Config[name] = doctor.Said[string]{Why: "no right to CONFIG GET"}
	}
	for _, g := range doctor.Examine(f) {
		if g.Level != doctor.Unknown || !strings.HasPrefix(g.Seen, "could not look: ") {
			t.Errorf("%+v", g)
		}
	}
}

// Each check says something of every server, so that none is missed: of one that tells all, of one that tells nothing,
// and of one that tells all but one thing, for whichever limiter and limit.
func TestEveryCheckFindsSomething(t *testing.T) {
	var want []string
	for _, g := range doctor.Examine(healthy()) {
		want = append(want, g.Check)
	}
	servers := map[string]doctor.Facts{"nothing": {Wants: healthy().Wants}, "all": healthy()}
	for _, c := range cases() {
		f := healthy()
		c.make(&f)
		servers[c.check+" "+c.seen] = f
	}
	for _, m := range []func(*doctor.Facts){change(), inCluster()} {
		full := healthy()
		m(&full)
		for _, name := range slices.Concat(slices.Collect(maps.Keys(full.Config)), slices.Collect(maps.Keys(full.Info.Value))) {
			f := healthy()
			m(&f)
			without(name)(&f)
			servers["all but "+name] = f
		}
	}
	for name, f := range servers {
		var got []string
		for _, g := range doctor.Examine(f) {
			if got = append(got, g.Check); g.Seen == "" || strings.HasSuffix(g.Seen, "nothing to say") {
				t.Errorf("a server that tells %s: %s says nothing: %+v", name, g.Check, g)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("of a server that tells %s: %v, want %v", name, got, want)
		}
	}
	if len(want) != 14 {
		t.Errorf("%d checks: %v", len(want), want)
	}
}

// A sentinel keeps no limits, so that nothing else is said of it.
func TestASentinel(t *testing.T) {
	f := healthy()
	change("info:redis_mode=sentinel")(&f)
	found := doctor.Examine(f)
	if len(found) != 1 || found[0].Level != doctor.Danger || !strings.Contains(found[0].Do[0], "rlctl doctor --sentinel-master NAME") {
		t.Errorf("%+v", found)
	}
}

// What comes of a right that is missing is said only where it can come.
func TestWhatComesOfAMissingRight(t *testing.T) {
	for _, c := range []struct{ limiter, words, want string }{
		{"gcra", "+select +evalsha", "no connection"},
		{"gcra", "+cluster|slots ~x", "which node"},
		{"gcra", "+evalsha +set", "before its script begins"},
		{"gcra", "~p:{*}:gcra", "before its script begins"},
		{"gcra", "+script|load", "once the server has lost the script"},
		{"gcra", "+asking", "while a slot moves"},
		{"gcra", "+set", "before it has written anything"},
		{"gcra", "+asking +time", "before it has written anything"},
		{"sliding-log", "+zadd", "before it has written anything"},
		{"semaphore", "+zadd", "perhaps after its first write"},
		{"sliding-log", "+pexpire", "perhaps after its first write"},
		{"compact-log", "+ltrim +lindex", "perhaps after its first write"},
	} {
		missing, gone := healthy(), healthy()
		missing.Wants.Limiter, gone.Wants.Limiter = c.limiter, c.limiter
		missing.Wants.DB, gone.Wants.DB, missing.Wants.Cluster, gone.Wants.Cluster = 1, 1, true, true
		words := strings.Fields(c.words)
		missing.Rights.Value.Missing = map[string][]string{c.limiter: words}
		gone.Rights.Value.Gone = words
		for _, f := range []doctor.Facts{missing, gone} {
			got := find(t, doctor.Examine(f), "rights")
			if strings.HasPrefix(c.words, "~") && f.Rights.Value.Gone != nil {
				continue // a pattern of keys is no command
			}
			if got.Level != doctor.Danger || !strings.Contains(got.Endangers, c.want) {
				t.Errorf("%s without %s: want %q, got %+v", c.limiter, c.words, c.want, got)
			}
		}
	}
}

// What has no harmless form would be tried by doing it.
func TestEveryRightCanBeTried(t *testing.T) {
	for _, name := range scripts.Names() {
		source, _ := scripts.Source(name)
		for _, right := range scripts.Rights(source) {
			if doctor.Harmless(right, "k") == nil {
				t.Errorf("%s: no way to try %s", name, right)
			}
		}
	}
}
