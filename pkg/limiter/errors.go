package limiter

import (
	"crypto/tls"
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
	ClassAuth        Class = "auth"        // NOAUTH, WRONGPASS, NOPERM, a certificate that the server refuses
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

// Classes are all of them. Limiters from outside may have further ones.
func Classes() []Class {
	return []Class{
		ClassInvalid, ClassUnreachable, ClassNoAnswer, ClassAuth, ClassLoading, ClassBusy, ClassReadOnly, ClassOOM,
		ClassWrongType, ClassCluster, ClassNoScript, ClassContention, ClassScript, ClassOther,
	}
}

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

// FieldError is an argument outside its bounds. It is in an Error of ClassInvalid that was found before any I/O.
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

// Classify says what an error of go-redis means for the request that met it: the result is an *Error, nil if err is.
// Wrote tells that an earlier command of the same request has already written something, which makes every error one
// after which it may have been counted. What was classified before is unchanged but for wrote.
func Classify(limiter string, err error, wrote bool) error {
	if err == nil {
		return nil
	}
	e := classify(limiter, err)
	e.Unknown = e.Unknown || wrote
	return e
}

func classify(limiter string, err error) *Error {
	var known *Error
	var field *FieldError
	var said redis.Error
	switch {
	case errors.As(err, &known):
		again := *known
		return &again
	case errors.As(err, &field):
		return &Error{limiter, ClassInvalid, false, err}
	case errors.Is(err, redis.TxFailedErr):
		return &Error{limiter, ClassContention, false, err}
	case certificateRefused(err):
		return &Error{limiter, ClassAuth, false, err}
	case neverSent(err):
		return &Error{limiter, ClassUnreachable, false, err}
	case errors.As(err, &said):
		return classifyReply(limiter, parseReply(said.Error()))
	}
	return &Error{limiter, ClassNoAnswer, true, err}
}

// certificateRefused knows the alerts with which a server ends the connection of a client whose certificate it does not
// take, or that shows none. The command may be on its way by then; nobody reads it. crypto/tls keeps the alert's type to
// itself, and all of these name what they are about.
func certificateRefused(err error) bool {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return false
	}
	return strings.Contains(op.Err.Error(), "certificate") || strings.Contains(op.Err.Error(), "access denied")
}

// neverSent knows the errors that come before a command is written. An expired context is none of them: by itself it
// does not tell whether it expired before or after.
func neverSent(err error) bool {
	var op *net.OpError
	var untrusted *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &untrusted) || errors.As(err, &noTLS) || redis.IsMaxClientsError(err) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed)
}

// refusals are the codes with which Redis refuses a command or the first write of a script, and a script its arguments.
var refusals = map[string]Class{
	"INVALID": ClassInvalid, "NOSCRIPT": ClassNoScript, "WRONGTYPE": ClassWrongType,
	"NOAUTH": ClassAuth, "WRONGPASS": ClassAuth, "NOPERM": ClassAuth,
	"LOADING": ClassLoading, "BUSY": ClassBusy, "OOM": ClassOOM,
	"READONLY": ClassReadOnly, "MISCONF": ClassReadOnly, "NOREPLICAS": ClassReadOnly, "MASTERDOWN": ClassReadOnly,
	"MOVED": ClassCluster, "ASK": ClassCluster, "TRYAGAIN": ClassCluster, "CLUSTERDOWN": ClassCluster,
	"CROSSSLOT": ClassCluster,
}

// classifyReply takes a refusal for one that came before anything was counted, except in a script for what can as well
// come between two of its writes: a right that is missing, and a second key of another type.
func classifyReply(limiter string, r reply) *Error {
	class, refused := refusals[r.code]
	inScript := r.line > 0
	switch {
	case refused && class != ClassWrongType && class != ClassAuth:
		return &Error{limiter, class, false, r}
	case refused:
		return &Error{limiter, class, inScript, r}
	case inScript && missingRight(r.text):
		return &Error{limiter, ClassAuth, true, r}
	case inScript:
		return &Error{limiter, ClassScript, true, r}
	}
	return &Error{limiter, ClassOther, false, r}
}

// missingRight knows what Redis up to 7.0, and what later ones and Valkey say in a script for NOPERM.
func missingRight(text string) bool {
	return strings.HasPrefix(text, "The user executing the script can't") ||
		strings.HasPrefix(text, "ACL failure in script")
}
