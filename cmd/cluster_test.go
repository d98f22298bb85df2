package cmd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/scripts"
)

// TestOnACluster has all that is tried on one cluster of three masters, each with a replica, one after another.
func TestOnACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starting so many servers takes seconds that the race detector's part has not")
	}
	t.Parallel()
	g := redisdtest.Cluster(t, 3, 1)
	at := []string{"--cluster", "-p", g.Entry().Port}
	for _, c := range []struct {
		name string
		try  func(t *testing.T, g *redisd.Group, at []string)
	}{
		{"scripts", scriptsOnACluster}, {"ids", idsOnACluster}, {"hold", holdOnACluster}, {"race", raceOnACluster}, {"bench", benchOnACluster},
		{"mem", memOnACluster}, {"doctor", doctorOnACluster},
		{"rights", rightsOnACluster}, {"move", checksWhileASlotMoves}, {"failover", checksAcrossAFailover},
	} {
		t.Run(c.name, func(t *testing.T) { c.try(t, g, at) })
	}
}

// Load reaches every node, the replicas too, and verify finds the one node that lost its scripts.
func scriptsOnACluster(t *testing.T, g *redisd.Group, at []string) {
	at = append(slices.Clone(at), "--format", "csv")
	code, stdout, stderr := finish(t, append([]string{"script", "load"}, at...)...)
	all := len(scripts.Names())
	if n := strings.Count(stdout, ",true\n"); code != 0 || n != 6*all {
		t.Fatalf("load: exit code %d, %d scripts on six nodes, want %d each\n%s%s", code, n, all, stdout, stderr)
	}
	if code, stdout, stderr := finish(t, append([]string{"script", "verify"}, at...)...); code != 0 {
		t.Errorf("verify: exit code %d\n%s%s", code, stdout, stderr)
	}
	forgetful := g.Nodes()[1]
	if err := forgetful.Client().ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ = finish(t, "script", "verify", "--cluster", "-p", g.Entry().Port)
	lost := regexp.MustCompile(`(?m)^gcra +[0-9a-f]{40}  no   ` + forgetful.Addr + `$`)
	if code != 1 || !lost.MatchString(stdout) || strings.Count(stdout, "  yes  ") != 5*all {
		t.Errorf("verify after a flush: exit code %d\n%s", code, stdout)
	}
}

// idsOnACluster: ids that elsewhere met CROSSSLOT, or the state of others, are each one client in one slot, for every
// limiter, on whichever master that is; and the empty one is refused.
func idsOnACluster(t *testing.T, g *redisd.Group, at []string) {
	rdb, err := target.Conn{Port: number(t, g.Entry().Port), Cluster: true}.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	used := map[*redisd.Node]bool{}
	for _, e := range target.Catalogue() {
		l, err := e.New(rdb, limiter.Limit{Events: 2, Window: time.Minute}, limiter.WithPrefix("ids"))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"}", "}x", "{", "{}", "a{b}c", "a", "b"} {
			for i, want := range []bool{true, true, false} {
				if d, err := l.Check(t.Context(), id, 1); err != nil || d.Allowed != want {
					t.Errorf("%s, %q, call %d: %+v, %v", e.Name, id, i, d, err)
				}
			}
			if e.State == target.NoState {
				continue
			}
			key, err := limiter.Key("ids", id, e.Name)
			if err != nil {
				t.Fatal(err)
			}
			n, err := g.MasterOf(t.Context(), key)
			if err != nil || len(n.Client().Keys(t.Context(), key+"*").Val()) == 0 {
				t.Errorf("%s: %q is not on the master of its slot (%v)", e.Name, key, err)
			}
			used[n] = true
		}
		if _, err := l.Check(t.Context(), "", 1); err == nil {
			t.Errorf("%s takes an empty id", e.Name)
		}
	}
	if len(used) != 3 {
		t.Errorf("the ids lie on %d of 3 masters", len(used))
	}
	for id, want := range map[string]int{"}": 0, "}x": 0, "a{b}c": 0, "": 64} {
		if code, stdout, stderr := finish(t, append([]string{"check", id}, at...)...); code != want {
			t.Errorf("check %q: exit code %d, want %d: %s%s", id, code, want, stdout, stderr)
		}
	}
}

// holdOnACluster: the three scripts of the semaphore find its one key.
func holdOnACluster(t *testing.T, _ *redisd.Group, at []string) {
	for _, id := range []string{"}", "a{b}c"} {
		args := append([]string{"hold", id}, at...)
		if code, stdout, stderr := finish(t, append(args, "--", "true")...); code != 0 || stderr != "" {
			t.Errorf("%q: exit code %d: %s%s", id, code, stdout, stderr)
		}
	}
}

