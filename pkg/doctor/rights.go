package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/scripts"
)

// A right that is missing shows in a limiter at the worst moment: in the middle of a script, perhaps between two of its
// writes. So the rights are tried before, on a key that nobody has, without doing anything, in the first way that the
// server allows:
//
//   - ACL DRYRUN says what a user may do (Redis 7.0; a right of administrators);
//   - between MULTI and DISCARD a command is refused when it is queued, and never run;
//   - by itself, in a form that comes to nothing: SET only if the key is there, HSET with half a pair, EVALSHA of a digest
//     that nobody has, SCRIPT LOAD of what is no Lua. LPUSH has no such form, and remains untried.
//
// Only ACL DRYRUN is silent. What is refused the other ways stands in the server's ACL LOG, so that there nothing is
// tried but what the limiter in question needs.
//
// A right counts as given only where an answer shows that the command was let through: an answer that nobody foresaw, or
// none at all, tells nothing, and is never taken for a good one.

// nobody is the client whose key is tried. It has an unguessable id.
func nobody(prefix, name string) string {
	key, _ := limiter.Key(prefix, "rlctl-doctor-"+limiter.NewIDs().Next(), name)
	return key
}

// harmless is a command that needs a right, in a form that changes nothing where there is no such key; nil for a
// right of which we know none.
func harmless(right, key string) []any {
	forms := map[string][]any{
		"+evalsha": {"evalsha", strings.Repeat("0", 40), 1, key}, "+script|load": {"script", "load", "no Lua"},
		"+time": {"time"}, "+get": {"get", key}, "+set": {"set", key, 0, "xx"}, "+pexpire": {"pexpire", key, 1},
		"+hmget": {"hmget", key, "used"}, "+hset": {"hset", key, "used", 0, "half"},
		"+zrange": {"zrange", key, 0, 0}, "+zcount": {"zcount", key, 0, 0}, "+zscore": {"zscore", key, "m"},
		"+zcard": {"zcard", key}, "+zadd": {"zadd", key, "xx", 0, "m"}, "+zrem": {"zrem", key, "m"},
		"+zremrangebyrank": {"zremrangebyrank", key, 0, 0},
		"+lindex":          {"lindex", key, 0}, "+llen": {"llen", key}, "+lset": {"lset", key, 0, 0}, "+ltrim": {"ltrim", key, 0, 0},
		"+cluster|slots": {"cluster", "slots"}, "+asking": {"asking"}, "+select": {"select", 0},
		needsTransaction: {"lpush", key, 0},
	}
	return forms[right]
}

// needsTransaction is the right of the one command that has no harmless form by itself.
const needsTransaction = "+lpush"

// way is one of the three to try commands.
type way struct {
	name string
	form func(command []any) []any // as it is sent
	open []any                     // what is sent before
	end  []any                     // and after all
	yes  string                    // what is answered of a command that is allowed; empty is what the command answers
	all  bool                      // it can try what has no harmless form
	dry  bool                      // nobody hears of it
}

func ways(user string) []way {
	if user == "" {
		user = "default"
	}
	plain := func(command []any) []any { return command }
	return []way{
		{"ACL DRYRUN", func(command []any) []any { return append([]any{"acl", "dryrun", user}, command...) }, nil, nil, "OK", true, true},
		{"MULTI and DISCARD", plain, []any{"multi"}, []any{"discard"}, "QUEUED", true, false},
		{"each command, in a form that does nothing", plain, nil, nil, "", false, false},
	}
}

// trial is one command that a limiter needs.
type trial struct {
	limiter, right string
	command        []any
}

// rightsOf tries what the limiter needs, and where nobody hears of it, what all others need as well.
func rightsOf(ctx context.Context, rdb *redis.Client, user string, w Wants) (Rights, error) {
	for _, way := range ways(user) {
		names := []string{w.Limiter}
		if way.dry {
			names = withRights()
		}
		trials := w.trials(names)
		replies, possible, err := way.try(ctx, rdb, trials)
		switch {
		case err != nil:
			return Rights{}, err
		case possible:
			return way.rights(trials, replies, w.Prefix), nil
		}
	}
	return Rights{}, errors.New("no way to try the rights is possible") // the last one always is
}

func (w Wants) trials(names []string) (all []trial) {
	for _, name := range names {
		key := nobody(w.Prefix, name)
		for _, right := range w.rights(name) {
			all = append(all, trial{name, right, harmless(right, key)})
		}
	}
	return all
}

// rights are what a user of that limiter needs, with what its client needs beside: on a cluster, or in another database
// than the first.
func (w Wants) rights(name string) []string { return rightsFor(name, w.Cluster, w.DB) }

func rightsFor(name string, cluster bool, db int) []string {
	rights := target.Rights(name)
	if cluster {
		rights = append(rights, target.ClusterRights()...)
	}
	if db != 0 {
		rights = append(rights, target.DatabaseRights()...)
	}
	return rights
}

