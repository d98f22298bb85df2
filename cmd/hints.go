package cmd

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/hold"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/outside"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// explain says what failed and why on the first line, and what to type on the second. Hints are given here only.
func explain(err error, typed string) string {
	var usage usageError
	var refused redisError
	var notRun *hold.Error
	what, hint := err.Error(), ""
	switch {
	case errors.As(err, &usage):
		hint = usage.hint
	case errors.Is(err, redisd.ErrNotFound):
		what = redisd.ErrNotFound.Error()
		hint = "install one: apt install redis-server    or point elsewhere: " + typed + " -u redis://HOST:PORT"
	case errors.Is(err, redisd.ErrNoClock):
		what, hint = bare(err), "a clock that can be set wants Linux and a C compiler: apt install gcc libc6-dev"
	case errors.Is(err, redisd.ErrNoFolder):
		what, hint = bare(err), "name a folder that can be written: TMPDIR=DIR "+typed
	case is[listenError](err):
		hint = hintToListen(err)
	case errors.As(err, &notRun):
		hint = hintToHold(notRun)
	case outside.IsWorker(class(err)):
		what, hint = named(err), "what a worker is to say: docs/worker.md"
	case errors.As(err, &refused):
		what, hint = explainRedis(refused, typed)
	case exhausted(err):
		hint = "the system allows no more: fewer --procs, or raise the limit: ulimit -n, ulimit -u"
	case exitCode(err) == exitInternal:
		hint = "this is a defect of rlctl: please report it with the command that you typed"
	}
	lines := strings.Split(what, "\n    ") // a server's last words
	for i, line := range lines {
		lines[i] = report.Escape(strings.ReplaceAll(line, "\n", "; ")) // several errors
	}
	text := "rlctl: " + strings.Join(lines, "\n    ") + "\n"
	if hint != "" {
		text += "  " + report.Escape(hint) + "\n"
	}
	return text
}

// explainRedis tells each kind of failure in its own words. The key and the password are in none of them.
func explainRedis(e redisError, typed string) (what, hint string) {
	at, why := "redis at "+e.at, bare(e.err)
	if name := limiterOf(e); outside.Is(name) && class(e) != limiter.ClassInvalid {
		return explainOutside(name, class(e), why)
	}
	if e.at == "" {
		at = "the private server"
	}
	if what, hint, ok := explainSentinel(e, why); ok {
		return what, hint
	}
	switch class(e) {
	case limiter.ClassUnreachable:
		if node := elsewhere(e); node != "" {
			return fmt.Sprintf("cannot reach %s, a node of %s (%s)", node, at, why), "which nodes are down: rlctl doctor --cluster"
		}
		return fmt.Sprintf("cannot reach %s (%s)", at, why), cmp.Or(tlsHint(e.at, e.err), crowdHint(e.at, e.err), reachHint(e.at, typed))
	case limiter.ClassNoAnswer:
		what, hint = "did not answer", "wait longer: --timeout 5s    a server that wants TLS: --tls"
		if hungUp(e.err) {
			what, hint = "ended the connection", cmp.Or(tlsHint(e.at, e.err), reachHint(e.at, typed))
		}
		what = fmt.Sprintf("%s %s (%s)", at, what, why)
		if limiter.Counted(e) {
			what += "; the request may have been counted"
		}
		return what, cmp.Or(crowdHint(e.at, e.err), hint)
	case limiter.ClassAuth:
		return fmt.Sprintf("%s refused: %s", at, why), cmp.Or(tlsHint(e.at, e.err),
			"log in: REDISCLI_AUTH=... or --pass-file FILE, with --user NAME    rights: redis-cli ACL WHOAMI")
	case limiter.ClassWrongType:
		return fmt.Sprintf("%s: %s", at, why), "the key belongs to something else; take another word: --prefix WORD"
	case limiter.ClassLoading, limiter.ClassBusy:
		return fmt.Sprintf("%s is not ready: %s", at, why), "try again in a moment"
	case limiter.ClassReadOnly:
		return fmt.Sprintf("%s refuses writes: %s", at, why), refusalHint(why)
	case limiter.ClassOOM:
		return fmt.Sprintf("%s is out of memory: %s", at, why), "look: redis-cli INFO memory"
	case limiter.ClassCluster:
		return fmt.Sprintf("%s: %s", at, why), "a cluster is reached with --cluster"
	case limiter.ClassInvalid:
		return invalid(e.err), ""
	case limiter.ClassScript:
		return fmt.Sprintf("%s: %s", at, why), "a script from outside can say in comments what it gets and replies: docs/scripts.md"
	}
	return fmt.Sprintf("%s: %s", at, why), ""
}

