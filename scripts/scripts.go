// Package scripts holds the rate limiters themselves: one Lua file each, the only copy, embedded in the binary. Beside
// them stand the three of the semaphore, which limits how many at once.
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
	"slices"
	"strings"
)

//go:embed *.lua
var files embed.FS

// Source returns the text of the script of that name, without ".lua", and whether there is one.
func Source(name string) (string, bool) {
	b, err := files.ReadFile(name + ".lua")
	return string(b), err == nil
}

// The scripts of the semaphore. They share one key, and are no rate limiters.
const (
	SemaphoreAcquire = "semaphore_acquire"
	SemaphoreRenew   = "semaphore_renew"
	SemaphoreRelease = "semaphore_release"
)

// Limiters returns the names of all rate limiters, sorted.
func Limiters() []string { return slices.DeleteFunc(Names(), ofSemaphore) }

func ofSemaphore(name string) bool { return strings.HasPrefix(name, "semaphore_") }

// Names returns the names of all scripts, sorted.
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

// Rights returns what the head of a source says that its caller's user must be allowed, as words of Redis's ACL: evalsha
// to run it, script|load to make it known, and each command that it calls. A source whose head says nothing has none.
func Rights(source string) []string {
	_, rest, _ := strings.Cut(source, "\n-- Rights: ")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(line)
}
