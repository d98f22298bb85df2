package limiter

import (
	"crypto/rand"
	"encoding/base64"
	"strconv"
	"sync/atomic"
)

// IDs makes ids for requests: 12 random characters that are drawn once, and a count. They are unique over processes and
// restarts without any agreement between them, and short, since a log keeps each.
type IDs struct {
	prefix string
	last   atomic.Uint64
}

// NewIDs draws.
func NewIDs() *IDs {
	var drawn [9]byte
	_, _ = rand.Read(drawn[:]) // it never fails: the program ends where the system gives no random bytes
	return &IDs{prefix: base64.RawURLEncoding.EncodeToString(drawn[:])}
}

// Next is an id of at most 25 bytes that no other request has. It may be called by many goroutines at once.
func (i *IDs) Next() string {
	var room [32]byte
	return string(strconv.AppendUint(append(room[:0], i.prefix...), i.last.Add(1), 36))
}
