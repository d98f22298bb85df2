package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/report"
)

// version: Valkey and Redict tell which Redis they equal.
func version(f Facts) Finding {
	equals := f.Info.Value["redis_version"]
	if equals == "" {
		return f.blind("its version")
	}
	so := "redis " + equals
	for _, fork := range []string{"valkey", "redict"} {
		if own := f.Info.Value[fork+"_version"]; own != "" {
			so = fmt.Sprintf("%s %s, which equals redis %s", fork, own, equals)
		}
	}
	number, _, _ := strings.Cut(equals, ".")
	major, err := strconv.Atoi(number)
	switch {
	case f.Info.Value["arch_bits"] == "32":
		return seen(Danger, "%s of 32 bits", so).but("scripts write times that do not fit into its integers", "install one of 64 bits")
	case err != nil:
		return couldNot("the version reads " + equals)
	case major < 5:
		return seen(Danger, "%s", so).but("a script that has read the time may not write there", "install 7.0 or newer")
	case major < 7:
		return seen(Warning, "%s", so).but("rlctl is tested with 7.0 and newer", "install 7.0 or newer")
	}
	return fine("%s", so)
}

// manyScripts is more than any program has that does not make up its scripts.
const manyScripts = 500

// cache: scripts that are not there are loaded by the first who asks; too many are somebody's generated text.
func cache(f Facts) Finding {
	n, counted := f.count("number_of_cached_scripts")
	evicted, _ := f.count("evicted_scripts")
	if n > manyScripts || evicted > 0 {
		so := report.Count(n, "script", "scripts") + " cached"
		if evicted > 0 {
			so += fmt.Sprintf(", %s evicted", report.Int(evicted))
		}
		return seen(Warning, "%s", so).but("somebody sends ever new text with EVAL; up to Redis 7.2 all of it stays, and takes memory",
			"CLIENT LIST: cmd=eval shows who", "rlctl script flush, once that has been mended")
	}
	if f.Cached.Why != "" {
		return couldNot(f.Cached.Why)
	}
	have := 0
	for _, has := range f.Cached.Value {
		if has {
			have++
		}
	}
	so := fmt.Sprintf("%d of the %d scripts of rlctl are loaded", have, len(f.Cached.Value))
	if have < len(f.Cached.Value) {
		so += "; who first needs one loads it"
	}
	if counted {
		so += fmt.Sprintf("; %s in all", report.Int(n))
	}
	return fine("%s", so)
}

// day bounds how long ago a slow call may lie to be worth a warning.
const day = 24 * time.Hour

// slowOthers is from when on a call of somebody else keeps limiters waiting.
const slowOthers = 100 * time.Millisecond

// slowLog: calls of our scripts that took long, and of others that took very long. While one runs, all wait.
func slowLog(f Facts) Finding {
	if f.Slow.Why != "" {
		return couldNot(f.Slow.Why)
	}
	limit, ok := f.number("slowlog-log-slower-than", "")
	length, told := f.number("slowlog-max-len", "")
	slow := map[string][]SlowCall{}
	for _, call := range f.Slow.Value {
		recent := f.Now.IsZero() || f.Now.Sub(call.At) < day
		switch {
		case recent && call.Script != "":
			slow[call.Script] = append(slow[call.Script], call)
		case recent && call.Took >= slowOthers:
			slow[call.Command] = append(slow[call.Command], call)
		}
	}
	switch {
	case len(slow) > 0:
	case !ok:
		return f.blind("slowlog-log-slower-than")
	case !told:
		return f.blind("slowlog-max-len")
	case limit < 0 || length == 0:
		return couldNot("the slow log is off (slowlog-log-slower-than, slowlog-max-len)")
	case time.Duration(limit)*time.Microsecond > slowOthers:
		return couldNot(fmt.Sprintf("the slow log has only what takes over %d µs (slowlog-log-slower-than)", limit))
	default:
		return fine("no slow call of a script of rlctl, and none over 0.1 s, in a day")
	}
	return seen(Warning, "in a day: %s", strings.Join(slowest(slow), "; ")).but(
		"while one call runs all others wait, every limiter too", "SLOWLOG GET", "INFO commandstats")
}

