package limiter

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
