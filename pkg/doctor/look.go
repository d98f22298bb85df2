package doctor

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/scripts"
)

// settings are what the checks ask CONFIG for, one by one: some servers know only a part, and none is to tell a password.
func settings() []string {
	return []string{
		"maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save", "stop-writes-on-bgsave-error", "maxclients",
		"min-replicas-to-write", "min-replicas-max-lag", "busy-reply-threshold", "lua-time-limit", "lazyfree-lazy-expire",
		"slowlog-log-slower-than", "slowlog-max-len", "cluster-require-full-coverage",
	}
}

const (
	mostTrips  = 200
	fewTrips   = 20 // at least, however long they take
	tripsWait  = 2 * time.Second
	slowLength = 128 // entries of the slow log
)

// look asks a node for all facts. What it refuses to tell is a fact; an error is a node that does not answer, or does not
// let the user in.
func look(ctx context.Context, rdb *redis.Client, user, name string, w Wants) (Facts, error) {
	l := &looking{ctx: ctx, rdb: rdb, user: user}
	f := Facts{Node: name, Wants: w}
	l.greet(w.DB)
	f.Info = ask(l, "INFO", func() (map[string]string, error) {
		text, err := rdb.Info(ctx).Result()
		return fields(text), err
	})
	f.Config = l.config()
	f.Cached = ask(l, "SCRIPT EXISTS", func() (map[string]bool, error) { return cached(ctx, rdb) })
	f.Slow = ask(l, "SLOWLOG GET", func() ([]SlowCall, error) { return slowCalls(ctx, rdb) })
	if f.Info.Value["cluster_enabled"] == "1" {
		f.State = ask(l, "CLUSTER INFO", func() (map[string]string, error) {
			text, err := rdb.ClusterInfo(ctx).Result()
			return fields(text), err
		})
	}
	f.Rights = ask(l, "rights", func() (Rights, error) { return rightsOf(ctx, rdb, user, w) })
	f.Trips, f.Now = l.trips()
	return f, l.err
}

// looking goes on asking until the node fails.
type looking struct {
	ctx  context.Context
	rdb  *redis.Client
	user string
	err  error // why the node failed
}

// ask keeps what a node answered, or why it refused to.
func ask[T any](l *looking, what string, question func() (T, error)) (said Said[T]) {
	if l.err != nil {
		return said
	}
	value, err := question()
	if err == nil {
		said.Value = value
	} else if said.Why = l.refused(what, err); said.Why == "" {
		l.err = err
	}
	return said
}

// refused says in a few words that a node refused a question; it is empty if the node failed. The server's own words are
// in it only where they do not hold the user's name.
func (l *looking) refused(what string, err error) string {
	switch {
	case failed(err):
		return ""
	case forbids(err):
		return "no right to " + what
	case answer(strings.ToLower(err.Error())) == noCommand:
		return what + " is not there: renamed, forbidden or too new"
	}
	code, text, _ := strings.Cut(err.Error(), " ")
	if code != "ERR" || l.user != "" && strings.Contains(text, l.user) {
		return what + " failed: " + code
	}
	return what + " failed: " + text
}

// forbids is a refusal for want of a right.
func forbids(err error) bool { return redis.HasErrorPrefix(err, "NOPERM") }

// stranger tells a refusal of the whole conversation from one of a question.
func stranger(err error) bool {
	for _, code := range []string{"NOAUTH", "WRONGPASS", "LOADING", "MASTERDOWN", "BUSY"} {
		if redis.HasErrorPrefix(err, code) {
			return true
		}
	}
	return false
}

// greet opens the connection, so that no time is measured with it, and goes to the database of the limits. The client
// cannot do that: it takes a refusal there for the answer to each question. A right to either may be missing, which
// the rights tell; refused for any other reason, the conversation has not begun.
func (l *looking) greet(db int) {
	errs := []error{l.rdb.Time(l.ctx).Err()}
	if db != 0 && !failed(errs[0]) {
		errs = append(errs, l.rdb.Do(l.ctx, "select", db).Err())
	}
	for _, err := range errs {
		if err != nil && !forbids(err) && answer(strings.ToLower(err.Error())) != noCommand {
			l.err = err
			return
		}
	}
}

// trips asks for the time again and again. TIME and not PING: it is as cheap, and a right that every limiter's user has.
func (l *looking) trips() (all Said[[]Trip], now time.Time) {
	for begin := time.Now(); len(all.Value) < mostTrips && (len(all.Value) < fewTrips || time.Since(begin) < tripsWait); {
		start := time.Now()
		said := ask(l, "TIME", func() (time.Time, error) { return l.rdb.Time(l.ctx).Result() })
		took := time.Since(start)
		if said.Why != "" || l.err != nil {
			return Said[[]Trip]{Why: said.Why}, time.Time{}
		}
		now = said.Value
		all.Value = append(all.Value, Trip{took, now.Sub(start.Add(took / 2))})
	}
	return all, now
}

// config asks for the settings, and no more once it is refused one.
func (l *looking) config() map[string]Said[string] {
	all, why := map[string]Said[string]{}, ""
	for _, name := range settings() {
		said := Said[map[string]string]{Why: why}
		if why == "" {
			said = ask(l, "CONFIG GET", func() (map[string]string, error) { return l.rdb.ConfigGet(l.ctx, name).Result() })
		}
		why = said.Why
		if value, known := said.Value[name]; known || why != "" {
			all[name] = Said[string]{value, why}
		}
	}
	return all
}

// cached tells which of our scripts the node has.
func cached(ctx context.Context, rdb *redis.Client) (map[string]bool, error) {
	names, shas := scripts.Names(), []string{}
	for _, name := range names {
		source, _ := scripts.Source(name)
		shas = append(shas, scripts.SHA1(source))
	}
	has, err := rdb.ScriptExists(ctx, shas...).Result()
	all := map[string]bool{}
	for i, name := range names {
		all[name] = i < len(has) && has[i]
	}
	return all, err
}

// slowCalls reads the slow log, and keeps of each entry the command's name and which script of ours it ran. All else in
// it are arguments, where keys and values stand.
func slowCalls(ctx context.Context, rdb *redis.Client) (calls []SlowCall, err error) {
	log, err := rdb.SlowLogGet(ctx, slowLength).Result()
	for _, entry := range log {
		call := SlowCall{At: entry.Time, Took: entry.Duration}
		if len(entry.Args) > 0 {
			call.Command = strings.ToLower(entry.Args[0])
		}
		if len(entry.Args) > 1 {
			call.Script = scriptOf(call.Command, entry.Args[1])
		}
		calls = append(calls, call)
	}
	return calls, err
}

// told is how much of a long argument the slow log keeps at least.
const told = 100

// scriptOf is the script of ours that a command ran: by its digest, or by how its source begins.
func scriptOf(command, argument string) string {
	for _, name := range scripts.Names() {
		source, _ := scripts.Source(name)
		switch command {
		case "evalsha", "evalsha_ro":
			if strings.EqualFold(argument, scripts.SHA1(source)) {
				return name
			}
		case "eval", "eval_ro":
			if len(argument) >= told && strings.HasPrefix(source, argument[:told]) {
				return name
			}
		}
	}
	return ""
}
