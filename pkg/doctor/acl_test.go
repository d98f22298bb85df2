package doctor_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/doctor"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
)

// rig is a server with a settable clock and its administrator.
type rig struct {
	*testing.T
	server *redisd.Server
	admin  *redis.Client
}

func newRig(t *testing.T, args ...string) *rig {
	t.Helper()
	s := redisdtest.Start(t, redisd.Options{Clock: true, Args: args})
	r := &rig{t, s, redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})}
	t.Cleanup(func() { r.admin.Close() })
	return r
}

const password = "correct-horse"

// user obeys a rule as doctor prints it, and is then changed by further words.
func (r *rig) user(rule string, further ...string) target.Conn {
	r.Helper()
	var args []any
	for _, w := range append(strings.Fields(strings.Replace(rule, "PASSWORD", password, 1)), further...) {
		args = append(args, w)
	}
	if err := r.admin.Do(r.Context(), args...).Err(); err != nil {
		r.Fatalf("%v: %v", args, err)
	}
	return target.Conn{Socket: r.server.Socket(), User: args[2].(string), Password: password, Timeout: 10 * time.Second}
}

// tour takes a limiter everywhere that its script goes: without its script on the server, allowed and denied, past
// what has expired, and twice to a clock that has stepped back. It ends with the first error.
func (r *rig) tour(name string, conn target.Conn) error {
	r.Helper()
	if err := r.admin.FlushAll(r.Context()).Err(); err != nil {
		r.Fatal(err)
	}
	if err := r.admin.ScriptFlush(r.Context()).Err(); err != nil {
		r.Fatal(err)
	}
	rdb, err := conn.Open(1)
	if err != nil {
		r.Fatal(err)
	}
	defer rdb.Close()
	check, others := r.call(name, rdb)
	const start = 1_700_000_000_000_000
	for _, second := range []int64{0, 30, 30, 61, -300, -300, -600, -600, -600} {
		r.server.Clock().Freeze(start + second*1_000_000)
		err = errors.Join(err, check(r.Context(), 1), check(r.Context(), 0))
	}
	for _, call := range others {
		err = errors.Join(err, call(r.Context()))
	}
	return err
}

// call returns what asks the limiter under a fresh id, and what else there is to ask for.
func (r *rig) call(
	name string, rdb redis.UniversalClient,
) (check func(ctx context.Context, cost int64) error, others []func(context.Context) error) {
	l := limiter.Limit{Events: 2, Window: time.Minute}
	ids := limiter.NewIDs()
	if name == target.Semaphore {
		s, err := limiter.NewSemaphore(rdb, l, limiter.WithPrefix("ratelimit"))
		if err != nil {
			r.Fatal(err)
		}
		last := ""
		check = func(ctx context.Context, cost int64) error {
			if cost == 0 {
				_, err := s.Peek(ctx, "c")
				return err
			}
			last = ids.Next()
			_, err := s.Acquire(ctx, "c", last)
			return err
		}
		others = append(others, func(ctx context.Context) error { _, err := s.Renew(ctx, "c", last); return err },
			func(ctx context.Context) error {
				r.server.Clock().Real()
				_, err := s.Acquire(ctx, "c", "me")
				return err
			},
			func(ctx context.Context) error { _, err := s.Release(ctx, "c", "me"); return err })
		return check, others
	}
	entry, err := target.Find(target.Catalogue(), name)
	if err != nil {
		r.Fatal(err)
	}
	made, err := entry.New(rdb, l, limiter.WithPrefix("ratelimit"))
	if err != nil {
		r.Fatal(err)
	}
	return func(ctx context.Context, cost int64) error { _, err := made.Check(ctx, "c", cost); return err }, nil
}

func lacks(rights doctor.Finding, word string) bool {
	return rights.Level == doctor.Danger && slices.Contains(strings.Fields(rights.Seen), word)
}

// A user made of the printed rule may do all that the limiter does. Without any one of its words it may not, and doctor
// says which word is missing, in whatever way it may find out.
func TestTheRuleIsEnoughAndTheLeast(t *testing.T) {
	t.Parallel()
	rules, err := doctor.ACLPlan{Prefix: "ratelimit"}.Rules()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	for _, rule := range rules.Results {
		if err := r.tour(rule.Limiter, r.user(rule.Rule)); err != nil {
			t.Errorf("%s: %v", rule.Rule, err)
		}
		if got := r.rights(rule.Limiter, r.user(rule.Rule)); got.Level != doctor.Fine && rule.Limiter != "compact-log" {
			t.Errorf("%s: %+v", rule.Rule, got)
		}
		for _, word := range append([]string{"~" + rule.Keys}, rule.Rights...) {
			less := "-" + strings.TrimPrefix(word, "+")
			if strings.HasPrefix(word, "~") {
				less = "resetkeys"
			}
			conn := r.user(rule.Rule, less)
			if err := r.tour(rule.Limiter, conn); err == nil {
				t.Errorf("%s: it works without %s", rule.Limiter, word)
			}
			for how, further := range map[string][]string{
				"ACL DRYRUN": {"+acl|dryrun"}, "MULTI and DISCARD": {"-acl", "+multi", "+discard"}, "each command": {"-multi"},
			} {
				got := r.rights(rule.Limiter, r.user(rule.Rule, append([]string{less}, further...)...))
				if untried := word == "+lpush" && how == "each command"; untried {
					if got.Level != doctor.Unknown || !strings.Contains(got.Seen, word) {
						t.Errorf("%s by %s without %s: %+v", rule.Limiter, how, word, got)
					}
				} else if !lacks(got, word) {
					t.Errorf("%s by %s without %s: %+v", rule.Limiter, how, word, got)
				}
			}
		}
	}
}

