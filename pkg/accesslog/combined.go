package accesslog

import (
	"bytes"
	"slices"
)

// CombinedFields lists what may be the key in the combined log formats, by nginx's names. Only vhost_combined has the last.
func CombinedFields() []string {
	return []string{"remote_addr", "remote_user", "request", "http_referer", "http_user_agent", "host"}
}

const (
	notCombined = "not the combined log format"
	notVHost    = "not the combined log format behind a virtual host"
	noField     = "key: the line has no such field, or - in it"
)

// combined finds fields in lines like
//
//	192.0.2.7 - alice [30/Nov/2026:06:58:52 +0000] "GET / HTTP/1.1" 200 512 "https://example.org/" "curl/8"
//
// The last two are not there in the common log format; more may follow in a server's own. With vhost the name of the host
// comes first, as in Apache's vhost_combined. A name with a space in it is refused, since a line that begins with the name
// of a virtual host would else pass for one with the host as its client.
type combined struct {
	key   int
	vhost bool
}

func newCombined(f Format, key string) combined {
	return combined{slices.Index(CombinedFields(), key), f == VHost}
}

func (c combined) find(line []byte) (f found, wrong string) {
	if !c.vhost {
		return c.behind(nil, line)
	}
	host, line, ok := cutAt(line, ' ')
	if !ok || len(host) == 0 {
		return f, notVHost
	}
	if f, wrong = c.behind(host, line); wrong == notCombined {
		wrong = notVHost
	}
	return f, wrong
}

// hasPort tells whether a line begins with a host and its port. A line that begins with an IPv6 address may seem to, but is not
// taken for a virtual host's: where that has the client's address, this one has a dash, which is no key.
func hasPort(line []byte) bool {
	host, _, _ := cutAt(line, ' ')
	colon := bytes.LastIndexByte(host, ':')
	return colon > 0 && colon+1 < len(host) && number(host[colon+1:]) >= 0
}

// behind finds the fields behind the host.
func (c combined) behind(host, line []byte) (f found, wrong string) {
	fields := [6][]byte{5: host} // as CombinedFields
	var ok bool
	if fields[0], line, ok = cutAt(line, ' '); !ok || len(fields[0]) == 0 {
		return f, notCombined
	}
	if _, line, ok = cutAt(line, ' '); !ok {
		return f, notCombined
	}
	if fields[1], line, ok = cutAt(line, ' '); !ok || len(line) == 0 || line[0] != '[' {
		return f, notCombined
	}
	if f.time, line, ok = cutAt(line[1:], ']'); !ok {
		return f, notCombined
	}
	if fields[2], line, ok = quoted(line); !ok {
		return f, notCombined
	}
	if line, ok = answered(line); !ok {
		return f, notCombined
	}
	if len(line) > 0 {
		if fields[3], line, ok = quoted(line); !ok {
			return f, notCombined
		}
		if fields[4], line, ok = quoted(line); !ok || len(line) > 0 && line[0] != ' ' {
			return f, notCombined
		}
	}
	f.key = fields[c.key]
	if len(f.key) == 0 || len(f.key) == 1 && f.key[0] == '-' {
		return f, noField
	}
	return f, ""
}

// cutAt is line before and behind the first c.
func cutAt(line []byte, c byte) (before, after []byte, ok bool) {
	i := bytes.IndexByte(line, c)
	if i < 0 {
		return nil, nil, false
	}
	return line[:i], line[i+1:], true
}

// quoted takes a space and what stands in quotes behind it. A quote behind a backslash does not end it.
func quoted(line []byte) (text, rest []byte, ok bool) {
	if len(line) < 2 || line[0] != ' ' || line[1] != '"' {
		return nil, nil, false
	}
	line = line[2:]
	for i := 0; ; i++ {
		end := bytes.IndexByte(line[i:], '"')
		if end < 0 {
			return nil, nil, false
		}
		if i += end; !escaped(line[:i]) {
			return line[:i], line[i+1:], true
		}
	}
}

// escaped tells whether what comes behind text stands behind a backslash.
func escaped(text []byte) bool {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// answered takes the status and the size: three digits, and digits or a dash.
func answered(line []byte) (rest []byte, ok bool) {
	if len(line) < len(" 200 0") || line[0] != ' ' || line[4] != ' ' || number(line[1:4]) < 0 {
		return nil, false
	}
	line = line[5:]
	i := 0
	for i < len(line) && isDigit(line[i]) {
		i++
	}
	if i == 0 && line[0] == '-' {
		i = 1
	}
	return line[i:], i > 0 && (i == len(line) || line[i] == ' ')
}
