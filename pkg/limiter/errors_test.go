package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// said is an error reply of the server.
type said string

func (s said) Error() string { return string(s) }
func (said) RedisError()     {}

// errorReplies are what servers answer, by version where they differ, and what each means.
var errorReplies = []struct {
	reply   string
	class   limiter.Class
	unknown bool
	shown   string
}{
	{"INVALID cost: 0 to 9007199254740991", limiter.ClassInvalid, false, "INVALID cost: 0 to 9007199254740991"},
	{"NOSCRIPT No matching script. Please use EVAL.", limiter.ClassNoScript, false, "NOSCRIPT No matching"},
	{"NOAUTH Authentication required.", limiter.ClassAuth, false, "NOAUTH"},
	{"WRONGPASS invalid username-password pair or user is disabled.", limiter.ClassAuth, false, "WRONGPASS"},
	{"NOPERM this user has no permissions to run the 'evalsha' command", limiter.ClassAuth, false, "NOPERM"},
	{"LOADING Redis is loading the dataset in memory", limiter.ClassLoading, false, "LOADING"},
	{"BUSY Redis is busy running a script.", limiter.ClassBusy, false, "BUSY"},
	{"READONLY You can't write against a read only replica.", limiter.ClassReadOnly, false, "READONLY"},
	{"MISCONF Redis is configured to save RDB snapshots", limiter.ClassReadOnly, false, "MISCONF"},
	{"NOREPLICAS Not enough good replicas to write.", limiter.ClassReadOnly, false, "NOREPLICAS"},
	{"MASTERDOWN Link with MASTER is down", limiter.ClassReadOnly, false, "MASTERDOWN"},
	{"OOM command not allowed when used memory > 'maxmemory'.", limiter.ClassOOM, false, "OOM"},
	{"WRONGTYPE Operation against a key", limiter.ClassWrongType, false, "WRONGTYPE"},
	{"MOVED 3999 127.0.0.1:6381", limiter.ClassCluster, false, "MOVED"},
	{"ASK 3999 127.0.0.1:6381", limiter.ClassCluster, false, "ASK"},
	{"TRYAGAIN Multiple keys request during rehashing of slot", limiter.ClassCluster, false, "TRYAGAIN"},
	{"CLUSTERDOWN Hash slot not served", limiter.ClassCluster, false, "CLUSTERDOWN"},
	{"CROSSSLOT Keys in request don't hash to the same slot", limiter.ClassCluster, false, "CROSSSLOT"},
	{"ERR max number of clients reached", limiter.ClassUnreachable, false, "ERR max number"},
	{"ERR unknown command 'evalsha', with args beginning with: 'f00' '1' 'ratelimit:{c}:gcra' ", limiter.ClassOther,
		false, "unknown command 'evalsha'"},
	{"ERR", limiter.ClassOther, false, ""},
	{"", limiter.ClassOther, false, ""},

	// 7.0 and later, and Valkey
	{"OOM command not allowed when used memory > 'maxmemory'." + at(7), limiter.ClassOOM, false, "OOM"},
	{"READONLY You can't write against a read only replica." + at(7), limiter.ClassReadOnly, false, "READONLY"},
	{"WRONGTYPE Operation against a key" + at(7), limiter.ClassWrongType, true, "WRONGTYPE Operation against a key"},
	{"ERR user_script:41: attempt to compare nil with number" + at(41), limiter.ClassScript, true,
		"attempt to compare nil with number"},
	{"ERR user_script:41: OOM is what I say" + at(41), limiter.ClassScript, true, "OOM is what I say"},
	{"ERR Unknown Redis command called from script" + at(1), limiter.ClassScript, true, "Unknown Redis command"},
	{"ERR The user executing the script can't run this command or subcommand" + at(3), limiter.ClassAuth, true,
		"The user executing"},
	{"ERR ACL failure in script: User few has no permissions to run the 'set' command" + at(3), limiter.ClassAuth, true,
		"ACL failure"},
	{"NOPERM this user has no permissions" + at(3), limiter.ClassAuth, true, "NOPERM"},
	{"MINE is broken" + at(9), limiter.ClassScript, true, "MINE is broken"},

	// Valkey 9.1
	{"OOM command not allowed when used memory > 'maxmemory'." + in91(7), limiter.ClassOOM, false, "OOM"},
	{"WRONGTYPE Operation against a key" + in91(7), limiter.ClassWrongType, true, "WRONGTYPE Operation against a key"},
	{"ERR user_script:41: attempt to compare nil with number" + in91(41), limiter.ClassScript, true,
		"attempt to compare nil with number"},
	{"ERR ACL failure in script: User few has no permissions to run the 'set' command" + in91(3), limiter.ClassAuth, true,
		"ACL failure"},

	// 6.2
	{in62(7) + "OOM command not allowed when used memory > 'maxmemory'.", limiter.ClassOOM, false, "OOM"},
	{in62(7) + "WRONGTYPE Operation against a key", limiter.ClassWrongType, true, "WRONGTYPE Operation against a key"},
	{in62(41) + "user_script:41: attempt to compare nil with number", limiter.ClassScript, true,
		"attempt to compare nil with number"},
	{in62(41) + "user_script:41: OOM is what I say", limiter.ClassScript, true, "OOM is what I say"},
}