// slowest tells of each kind of call how many there were and how long one took.
func slowest(slow map[string][]SlowCall) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(slow)) {
		var most time.Duration
		for _, call := range slow[name] {
			most = max(most, call.Took)
		}
		lines = append(lines, fmt.Sprintf("%s, %s, up to %s", name, report.Count(int64(len(slow[name])), "call", "calls"), report.Millis(most)))
	}
	return lines
}

// longScripts: after how long a script that does not end lets others be told so.
func longScripts(f Facts) Finding {
	ms, ok := f.number("busy-reply-threshold", "")
	if !ok {
		ms, ok = f.number("lua-time-limit", "")
	}
	switch {
	case !ok && len(f.Config) == 0:
		return f.blind("busy-reply-threshold")
	case !ok:
		return f.blind("lua-time-limit")
	case ms > 0:
		return fine("a script that does not end answers others with BUSY after %s", report.Duration(time.Duration(ms)*time.Millisecond))
	}
	return seen(Warning, "busy-reply-threshold %d", ms).but("a script that does not end stops all callers, and SCRIPT KILL cannot end it",
		"CONFIG SET busy-reply-threshold 5000")
}

// clients: a server that is full refuses connections.
func clients(f Facts) Finding {
	now, told := f.count("connected_clients")
	most, ok := f.number("maxclients", "maxclients")
	if !told || !ok || most == 0 {
		return f.blind("maxclients")
	}
	refused, told := f.count("rejected_connections")
	if !told {
		return f.blind("rejected_connections")
	}
	so := fmt.Sprintf("%s of %s connected", report.Int(now), report.Count(most, "client", "clients"))
	if refused > 0 {
		so += fmt.Sprintf(", %s refused since it started", report.Int(refused))
	}
	if now*5 < most*4 && refused == 0 {
		return fine("%s", so)
	}
	return seen(Warning, "%s", so).but("a connection that is refused is a request that is not decided",
		fmt.Sprintf("CONFIG SET maxclients %d", 2*most), "CLIENT LIST: who holds so many")
}

// latency: round trips against the timeout.
func latency(f Facts) Finding {
	if f.Trips.Why != "" || len(f.Trips.Value) == 0 {
		return couldNot(f.Trips.Why)
	}
	took := make([]time.Duration, len(f.Trips.Value))
	for i, trip := range f.Trips.Value {
		took[i] = trip.Took
	}
	slices.Sort(took)
	p50, p99, most := took[(len(took)-1)/2], took[(len(took)*99+99)/100-1], took[len(took)-1]
	so := fmt.Sprintf("p50 %s, p99 %s, longest %s of %d round trips from here; --timeout %s",
		brief(p50), brief(p99), brief(most), len(took), f.Wants.Timeout)
	if p99*4 < f.Wants.Timeout {
		return fine("%s", so)
	}
	return seen(Warning, "%s", so).but("a call that takes longer than the timeout is not decided, and may have been counted all the same",
		fmt.Sprintf("--timeout %s", 10*p99.Round(time.Millisecond)), "see what else the server does: the slow log, INFO commandstats, its disk")
}

// wrongClock is a difference that no clock has that is kept right.
const wrongClock = time.Second

// clock: the server's decides, so only who takes over, and who compares times, minds a difference.
func clock(f Facts) Finding {
	if f.Trips.Why != "" || len(f.Trips.Value) == 0 {
		return couldNot(f.Trips.Why)
	}
	best := slices.MinFunc(f.Trips.Value, func(a, b Trip) int { return int(a.Took - b.Took) })
	so := fmt.Sprintf("the server's clock is %s %s this machine's, give or take %s",
		brief(best.Offset.Abs()), map[bool]string{true: "behind", false: "ahead of"}[best.Offset < 0], brief(best.Took/2))
	if best.Offset.Abs()-best.Took/2 < wrongClock {
		return fine("%s", so)
	}
	return seen(Warning, "%s", so).but(
		"limiters go by the server's clock alone; but a failover to another clock is a step, and limiters on callers' clocks are wrong by it",
		"keep both clocks right: timedatectl set-ntp true")
}

// brief is a time in two or three digits.
func brief(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Second:
		return report.Millis(d)
	}
	return report.Duration(d.Round(time.Second))
}
