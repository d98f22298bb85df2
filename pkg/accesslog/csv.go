package accesslog

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
)

const (
	wrongFields = "not as many fields as the first line"
	wrongQuotes = "a quote that does not begin or end a field of the line"
)

// table finds fields of a CSV by their place.
type table struct {
	separator byte
	columns   int // of every line
	time, key int
	cost      int // -1 if no field has it
}

func (t *table) find(line []byte) (f found, wrong string) {
	n := 0
	wrong = eachField(line, t.separator, func(field []byte) {
		switch n {
		case t.time:
			f.time = field
		case t.key:
			f.key = field
		}
		if n == t.cost {
			f.cost = field
		}
		n++
	})
	if wrong == "" && n != t.columns {
		wrong = wrongFields
	}
	if t.key == t.time {
		f.key = f.time
	}
	return f, wrong
}

// eachField calls yield with each field, without its quotes.
func eachField(line []byte, separator byte, yield func([]byte)) (wrong string) {
	plain := bytes.IndexByte(line, '"') < 0
	for {
		if !plain && len(line) > 0 && line[0] == '"' {
			field, rest, ok := unquote(line[1:])
			if !ok || len(rest) > 0 && rest[0] != separator {
				return wrongQuotes
			}
			yield(field)
			if len(rest) == 0 {
				return ""
			}
			line = rest[1:]
			continue
		}
		field, rest, more := cutAt(line, separator)
		if !more {
			field = line
		}
		if !plain && bytes.IndexByte(field, '"') >= 0 {
			return wrongQuotes
		}
		yield(field)
		if !more {
			return ""
		}
		line = rest
	}
}

// unquote takes what ends with a quote. Two quotes are one of the text.
func unquote(line []byte) (text, rest []byte, ok bool) {
	var unescaped []byte
	for from := 0; ; {
		end := bytes.IndexByte(line[from:], '"')
		if end < 0 {
			return nil, nil, false
		}
		end += from
		if end+1 == len(line) || line[end+1] != '"' {
			if unescaped == nil {
				return line[:end], line[end+1:], true
			}
			return append(unescaped, line[from:end]...), line[end+1:], true
		}
		unescaped = append(unescaped, line[from:end+1]...)
		from = end + 2
	}
}

// newTable looks the fields up in the first line, which is the header unless all of them are numbers.
func newTable(s Spec, first []byte) (t *table, header bool, err error) {
	t = &table{separator: s.Separator, cost: -1}
	var names []string
	if wrong := eachField(first, s.Separator, func(field []byte) { names = append(names, string(field)) }); wrong != "" {
		return nil, false, refuse("input", "the first line is no CSV: %s", wrong)
	}
	t.columns = len(names)
	header = s.Header || !isColumn(s.Time) || !isColumn(s.Key) || s.Cost != "" && !isColumn(s.Cost)
	for _, field := range []struct {
		flag, name string
		column     *int
	}{{"time", s.Time, &t.time}, {"key", s.Key, &t.key}, {"cost-field", s.Cost, &t.cost}} {
		if field.name == "" {
			continue
		}
		if *field.column, err = column(field.flag, field.name, names, header); err != nil {
			return nil, false, err
		}
	}
	return t, header, nil
}

// isColumn tells whether a field is named by its number.
func isColumn(name string) bool { return name != "" && number([]byte(name)) >= 0 }

// column is the place of a field, from 0 on. A number is one even if the header has it as a name.
func column(flag, name string, names []string, header bool) (place int, err error) {
	if isColumn(name) {
		n, err := strconv.Atoi(name)
		if err != nil || n < 1 || n > len(names) {
			return 0, refuse(flag, "want a column from 1 to %d, got %s", len(names), name)
		}
		return n - 1, nil
	}
	place = -1
	for i, n := range names {
		switch {
		case n == name && place >= 0:
			return 0, refuse(flag, "the header has %s twice: name a column by its number", name)
		case n == name:
			place = i
		}
	}
	if place < 0 && header {
		return 0, refuse(flag, "the header has no %s: it has %s", name, titles(names))
	}
	return place, nil
}

// titles shows the fields of a first line that looks like a header, and of all others only how many there are: they may
// hold what is not to be told.
func titles(names []string) string {
	for _, name := range names {
		if !isTitle(name) {
			return fmt.Sprintf("%d fields", len(names))
		}
	}
	return listed(names)
}

// isTitle tells whether a text looks like the name of a field, and not like what one holds.
func isTitle(text string) bool {
	return regexp.MustCompile(`^[A-Za-z_@][A-Za-z0-9_-]*([. ][A-Za-z_@][A-Za-z0-9_-]*)*$`).MatchString(text)
}
