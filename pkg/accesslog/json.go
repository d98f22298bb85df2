package accesslog

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

const (
	notJSON   = "not JSON"
	notObject = "not a JSON object"
)

// maxDepth is as deep as a line of JSON may be nested.
const maxDepth = 100

// objects finds fields in lines of JSON. A path may lead into objects, by dots; a name that has dots itself is found as
// well. It is not encoding/json, which takes ten times as long, but takes the same lines for JSON.
type objects struct {
	paths [3]string    // of time, key and cost; empty if not wanted
	wrong [3][3]string // what is said where a field is missing, there twice, and no text or number
}

// What wrong says.
const (
	missing = iota
	twice
	unfit
)

func newObjects(s Spec) *objects {
	o := &objects{paths: [3]string{s.Time, s.Key, s.Cost}}
	for i, what := range []string{"time", "key", "cost"} {
		o.wrong[i] = [3]string{what + ": no such field", what + ": the field is there twice", what + ": no text or number"}
	}
	return o
}

func (o *objects) find(line []byte) (f found, wrong string) {
	s := search{objects: o, line: line}
	i := space(line, 0)
	if i == len(line) || line[i] != '{' {
		if end := value(line, i, 0); end < 0 || space(line, end) != len(line) {
			return f, notJSON
		}
		return f, notObject
	}
	end := s.object(i, o.paths, 0)
	if end < 0 || space(line, end) != len(line) {
		return f, notJSON
	}
	if s.fault != "" {
		return f, s.fault
	}
	for field, path := range o.paths {
		if path != "" && s.found[field] == nil {
			return f, o.wrong[field][missing]
		}
	}
	return found{s.found[0], s.found[1], s.found[2]}, ""
}

// search is one line under way.
type search struct {
	*objects
	line  []byte
	found [3][]byte
	fault string // the first
}

// object reads an object that begins at i, and looks in it for what is left of the paths. It returns the place behind it,
// -1 if it is none.
func (s *search) object(i int, paths [3]string, depth int) int {
	if depth > maxDepth {
		return -1
	}
	line := s.line
	if i = space(line, i+1); i < len(line) && line[i] == '}' {
		return i + 1
	}
	for {
		if i == len(line) || line[i] != '"' {
			return -1
		}
		end := text(line, i)
		if end < 0 {
			return -1
		}
		name := line[i+1 : end-1]
		if i = space(line, end); i == len(line) || line[i] != ':' {
			return -1
		}
		if i = s.member(name, space(line, i+1), paths, depth); i < 0 {
			return -1
		}
		if i = space(line, i); i == len(line) {
			return -1
		}
		switch line[i] {
		case '}':
			return i + 1
		case ',':
			i = space(line, i+1)
		default:
			return -1
		}
	}
}

// member reads the value at i of the member of that name.
func (s *search) member(name []byte, i int, paths [3]string, depth int) (end int) {
	plain := name
	if hasBackslash(name) {
		plain = unescape(name)
	}
	var inside [3]string
	var is [3]bool
	leads := false
	for field, path := range paths {
		switch {
		case path == "" || len(plain) > len(path) || path[:len(plain)] != string(plain):
		case len(plain) == len(path):
			is[field] = true
		case path[len(plain)] == '.':
			inside[field], leads = path[len(plain)+1:], true
		}
	}
	if leads && i < len(s.line) && s.line[i] == '{' {
		end = s.object(i, inside, depth+1)
	} else {
		end = value(s.line, i, depth+1)
	}
	for field, it := range is {
		if it && end >= 0 {
			s.take(field, s.line[i:end])
		}
	}
	return end
}

// take notes a value as a field.
func (s *search) take(field int, v []byte) {
	fault := ""
	switch {
	case s.found[field] != nil:
		fault = s.wrong[field][twice]
	case v[0] == '"':
		if v = v[1 : len(v)-1]; hasBackslash(v) {
			v = unescape(v)
		}
	case v[0] != '-' && !isDigit(v[0]): // null, true, false, an object or an array
		fault = s.wrong[field][unfit]
	}
	s.found[field] = v
	if s.fault == "" {
		s.fault = fault
	}
}

func hasBackslash(b []byte) bool {
	for _, c := range b {
		if c == '\\' {
			return true
		}
	}
	return false
}

// unescape is what a valid string of JSON says.
func unescape(b []byte) []byte {
	var text string
	_ = json.Unmarshal([]byte(`"`+string(b)+`"`), &text)
	return []byte(text)
}

// value returns the place behind the value that begins at i, -1 if none does.
func value(b []byte, i, depth int) int {
	if i == len(b) || depth > maxDepth {
		return -1
	}
	switch c := b[i]; {
	case c == '"':
		return text(b, i)
	case c == '{':
		return composite(b, i, '}', depth)
	case c == '[':
		return composite(b, i, ']', depth)
	case c == '-' || isDigit(c):
		return numeral(b, i)
	}
	for _, word := range []string{"true", "false", "null"} {
		if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
			return i + len(word)
		}
	}
	return -1
}

// composite reads an array or an object that nothing is looked for in.
func composite(b []byte, i int, end byte, depth int) int {
	if i = space(b, i+1); i < len(b) && b[i] == end {
		return i + 1
	}
	for {
		if end == '}' {
			if i == len(b) || b[i] != '"' {
				return -1
			}
			if i = text(b, i); i < 0 {
				return -1
			}
			if i = space(b, i); i == len(b) || b[i] != ':' {
				return -1
			}
			i = space(b, i+1)
		}
		if i = value(b, i, depth+1); i < 0 {
			return -1
		}
		if i = space(b, i); i == len(b) {
			return -1
		}
		switch b[i] {
		case end:
			return i + 1
		case ',':
			i = space(b, i+1)
		default:
			return -1
		}
	}
}

// text returns the place behind the string that begins at i.
func text(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			i++
			if i == len(b) {
				return -1
			}
			if b[i] == 'u' {
				if len(b)-i < 5 || !isHex(b[i+1:i+5]) {
					return -1
				}
				i += 4
			} else if strings.IndexByte(`"\/bfnrt`, b[i]) < 0 {
				return -1
			}
		}
	}
	return -1
}

func isHex(b []byte) bool {
	for _, c := range b {
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
			return false
		}
	}
	return true
}

// numeral returns the place behind the number that begins at i.
func numeral(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	whole := digits(b, i)
	if whole == i || b[i] == '0' && whole > i+1 {
		return -1
	}
	i = whole
	if i < len(b) && b[i] == '.' {
		if end := digits(b, i+1); end > i+1 {
			i = end
		} else {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		end := digits(b, i)
		if end == i {
			return -1
		}
		i = end
	}
	return i
}

func digits(b []byte, i int) int {
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// members lists the names of an object's members, with a dot before those of objects in it.
func members(line []byte) (names []string) {
	var object map[string]json.RawMessage
	if json.Unmarshal(line, &object) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if inner := members(object[name]); len(inner) > 0 {
			for _, n := range inner {
				names = append(names, name+"."+n)
			}
			continue
		}
		names = append(names, name)
	}
	return names
}