// raceOnACluster: an atomic limiter holds, one that reads before it writes goes over, and nothing stays behind.
func raceOnACluster(t *testing.T, g *redisd.Group, at []string) {
	for _, id := range []string{"}", "}x", "a{b}c"} {
		args := append([]string{"race", "gcra", "naive-counter", "--procs", "6", "--limit", "40", "--id", id, "--format", "json"}, at...)
		code, stdout, stderr := finish(t, args...)
		r := parseRace(t, []byte(stdout))
		if len(r.Results) != 2 || r.Results[0].Verdict == "broken" || code == 1 || strings.Contains(stdout, "cluster\":") {
			t.Errorf("%q: exit code %d: %s%s", id, code, stdout, stderr)
		}
		if code == 0 && (r.Results[0].Verdict != "held" || r.Results[1].Verdict != "broken") {
			t.Errorf("%q: exit code 0: %s", id, stdout)
		}
	}
	for _, n := range g.Masters(t.Context()) {
		if keys := n.Client().Keys(t.Context(), "*rlctl-*").Val(); len(keys) > 0 {
			t.Errorf("left behind on %s: %q", n.Addr, keys)
		}
	}
}

// A bench asks all nodes what they counted, and leaves out the replicas, which repeat their masters' writes.
func benchOnACluster(t *testing.T, g *redisd.Group, at []string) {
	for _, how := range []string{"--pipeline=4", "--autopipeline"} {
		code, stdout, stderr := finish(t, append([]string{"bench", "gcra", "--path", "allowed", "--duration", "40ms", "--rounds", "1",
			"--clients", "4", "--prefix", "bench", "--format", "json", how}, at...)...)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		row := parseBench(t, stdout).row(t, "gcra", "allowed")
		if row.Unmeasured != "" || row.Errors != 0 || row.Commands == nil || *row.Commands < 2.8 || *row.Commands > 3.2 {
			t.Errorf("%s: %+v, want the 3 commands of a script", how, row)
		}
	}
	for _, n := range g.Masters(t.Context()) {
		if keys := n.Client().Keys(t.Context(), "bench:*").Val(); len(keys) > 0 {
			t.Errorf("left behind on %s: %d keys, such as %s", n.Addr, len(keys), keys[0])
		}
	}
}