func at(line int) string {
	return fmt.Sprintf(" script: 8c8bc16eb47d3f2ae4e8f949e5bb44031764cdc1, on @user_script:%d.", line)
}

func in91(line int) string { return fmt.Sprintf(" script: on @user_script:%d.", line) }

func in62(line int) string {
	const sha = "8c8bc16eb47d3f2ae4e8f949e5bb44031764cdc1"
	return fmt.Sprintf("ERR Error running script (call to f_%s): @user_script:%d: ", sha, line)
}

func TestRepliesAreClassified(t *testing.T) {
	for _, c := range errorReplies {
		for _, wrote := range []bool{false, true} {
			e := failure(t, limiter.Classify("gcra", said(c.reply), wrote))
			shown := "gcra: " + string(c.class) + ": " + c.shown
			if e.Class != c.class || e.Unknown != (c.unknown || wrote) || !strings.HasPrefix(e.Error(), shown) {
				t.Errorf("%s\nwrote %v: got %q, unknown %v", c.reply, wrote, e, e.Unknown)
			}
			for _, noise := range []string{"user_script", "8c8bc16e", "ratelimit:"} {
				if strings.Contains(e.Error(), noise) {
					t.Errorf("%q is in %q", noise, e)
				}
			}
		}
	}
}

func TestOtherErrorsAreClassified(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "unix", Err: os.ErrDeadlineExceeded}
	for _, c := range []struct {
		err     error
		class   limiter.Class
		unknown bool
	}{
		{dial, limiter.ClassUnreachable, false},
		{fmt.Errorf("%w: %w", context.DeadlineExceeded, dial), limiter.ClassUnreachable, false},
		{redis.ErrPoolTimeout, limiter.ClassUnreachable, false},
		{redis.ErrPoolExhausted, limiter.ClassUnreachable, false},
		{redis.ErrClosed, limiter.ClassUnreachable, false},
		{&net.OpError{Op: "read", Net: "unix", Err: os.ErrDeadlineExceeded}, limiter.ClassNoAnswer, true},
		{&net.OpError{Op: "write", Net: "unix", Err: os.ErrDeadlineExceeded}, limiter.ClassNoAnswer, true},
		{io.EOF, limiter.ClassNoAnswer, true},
		{context.DeadlineExceeded, limiter.ClassNoAnswer, true},
		{context.Canceled, limiter.ClassNoAnswer, true},
		{errors.New("what is this"), limiter.ClassNoAnswer, true},
		{redis.TxFailedErr, limiter.ClassContention, false},
		{&limiter.FieldError{Field: "cost", Problem: "must be less"}, limiter.ClassInvalid, false},
		{fmt.Errorf("again: %w", &limiter.Error{Class: limiter.ClassBusy, Err: io.EOF}), limiter.ClassBusy, false},
	} {
		for _, wrote := range []bool{false, true} {
			e := failure(t, limiter.Classify("gcra", c.err, wrote))
			if e.Class != c.class || e.Unknown != (c.unknown || wrote) || limiter.Counted(e) != e.Unknown {
				t.Errorf("%v, wrote %v: got %v", c.err, wrote, e)
			}
		}
	}
	if err := limiter.Classify("gcra", nil, true); err != nil {
		t.Errorf("no error became %v", err)
	}
	if limiter.Counted(nil) || !limiter.Counted(io.EOF) {
		t.Error("Counted is wrong of errors that nobody classified")
	}
}

func TestClassifyChangesNoErrorOfOthers(t *testing.T) {
	first := failure(t, limiter.Classify("gcra", said("BUSY"), false))
	if limiter.Classify("gcra", first, true); first.Unknown {
		t.Error("the first error became unknown")
	}
}
