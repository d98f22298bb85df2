// Package outside makes limiters of what others wrote: a Lua script, a worker process in any language, or a service that is
// reached over HTTP.
//
// Such a limiter is judged like ours, by the rule that it claims to keep. If it tells the server's time and all else that
// a Decision holds, it is replayed field by field; else only what it admits is compared with what the rule has room for.
package outside

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// Terms say how to take what is named from outside. They hold secrets: they travel on pipes only.
type Terms struct {
	As      string   `json:"as"`                // the limiter of the catalogue whose rule it claims to keep
	Headers []string `json:"headers,omitempty"` // of each request to a service, as NAME: VALUE
}

// Kind is one that can be made limiters of.
type Kind struct {
	// New makes a limiter. It does no I/O.
	New func(rdb redis.UniversalClient, l limiter.Limit, opts ...limiter.Option) (limiter.Limiter, error)
	// Unit tells that a request takes one event, whatever it is asked for.
	Unit bool
	// Callers tells that it decides on its caller's clock.
	Callers bool
	// Service tells that it is asked over HTTP, on behalf of nobody's Redis: what happens behind the URL is not seen.
	Service bool
}

// Renewer is a Limiter that can forget what its process keeps, which is quicker than to make another one.
type Renewer interface {
	limiter.Limiter
	// Renew makes it as if it had just been made.
	Renew()
}

// schemes are how names from outside begin.
var schemes = map[string]func(name, rest string, t Terms) (Kind, error){
	"exec:":    openExec,
	"http://":  openHTTP,
	"https://": openHTTP,
	"lua:":     openLua,
}

// Is tells whether a name is one from outside.
func Is(name string) bool {
	_, _, ok := split(name)
	return ok
}

func split(name string) (scheme, rest string, ok bool) {
	for scheme := range schemes {
		if rest, ok := strings.CutPrefix(name, scheme); ok {
			return scheme, rest, true
		}
	}
	return "", name, false
}

// Open takes what the name means.
func Open(name string, t Terms) (Kind, error) {
	scheme, rest, ok := split(name)
	if !ok {
		return Kind{}, fmt.Errorf("%q is not from outside", name)
	}
	return schemes[scheme](name, rest, t)
}