// withRights are the limiters with scripts of ours, and the semaphore.
func withRights() []string { return append(scripts.Limiters(), target.Semaphore) }

// try sends all commands over one connection, and returns a reply for each: nil of one that was not sent. It is not
// possible where the server does not have the way, or the user may not go it. What opens the way is answered before
// anything else is sent: without the MULTI, what comes after it would be done.
func (w way) try(ctx context.Context, rdb *redis.Client, trials []trial) (replies []*redis.Cmd, possible bool, err error) {
	conn := rdb.Conn()
	defer conn.Close()
	if w.open != nil {
		if said, err := conn.Do(ctx, w.open...).Text(); err != nil || said != "OK" {
			return nil, false, onlyFailed(err)
		}
	}
	pipe := conn.Pipeline()
	for _, t := range trials {
		var reply *redis.Cmd
		if t.command != nil && (w.all || t.right != needsTransaction) {
			reply = pipe.Do(ctx, w.form(t.command)...)
		}
		replies = append(replies, reply)
	}
	if w.end != nil {
		pipe.Do(ctx, w.end...)
	}
	commands, err := pipe.Exec(ctx)
	anyone := err == nil
	for _, c := range commands { // err is only the first, and may be a refusal
		if failed(c.Err()) {
			return nil, false, c.Err()
		}
		anyone = anyone || c.Err() != nil
	}
	if failed(err) || !anyone { // no command met err, so that none was sent
		return nil, false, err
	}
	return replies, !w.dry || !forbidden(replies[0].Err()), nil
}

// forbidden tells an answer about ACL DRYRUN itself from one about what it was asked: it refuses with words, and with an
// error only where it is not to be had, or of a command that does not exist.
func forbidden(err error) bool {
	return err != nil && answer(strings.ToLower(err.Error())) != noCommand
}

// onlyFailed is err if it failed, else nil.
func onlyFailed(err error) error {
	if failed(err) {
		return err
	}
	return nil
}

// failed tells an error of the network, or of the whole conversation, from a reply to a question.
func failed(err error) bool {
	var reply redis.Error
	return err != nil && (!errors.As(err, &reply) || stranger(err))
}

// rights sorts the replies.
func (w way) rights(trials []trial, replies []*redis.Cmd, prefix string) Rights {
	r := Rights{How: w.name, All: w.dry, Missing: map[string][]string{}, Untried: map[string][]string{}, Unclear: map[string][]string{}}
	note := func(list map[string][]string, name, word string) {
		if !slices.Contains(list[name], word) {
			list[name] = append(list[name], word)
		}
	}
	for i, t := range trials {
		if replies[i] == nil {
			note(r.Untried, t.limiter, t.right)
			continue
		}
		switch w.verdict(replies[i]) {
		case unclear:
			note(r.Unclear, t.limiter, t.right)
		case lacksCommand:
			note(r.Missing, t.limiter, t.right)
		case lacksKey:
			note(r.Missing, t.limiter, "~"+target.KeyPattern(t.limiter, prefix))
		case noCommand:
			if !slices.Contains(r.Gone, t.right) {
				r.Gone = append(r.Gone, t.right)
			}
		}
	}
	return r
}

type verdict int

const (
	unclear verdict = iota // the answer does not tell
	allowed                // whatever else may be wrong with it
	lacksCommand
	lacksKey
	noCommand
)

// verdict reads a reply: yes, or else why not, of which ACL DRYRUN makes no error.
func (w way) verdict(reply *redis.Cmd) verdict {
	err := reply.Err()
	said, _ := reply.Val().(string)
	done := errors.Is(err, redis.Nil) || err == nil && reply.Val() != nil
	switch {
	case w.yes == "" && done, w.yes != "" && said == w.yes:
		return allowed
	case err != nil:
		said = err.Error()
	}
	return answer(strings.ToLower(said))
}

// answer reads why a server refused a command, in lower case. All versions say "permission" of a right that is missing;
// the name of the command is in quotes after "run the".
func answer(text string) verdict {
	permission := strings.Contains(text, "permission")
	switch {
	case strings.Contains(text, "unknown command"), strings.Contains(text, "unknown subcommand"),
		strings.HasPrefix(text, "err command '") && strings.Contains(text, "not found"):
		return noCommand
	case permission && strings.Contains(text, "run the"):
		return lacksCommand
	case permission && strings.Contains(text, "key"):
		return lacksKey
	case slices.ContainsFunc(passed(), func(code string) bool { return strings.HasPrefix(text, code) }):
		return allowed
	}
	return unclear
}

// passed are the refusals that come only after a right was looked at: of a key or a write, and of our harmless forms.
func passed() []string {
	return []string{
		"noscript ", "moved ", "ask ", "tryagain ", "crossslot ", "clusterdown ", "oom ", "readonly ", "misconf ", "noreplicas ",
		"wrongtype ", "err error compiling script", "err wrong number of arguments for 'hset'", "err no such key",
		"err this instance has cluster support disabled", "err db index is out of range",
	}
}
