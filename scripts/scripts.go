// Package scripts holds the rate limiters themselves: one Lua file each, the only copy, embedded in the binary.
//
// Each file is complete in itself. It can be read on its own, loaded by a client in any language, and run by hand:
//
//	redis-cli --eval scripts/gcra.lua 'ratelimit:{c}:gcra' , 100 60000000 0 1 id 0
//
// All take KEYS[1] and the arguments limit, window_us, burst, cost, id, now_us, and reply with five integers: allowed,
// remaining, retry_us, reset_us, now_us.
package scripts

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"io/fs"
	"strings"
)

//go:embed *.lua
var files embed.FS

// Source returns the text of the limiter of that name, without ".lua", and whether there is one.
func Source(name string) (string, bool) {
	b, err := files.ReadFile(name + ".lua")
	return string(b), err == nil
}

// Names returns the names of all limiters, sorted.
func Names() []string {
	found, _ := fs.Glob(files, "*.lua")
	for i, f := range found {
		found[i] = strings.TrimSuffix(f, ".lua")
	}
	return found
}

// SHA1 returns the digest by which EVALSHA knows a source, in hexadecimal.
func SHA1(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}