// Keys lie on all nodes, are found there and deleted there.
func memOnACluster(t *testing.T, g *redisd.Group, at []string) {
	if testing.Short() {
		t.Skip("it fills thousands of keys")
	}
	code, stdout, stderr := finish(t, append([]string{"mem", "gcra", "naive-bucket", "sliding-log", "--keys", "200", "--limits", "20",
		"--prefix", "mem", "--format", "json"}, at...)...)
	if r := parseMem(t, []byte(stdout)); code != 0 || len(r.Results) != 3 || r.Results[1].Keys != 200 || r.Results[1].Apart != nil {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	for _, n := range g.Masters(t.Context()) {
		if keys := n.Client().Keys(t.Context(), "mem:*").Val(); len(keys) > 0 {
			t.Errorf("left behind on %s: %d keys, such as %s", n.Addr, len(keys), keys[0])
		}
	}
}

// rightsOnACluster: a user with the rights that are told suffices there, and without one of those of a cluster it is told so.
func rightsOnACluster(t *testing.T, g *redisd.Group, at []string) {
	rule := strings.Fields(target.ACLRule("gcra", "ratelimit", target.ClusterRights()...))
	asLeast := func(rule []string) (int, string) {
		for _, n := range g.Nodes() {
			args := []any{"ACL", "SETUSER", "least", "reset", "on", ">pw"}
			for _, word := range rule {
				args = append(args, word)
			}
			if err := n.Client().Do(t.Context(), args...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		c, _, stderr := withOutput(t, append([]string{"check", "a", "--limiter", "gcra", "--user", "least"}, at...)...)
		c.Env = append(c.Env, "REDISCLI_AUTH=pw")
		c.Run()
		return c.ProcessState.ExitCode(), stderr.String()
	}
	if code, stderr := asLeast(rule); code != 0 || stderr != "" {
		t.Errorf("with %v: exit code %d: %s", rule, code, stderr)
	}
	without := slices.DeleteFunc(slices.Clone(rule), func(word string) bool { return word == "+cluster|slots" })
	if code, stderr := asLeast(without); code != 77 || !strings.Contains(stderr, "NOPERM") {
		t.Errorf("without +cluster|slots: exit code %d: %s", code, stderr)
	}
}

// asking has callers ask a limiter, one key each, until the returned function is called, which tells what became of it.
type asking struct {
	mu      sync.Mutex
	allowed map[string]int
	errs    map[limiter.Class]int
	unknown int
}

func askUntil(t *testing.T, l limiter.Limiter, keys []string, until <-chan struct{}) *asking {
	a := &asking{allowed: map[string]int{}, errs: map[limiter.Class]int{}}
	var wg sync.WaitGroup
	for _, key := range keys {
		wg.Go(func() {
			for {
				select {
				case <-until:
					return
				default:
					a.add(key)(l.Check(t.Context(), key, 1))
				}
			}
		})
	}
	wg.Wait()
	return a
}

func (a *asking) add(key string) func(limiter.Decision, error) {
	return func(d limiter.Decision, err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		switch {
		case err == nil && d.Allowed:
			a.allowed[key]++
		case limiter.Counted(err):
			a.unknown++
		}
		var e *limiter.Error
		if errors.As(err, &e) {
			a.errs[e.Class]++
		}
	}
}

// checksWhileASlotMoves: a slot goes to another master and on while it is asked, and neither an error nor an admission too
// many comes of ASK and MOVED, nor of a master that does not know the script yet.
func checksWhileASlotMoves(t *testing.T, g *redisd.Group, _ []string) {
	rdb, err := target.Conn{Port: number(t, g.Entry().Port), Cluster: true}.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	const limit = 5_000
	for _, name := range []string{"sliding-log", "gcra"} {
		l, err := limiter.New(rdb, name, limiter.Limit{Events: limit, Window: time.Hour}, limiter.WithPrefix("move"))
		if err != nil {
			t.Fatal(err)
		}
		key, _ := limiter.Key("move", "a", name)
		over := make(chan struct{})
		go func() {
			defer close(over)
			for range 3 {
				for _, n := range g.Masters(t.Context()) {
					if err := n.Client().ScriptFlush(t.Context()).Err(); err != nil {
						t.Error(err)
					}
				}
				if _, err := g.Move(t.Context(), key, 5*time.Millisecond); err != nil {
					t.Error(err)
				}
			}
		}()
		a := askUntil(t, l, []string{"a", "a", "a"}, over)
		// Of three rounds of flushes each may meet one call twice, which is then told and not counted.
		if a.errs[limiter.ClassNoScript] <= 3 {
			delete(a.errs, limiter.ClassNoScript)
		}
		if len(a.errs) > 0 {
			t.Errorf("%s: errors %v, %d of them unknown", name, a.errs, a.unknown)
		}
		d, err := l.Check(t.Context(), "a", 0)
		if left := limit - int64(a.allowed["a"]); err != nil || d.Remaining < left || d.Remaining > left+2 || a.allowed["a"] < 100 {
			t.Errorf("%s: %d were allowed, and %d of %d are left (%v)", name, a.allowed["a"], d.Remaining, limit, err)
		}
	}
}

// checksAcrossAFailover: callers go on with the same client when a master died, as soon as its replica has taken its place;
// those of other masters never notice; and what was counted is what the replica had heard.
func checksAcrossAFailover(t *testing.T, g *redisd.Group, _ []string) {
	if testing.Short() {
		t.Skip("a failover takes seconds")
	}
	rdb, err := target.Conn{Port: number(t, g.Entry().Port), Cluster: true}.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	goesOn(t, g, rdb, func(e *limiter.Error) bool {
		return slices.Contains([]limiter.Class{limiter.ClassUnreachable, limiter.ClassNoAnswer, limiter.ClassCluster, limiter.ClassReadOnly}, e.Class)
	})
}

// goesOn kills the master of a key under traffic and waits until the same client is answered again.
func goesOn(t *testing.T, g *redisd.Group, rdb redis.UniversalClient, mayBe func(*limiter.Error) bool) {
	t.Helper()
	l, err := limiter.New(rdb, "sliding-log", limiter.Limit{Events: 1_000_000, Window: time.Hour}, limiter.WithPrefix("goes-on"))
	if err != nil {
		t.Fatal(err)
	}
	key, _ := limiter.Key("goes-on", "a", "sliding-log")
	admitted := int64(0)
	for ; admitted < 50; admitted++ {
		if _, err := l.Check(t.Context(), "a", 1); err != nil {
			t.Fatal(err)
		}
	}
	failed := make(chan error, 1)
	var f redisd.Failover
	go func() {
		var err error
		f, err = g.FailOver(t.Context(), key, 100*time.Millisecond)
		failed <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ask := func() error {
		d, err := l.Check(ctx, "a", 1)
		var e *limiter.Error
		if errors.As(err, &e) && !mayBe(e) {
			t.Errorf("an error of another kind: %v", e)
		}
		if err == nil && d.Allowed {
			admitted++
		}
		return err
	}
	for over := false; !over; {
		select {
		case err := <-failed:
			if err != nil {
				t.Fatal(err)
			}
			over = true
		default:
			ask()
		}
	}
	met := map[string]int{}
	for last := ask(); last != nil; last = ask() {
		met[last.Error()]++
		if ctx.Err() != nil {
			sees, err := f.Took.Client().ClusterNodes(t.Context()).Result()
			t.Fatalf("no answer for %v from %s, which took the place of %s %v after its death: %v\nit says: %v\n%s",
				time.Since(f.Ready), f.Took.Addr, f.Died.Addr, f.Ready.Sub(f.Dead), met, err, sees)
		}
	}
	if wait := time.Since(f.Ready); wait > 2*time.Second {
		t.Errorf("the client asked the new master %v after it was there", wait)
	}
	held := f.Took.Client().ZCard(t.Context(), key).Val()
	lost := admitted - held
	t.Logf("%d admitted, %d lost, %v from the death to the first decision", admitted, lost, time.Since(f.Dead).Round(time.Millisecond))
	if lost < 1 || held < 50 {
		t.Errorf("%d admitted and %d held: a replica that heard nothing for 100ms must have lost some", admitted, held)
	}
}

// TestUnderSentinels has all that is tried on one master and its replica under three sentinels.
func TestUnderSentinels(t *testing.T) {
	if testing.Short() {
		t.Skip("starting so many servers takes seconds that the race detector's part has not")
	}
	t.Parallel()
	g := redisdtest.Watched(t, 1, 3)
	at := []string{"--sentinel-master", redisd.WatchedName, "-p", g.Entry().Port}
	code, stdout, stderr := finish(t, append([]string{"check", "a", "--limiter", "gcra"}, at...)...)
	if code != 0 || stderr != "" {
		t.Errorf("check: exit code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = finish(t, append([]string{"race", "gcra", "--procs", "5", "--limit", "20"}, at...)...)
	if code != 0 && code != 3 || stderr != "" || !strings.Contains(stdout, "sentinel "+redisd.WatchedName) {
		t.Errorf("race: exit code %d: %s%s", code, stdout, stderr)
	}
	if code, _, stderr := finish(t, "check", "a", "--sentinel-master", "other", "-p", g.Entry().Port); code != 69 ||
		!strings.Contains(stderr, "sentinel other: no master is called that") {
		t.Errorf("a master that no sentinel knows: exit code %d: %s", code, stderr)
	}
	if testing.Short() {
		return // a failover takes seconds
	}
	rdb, err := target.Conn{Port: number(t, g.Entry().Port), SentinelMaster: redisd.WatchedName}.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	goesOn(t, g, rdb, func(e *limiter.Error) bool {
		return slices.Contains([]limiter.Class{limiter.ClassUnreachable, limiter.ClassNoAnswer, limiter.ClassReadOnly}, e.Class)
	})
	if code, stdout, stderr := finish(t, append([]string{"check", "b"}, at...)...); code != 0 {
		t.Errorf("check after the failover: exit code %d: %s%s", code, stdout, stderr)
	}
	closeSentinels(t, g)
	if code, _, stderr := finish(t, append([]string{"check", "b"}, at...)...); code != 77 {
		t.Errorf("check without the sentinels' password: exit code %d: %s", code, stderr)
	}
	file := filepath.Join(t.TempDir(), "pass")
	if err := os.WriteFile(file, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := finish(t, append([]string{"check", "b", "--sentinel-pass-file", file}, at...)...); code != 0 {
		t.Errorf("check with the sentinels' password: exit code %d: %s%s", code, stdout, stderr)
	}
}

// closeSentinels has sentinels ask for a password.
func closeSentinels(t *testing.T, g *redisd.Group) {
	t.Helper()
	for _, s := range g.Sentinels() {
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
		defer rdb.Close()
		if err := rdb.Do(t.Context(), "ACL", "SETUSER", "default", ">sesame").Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func number(t *testing.T, text string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