// explainSentinel tells what only a sentinel does not know: the master, or how to be one.
func explainSentinel(e redisError, why string) (what, hint string, ok bool) {
	_, master, ok := strings.Cut(e.at, " sentinel ")
	switch {
	case !ok:
	case why == redis.Nil.Error():
		return fmt.Sprintf("redis at %s: no master is called that", e.at), "what they are called: redis-cli SENTINEL MASTERS", true
	case strings.HasPrefix(strings.ToLower(why), "unknown command 'sentinel'"):
		return fmt.Sprintf("redis at %s: it is no sentinel", e.at), "ask one, often on port 26379, or leave out --sentinel-master " + master, true
	case class(e) == limiter.ClassAuth && strings.HasPrefix(why, "NOAUTH"):
		return fmt.Sprintf("redis at %s refused: %s", e.at, why),
			"log in: REDISCLI_AUTH=... or --pass-file FILE    at the sentinels themselves: --sentinel-pass-file FILE", true
	}
	return "", "", false
}

// elsewhere is the node of a cluster that could not be reached, if that is not the one that was named.
func elsewhere(e redisError) string {
	var dial *net.OpError
	at, isCluster := strings.CutSuffix(strings.Replace(e.at, " tls", "", 1), " cluster")
	if !isCluster || !errors.As(e.err, &dial) || dial.Addr == nil || dial.Addr.String() == at {
		return ""
	}
	return dial.Addr.String()
}

// refusalHint is what to do where a server takes no writes.
func refusalHint(why string) string {
	switch {
	case strings.Contains(why, "NOREPLICAS"):
		return "fewer replicas follow than min-replicas-to-write wants: rlctl doctor"
	case strings.Contains(why, "MISCONF"):
		return "it could not save to its disk: redis-cli INFO persistence    what else: rlctl doctor"
	}
	return "point at the primary: -u redis://HOST:PORT"
}

// hintToHold is what to do about a command that was not run.
func hintToHold(e *hold.Error) string {
	switch e.Code {
	case hold.CannotRun, hold.NotFound:
		return "what follows -- is run as it stands; for pipes and variables: -- sh -c '...'"
	}
	switch e.Reason {
	case hold.Taken:
		return "wait for one: --wait 1m    or allow more: --limit N"
	case hold.Waited:
		return "wait longer: --wait DURATION    or allow more: --limit N"
	case hold.NoSlots:
		return "allow some: --limit N"
	case hold.Undecided:
		return "what ails it: rlctl doctor    or run without a slot: --on-failure open"
	}
	return ""
}

// hintToListen is how to find out why the system does not give an address.
func hintToListen(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "another process has it, perhaps another rlctl serve: ss -ltnp    or take another: --listen HOST:PORT"
	case errors.Is(err, syscall.EACCES):
		return "ports below 1024 want a right of their own (CAP_NET_BIND_SERVICE); take a higher one: --listen HOST:PORT"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "it is no address of this machine, whose own are: ip addr"
	}
	return ""
}

// explainOutside tells what went wrong with a limiter that is not ours.
func explainOutside(name string, class limiter.Class, why string) (what, hint string) {
	if class == limiter.ClassUnreachable {
		return fmt.Sprintf("cannot reach %s (%s)", name, why), "is it running there?"
	}
	return fmt.Sprintf("%s: %s", name, why), ""
}

// limiterOf is the limiter that failed.
func limiterOf(err error) string {
	var e *limiter.Error
	if errors.As(err, &e) {
		return e.Limiter
	}
	return ""
}

