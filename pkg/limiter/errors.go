package limiter

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Class names the kind of an error. It is what users, histories and exit codes see.
type Class string

// The classes. Each says in its comment what brings it.
const (
	ClassInvalid     Class = "invalid"     // an argument was refused, before any write
	ClassUnreachable Class = "unreachable" // no connection: nothing was sent
	ClassNoAnswer    Class = "no-answer"   // sent, and no answer came
	ClassAuth        Class = "auth"        // NOAUTH, WRONGPASS, NOPERM
	ClassLoading     Class = "loading"     // LOADING
	ClassBusy        Class = "busy"        // BUSY
	ClassReadOnly    Class = "read-only"   // READONLY, MISCONF, NOREPLICAS, MASTERDOWN: writes are refused
	ClassOOM         Class = "oom"         // OOM
	ClassWrongType   Class = "wrong-type"  // WRONGTYPE: the key holds something else
	ClassCluster     Class = "cluster"     // MOVED, ASK, TRYAGAIN, CLUSTERDOWN, CROSSSLOT
	ClassNoScript    Class = "no-script"   // NOSCRIPT, twice
	ClassContention  Class = "contention"  // an optimistic limiter ran out of retries
	ClassScript      Class = "script"      // any other error raised inside a script
	ClassOther       Class = "other"
)

// Error is a request that was not decided.
type Error struct {
	Limiter string
	Class   Class
	Unknown bool  // it may have been counted all the same
	Err     error // what Redis or the network said; names no key and no password
}

// Error says which limiter failed, how, and whether the request may have been counted.
func (e *Error) Error() string {
	text := e.Limiter + ": " + string(e.Class) + ": " + e.Err.Error()
	if e.Unknown {
		text += " (the request may have been counted)"
	}
	return text
}

// Unwrap returns what Redis or the network said.
func (e *Error) Unwrap() error { return e.Err }

// FieldError is an argument outside its bounds. It is the Err of an Error of ClassInvalid that was found before any I/O.
type FieldError struct {
	Field   string // limit, window, burst, cost, key, id or prefix
	Problem string // what it has to be, as in "must be 0 to 1000000000"
}

// Error names the field and its bounds, and not the value.
func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

// Counted tells whether a request that ended in err may have been counted. Of an error that no limiter classified
// nothing is known, so it may. A nil error was decided, and its Decision tells.
func Counted(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Unknown
	}
	return err != nil
}

// Classify says what an error of go-redis means for the request that met it. Wrote tells that an earlier command of the
// same request has already written something, which makes every error one after which it may have been counted. The
// error is nil if err is, and unchanged but for wrote if it was classified before.
func Classify(limiter string, err error, wrote bool) error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return &Error{known.Limiter, known.Class, known.Unknown || wrote, known.Err}
	}
	class, unknown := classOf(err)
	return &Error{limiter, class, unknown || wrote, err}
}

func classOf(err error) (class Class, unknown bool) {
	var field *FieldError
	var reply redis.Error
	switch {
	case errors.As(err, &field):
		return ClassInvalid, false
	case errors.As(err, &reply):
		return classOfReply(reply.Error())
	case neverSent(err):
		return ClassUnreachable, false
	case errors.Is(err, redis.TxFailedErr):
		return ClassContention, false
	}
	return ClassNoAnswer, true
}

// neverSent knows the errors that come before a command is written. An expired context is none of them: by itself it
// does not tell whether it expired before or after.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed) && !errors.Is(err, context.Canceled)
}

// refusals are the error codes with which Redis refuses a command or the first write of a script.
var refusals = map[string]Class{
	"INVALID": ClassInvalid, "NOSCRIPT": ClassNoScript,
	"NOAUTH": ClassAuth, "WRONGPASS": ClassAuth, "NOPERM": ClassAuth,
	"LOADING": ClassLoading, "BUSY": ClassBusy, "OOM": ClassOOM,
	"READONLY": ClassReadOnly, "MISCONF": ClassReadOnly, "NOREPLICAS": ClassReadOnly, "MASTERDOWN": ClassReadOnly,
	"MOVED": ClassCluster, "ASK": ClassCluster, "TRYAGAIN": ClassCluster, "CLUSTERDOWN": ClassCluster,
	"CROSSSLOT": ClassCluster, "WRONGTYPE": ClassWrongType,
}

func classOfReply(text string) (class Class, unknown bool) {
	code, _, _ := strings.Cut(text, " ")
	inScript := strings.Contains(text, "script")
	class, known := refusals[code]
	switch {
	case known && class == ClassWrongType:
		return class, inScript
	case known:
		return class, false
	case inScript:
		return ClassScript, true
	}
	return ClassOther, false
}