// rights is what doctor says of a user's, without looking at anything else.
func (r *rig) rights(name string, conn target.Conn) doctor.Finding {
	r.Helper()
	rdb, err := conn.Open(1)
	if err != nil {
		r.Fatal(err)
	}
	defer rdb.Close()
	f := healthy()
	f.Wants.Limiter, f.Wants.Prefix = name, "ratelimit"
	if f.Rights.Value, err = doctor.RightsOf(r.Context(), rdb.(*redis.Client), conn.User, f.Wants); err != nil {
		r.Fatal(err)
	}
	return find(r, doctor.Examine(f), "rights")
}

func find(t testing.TB, all []doctor.Finding, check string) doctor.Finding {
	t.Helper()
	i := slices.IndexFunc(all, func(f doctor.Finding) bool { return f.Check == check })
	if i < 0 {
		t.Fatalf("no finding of %s", check)
	}
	return all[i]
}

func (r *rig) finding(check string, p doctor.Plan) doctor.Finding {
	r.Helper()
	p.Limit, p.Prefix = limiter.Limit{Events: 100, Window: time.Minute}, "ratelimit"
	result, err := p.Run(r.Context(), target.Catalogue())
	if err != nil {
		r.Fatal(err)
	}
	return find(r, result.Results, check)
}

// Whichever way the rights are tried, nothing is there afterwards, and nothing has been written meanwhile.
func TestLookingWritesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, further := range [][]string{{"+@all"}, {"+@all", "-acl"}, {"+@all", "-acl", "-multi"}} {
		conn := r.user("ACL SETUSER u reset on >PASSWORD ~*", further...)
		for _, name := range []string{"sliding-log", "compact-log", "token-bucket", "gcra", target.Semaphore} {
			r.rights(name, conn)
		}
	}
	info, err := r.admin.Info(t.Context(), "persistence", "memory", "keyspace").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"rdb_changes_since_last_save:0\r", "number_of_cached_scripts:0\r"} {
		if !strings.Contains(info, want) {
			t.Errorf("want %q in\n%s", want, info)
		}
	}
	if strings.Contains(info, "db0:") {
		t.Errorf("keys are left:\n%s", info)
	}
}

// A command under another name is missing, whatever the user may do.
func TestARenamedCommandIsMissing(t *testing.T) {
	t.Parallel()
	r := newRig(t, "--rename-command", "ZADD", "hidden", "--rename-command", "CONFIG", "hidden2")
	conn := target.Conn{Socket: r.server.Socket(), Timeout: 10 * time.Second}
	if got := r.rights("sliding-log", conn); got.Level != doctor.Danger || !strings.Contains(got.Seen, "not there: +zadd") {
		t.Errorf("%+v", got)
	}
	if got := r.rights("gcra", conn); got.Level != doctor.Fine {
		t.Errorf("%+v", got)
	}
	got := r.finding("persistence", doctor.Plan{Conn: conn, Limiter: "gcra"})
	if got.Level != doctor.Unknown || !strings.Contains(got.Seen, "CONFIG GET is not there") {
		t.Errorf("%+v", got)
	}
}

// A slow script is found by its digest, and the key in its arguments is not shown.
func TestTheSlowLogShowsNoKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, "--slowlog-log-slower-than", "0")
	r.server.Clock().Real()
	entry, err := target.Find(target.Catalogue(), "gcra")
	if err != nil {
		t.Fatal(err)
	}
	l, err := entry.New(r.admin, limiter.Limit{Events: 2, Window: time.Minute})
	if err == nil {
		_, err = l.Check(t.Context(), "secret-client", 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := r.finding("slow log", doctor.Plan{Conn: target.Conn{Socket: r.server.Socket(), Timeout: time.Minute}, Limiter: "gcra"})
	if got.Level != doctor.Warning || !strings.HasPrefix(got.Seen, "in a day: gcra, 2 calls, up to ") || strings.Contains(got.Seen, "secret") {
		t.Errorf("%+v", got)
	}
}