// privateServer is where a redisError came from that no flag and no variable pointed at.
const privateServer = "its private socket"

// exhausted tells whether the system had no more processes, files or memory to give.
func exhausted(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM},
		func(e error) bool { return errors.Is(err, e) })
}

// tlsHint is what to do where TLS is at fault, "" where it is not.
func tlsHint(at string, err error) string {
	var alert *net.OpError
	var noTLS tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &alert) && alert.Op == "remote error":
		return "show a certificate that it trusts: --cert FILE --key FILE"
	case errors.As(err, &noTLS):
		return "a server without TLS: leave out --tls, and rediss:// for redis://"
	case errors.As(err, &unknown):
		return "trust its authority: --cacert FILE"
	case errors.As(err, &name):
		return "verify it by a name that it bears: --sni NAME"
	case errors.As(err, &untrusted):
		return "the server has to show another; to take any, and know nobody: --insecure"
	case (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)) && strings.HasSuffix(at, " tls"):
		return "does it want certificates of its clients? --cert FILE --key FILE" // it may hang up before the alert is read
	case errors.Is(err, syscall.ECONNRESET) && at != privateServer && !strings.HasPrefix(at, "unix:"):
		return "is it a server that wants TLS? --tls    does it take no more connections? redis-cli CONFIG GET maxclients"
	}
	return ""
}

// crowdHint is what to do where the server takes no more connections, "" where that is not it.
func crowdHint(at string, err error) string {
	if redis.IsMaxClientsError(err) || strings.Contains(err.Error(), "max number of clients") { // a worker tells only words
		return "fewer --procs or --clients, or more room: redis-cli CONFIG GET maxclients"
	}
	if at != privateServer && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) && strings.HasPrefix(at, "unix:")) {
		return "it hung up: does it take no more connections? redis-cli CONFIG GET maxclients"
	}
	return ""
}

func reachHint(at, typed string) string {
	start := "is it running there?"
	if strings.HasSuffix(at, " tls") {
		start = "is it running there, and does it speak TLS?"
	}
	switch at {
	case "127.0.0.1:6379":
		start = "start one: redis-server &"
	case privateServer:
		start = "it ended during the run; try again"
	}
	return fmt.Sprintf("%s    or point elsewhere: %s -u redis://HOST:PORT", start, typed)
}

// hungUp tells a connection that its other end closed from one that nothing came on.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// invalid names the flag of the field that a limiter refused.
func invalid(err error) string {
	var field *limiter.FieldError
	if !errors.As(err, &field) {
		return bare(err)
	}
	if field.Field == "key" {
		return "KEY " + field.Problem
	}
	return "--" + field.Field + " " + field.Problem
}

// named is bare after the limiter's name.
func named(err error) string {
	var e *limiter.Error
	if errors.As(err, &e) {
		return e.Limiter + ": " + bare(err)
	}
	return bare(err)
}

// bare is the innermost reason of an error: what the server said or what the system did, without the way there.
func bare(err error) string {
	var errno syscall.Errno
	var dns *net.DNSError
	var address *net.AddrError
	var path *os.PathError
	var failed *limiter.Error
	switch {
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &dns):
		return dns.Err
	case errors.As(err, &address):
		return address.Err
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "timed out"
	case errors.As(err, &path):
		return path.Err.Error()
	case errors.As(err, &failed):
		return failed.Err.Error()
	}
	return err.Error()
}

// briefly is a failed call in a few words: its class and the innermost reason.
func briefly(err error) string {
	if class(err) == "" {
		return bare(err)
	}
	return string(class(err)) + ": " + bare(err)
}

// didYouMean is the hint for a mistyped word, "" when none of the names is near.
func didYouMean(word string, names []string) string {
	if near := target.Closest(names, word); len(near) > 0 {
		return "did you mean " + near[0] + "?"
	}
	return ""
}

// redacted hides the password of a URL that was typed where it does not belong.
func redacted(word string) string {
	return regexp.MustCompile(`//.*@`).ReplaceAllString(word, "//***@")
}
