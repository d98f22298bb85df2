package limiter

import (
	"regexp"
	"strconv"
	"strings"
)

// What servers say when a script fails. Since 7.0, and in Valkey, an error that Lua raised, one that redis.call raised,
// and one that the script returned of itself read
//
//	ERR user_script:41: attempt to compare nil with number script: SHA1, on @user_script:41.
//	WRONGTYPE Operation against a key holding the wrong kind of value script: SHA1, on @user_script:41.
//	INVALID cost: 0 to 9007199254740991
//
// and in 6.2 the first two read
//
//	ERR Error running script (call to f_SHA1): @user_script:41: user_script:41: attempt to compare nil with number
//	ERR Error running script (call to f_SHA1): @user_script:41: WRONGTYPE Operation against a key …
//
// Valkey 9.1 leaves the digest out: … script: on @user_script:41.
//
// SCRIPT LOAD says of a script that is not Lua: ERR Error compiling script (new function): user_script:41: …

// reply is an error reply taken apart.
type reply struct {
	code string // its first word: ERR, OOM, WRONGTYPE …
	text string // what it says without the code and without the place
	line int    // of the script that raised it, 0 if no script did
}

var (
	running  = regexp.MustCompile(`^ERR Error (?:running script \(call to [^)]*\)|compiling script \([^)]*\)): `)
	location = regexp.MustCompile(` script: (?:[0-9a-f]{40}, )?on @?user_script:(\d+)\.?$`)
	place    = regexp.MustCompile(`^@?user_script:(\d+): `)
)

func parseReply(text string) reply {
	r := reply{code: "ERR"}
	text = running.ReplaceAllString(text, "")
	if found := location.FindStringSubmatchIndex(text); found != nil {
		r.line, _ = strconv.Atoi(text[found[2]:found[3]])
		text = text[:found[0]]
	}
	text = r.cutPlace(text)
	if code, rest, _ := strings.Cut(text, " "); code == strings.ToUpper(code) {
		r.code, text = code, rest
	}
	// A command that the server does not know is quoted with its arguments, the key or a password among them.
	r.text, _, _ = strings.Cut(r.cutPlace(text), ", with args beginning with")
	return r
}

// cutPlace takes the name that Redis gives all scripts off the front of text.
func (r *reply) cutPlace(text string) string {
	found := place.FindStringSubmatch(text)
	if found == nil {
		return text
	}
	r.line, _ = strconv.Atoi(found[1])
	return strings.TrimPrefix(text, found[0])
}

// Error is the reply as it is shown: the code, unless it says nothing, and the text.
func (r reply) Error() string {
	if r.code == "ERR" {
		return r.text
	}
	return r.code + " " + r.text
}

// RedisError marks it as an answer of the server.
func (reply) RedisError() {}

// at is the reply with the place in the script's source, as in
// "gcra.lua:41: local x = y < z: attempt to compare nil with number".
func (r reply) at(file, source string) reply {
	lines := strings.Split(source, "\n")
	if r.line < 1 || r.line > len(lines) {
		return r
	}
	where := file + ":" + strconv.Itoa(r.line) + ": " + strings.TrimSpace(lines[r.line-1]) + ": "
	return reply{code: "ERR", text: where + r.Error()}
}

// without is the reply with the key taken out. Redis puts a space for each line break of a reply.
func (r reply) without(key string) reply {
	inReply := strings.NewReplacer("\r", " ", "\n", " ").Replace(key)
	r.text = strings.NewReplacer(key, "KEYS[1]", inReply, "KEYS[1]").Replace(r.text)
	return r
}
