package accesslog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
)

// Log is a log that was opened.
type Log struct {
	in    *bufio.Reader
	spec  Spec
	parse parser
	taken []string
}

// headSize is how much of a log is looked at before it is read, in bytes, and headLines how many lines of it.
const (
	headSize  = 64 << 10
	headLines = 20
)

// Open looks at the beginning of a log. One without lines, or with blank ones only, leaves open what it could not tell. A
// *SpecError says what of the spec is missing or does not fit; an error that is none is one of reading, or the cause of a
// context that ended while nothing came.
func Open(ctx context.Context, r io.Reader, s Spec) (*Log, error) {
	l := &Log{in: bufio.NewReaderSize(r, headSize), spec: s}
	var head []byte
	var err error
	looked := make(chan struct{})
	go func() {
		head, err = l.head()
		close(looked)
	}()
	select {
	case <-looked:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if bytes.HasPrefix(head, []byte("\x1f\x8b")) {
		return nil, refuse("input", "the log is compressed: gunzip -c FILE, and - for FILE")
	}
	if mark := []byte("\xef\xbb\xbf"); bytes.HasPrefix(head, mark) {
		_, _ = l.in.Discard(len(mark)) // it was seen
		head = head[len(mark):]
	}
	lines := l.first(head, err == nil)
	switch {
	case len(lines) == 0 && err != nil:
		l.parse.finder = nothing{}
		return l, nil
	case len(lines) == 0:
		return nil, fmt.Errorf("the log begins with %d KiB of blank lines", headSize>>10)
	}
	if err := l.decide(lines); err != nil {
		return nil, err
	}
	return l, nil
}

// nothing is for a log that had no lines when it was read to its end: what comes after that is broken.
type nothing struct{}

func (nothing) find([]byte) (f found, wrong string) {
	return f, "written after the log's end had been seen"
}

// head is what there is of the beginning, a whole line at least if there is one.
func (l *Log) head() (head []byte, err error) {
	for err == nil && len(head) < headSize && bytes.IndexByte(bytes.TrimLeft(head, " \t\r\n"), '\n') < 0 {
		_, err = l.in.Peek(len(head) + 1)
		head, _ = l.in.Peek(l.in.Buffered())
	}
	return head, err
}

// first are the first lines that are not blank. What is cut off at the end of the head is no line.
func (l *Log) first(head []byte, cut bool) (lines [][]byte) {
	for len(head) > 0 && len(lines) < headLines {
		line, rest, ended := bytes.Cut(head, []byte("\n"))
		if !ended && cut && len(lines) > 0 {
			break
		}
		switch line = bytes.TrimSuffix(line, []byte("\r")); {
		case len(bytes.TrimSpace(line)) > 0:
			lines = append(lines, line)
		case len(lines) == 0:
			l.parse.skip++
		}
		head = rest
	}
	return lines
}

// decide settles what the spec leaves open.
func (l *Log) decide(lines [][]byte) (err error) {
	s := &l.spec
	if s.Format == "" && (s.Separator != 0 || s.Header) {
		s.Format = CSV
	}
	if s.Format == "" {
		if s.Format, err = recognise(lines); err != nil {
			return err
		}
		l.take("read as %s", s.Format)
	}
	switch {
	case s.Format != CSV && s.Separator != 0:
		return refuse("separator", "only a CSV has one, and the log is read as %s", s.Format)
	case s.Format != CSV && s.Header:
		return refuse("header", "only a CSV has one, and the log is read as %s", s.Format)
	case s.Separator == 0:
		s.Separator = ','
	}
	if err := l.fields(lines[0]); err != nil {
		return err
	}
	if s.Format == CSV && s.Header {
		lines = lines[1:]
	}
	l.parse.spec = *s
	if err := l.unit(lines); err != nil {
		return err
	}
	l.suspect(lines)
	return nil
}

// suspect notes what the first lines have that is seldom meant.
func (l *Log) suspect(lines [][]byte) {
	if len(lines) == 0 {
		return
	}
	if path := l.absent(lines); path != "" {
		l.take("no line at the beginning has the field %s: the first has %s", path, fieldsOf(&l.spec, lines[0]))
	} else if l.havePorts(lines) {
		l.take("keys are addresses with ports, so that each connection is a client of its own")
	}
}

// absent is a field that none of the JSON lines has, empty if there is none such.
func (l *Log) absent(lines [][]byte) string {
	o, ok := l.parse.finder.(*objects)
	if !ok {
		return ""
	}
	for field, path := range o.paths {
		has := func(line []byte) bool { _, wrong := o.find(line); return wrong != o.wrong[field][missing] }
		if path != "" && !slices.ContainsFunc(lines, has) {
			return path
		}
	}
	return ""
}

// havePorts tells whether the keys of all lines that have one are addresses with ports.
func (l *Log) havePorts(lines [][]byte) bool {
	keys := 0
	for _, line := range lines {
		f, wrong := l.parse.find(line)
		if wrong != "" {
			continue
		}
		keys++
		if _, err := netip.ParseAddrPort(string(f.key)); err != nil {
			return false
		}
	}
	return keys > 0
}

func (l *Log) take(format string, args ...any) {
	l.taken = append(l.taken, fmt.Sprintf(format, args...))
}

// recognise tells the format of the first line that has one for sure; what is neither JSON nor the combined format is CSV.
func recognise(lines [][]byte) (Format, error) {
	for _, line := range lines {
		if i := space(line, 0); line[i] == '{' && value(line, i, 0) > 0 {
			return JSON, nil
		}
		for _, format := range []Format{Combined, VHost} {
			if _, wrong := newCombined(format, CombinedFields()[0]).find(line); wrong == "" && (format == Combined || hasPort(line)) {
				return format, nil
			}
		}
	}
	if bytes.IndexByte(lines[0], ',') < 0 {
		return "", refuse("input", "the first lines are neither JSON nor the combined log format, and have no comma: want one of %s, or a --separator",
			strings.Join(Formats(), ", "))
	}
	return CSV, nil
}

// fields makes the finder that the format and the names of the fields want.
func (l *Log) fields(first []byte) error {
	s := &l.spec
	if s.Format.IsCombined() {
		return l.combined()
	}
	for _, field := range []struct{ flag, name string }{{"time", s.Time}, {"key", s.Key}} {
		if field.name == "" {
			return refuse(field.flag, "want the name of the field; the first line has %s", fieldsOf(s, first))
		}
	}
	if s.Format == JSON {
		l.parse.finder = newObjects(*s)
		return nil
	}
	t, header, err := newTable(*s, first)
	if err != nil {
		return err
	}
	l.parse.finder = t
	if s.Header = header; header {
		l.parse.skip++
	}
	return nil
}

func (l *Log) combined() error {
	s, known := &l.spec, CombinedFields()
	if s.Format == Combined {
		known = known[:len(known)-1]
	}
	switch {
	case s.Time != "":
		return refuse("time", "the combined log format has only one, in brackets")
	case s.Cost != "":
		return refuse("cost-field", "the combined log format has none")
	case s.Unit != "":
		return refuse("time-unit", "the combined log format has no times that are numbers")
	case s.Key == "":
		s.Key = known[0]
	case !slices.Contains(known, s.Key):
		return refuse("key", "the combined log format has %s", strings.Join(known, ", "))
	}
	l.parse.finder = newCombined(s.Format, s.Key)
	return nil
}

// unit tells what numbers count by the first line whose time is one.
func (l *Log) unit(lines [][]byte) error {
	if l.spec.Unit != "" {
		return nil
	}
	for _, line := range lines {
		f, wrong := l.parse.find(line)
		if wrong != "" {
			continue
		}
		n, ok := parseNumber(f.time)
		if !ok {
			return nil // whatever it is, it is no number
		}
		if l.spec.Unit, ok = n.unit(); !ok {
			return refuse("time-unit", "the first time is a number and may count anything: want one of %s", strings.Join(Units(), ", "))
		}
		l.parse.spec.Unit = l.spec.Unit
		l.take("times are taken for Unix %s (--time-unit %s)", l.spec.Unit.name(), l.spec.Unit)
		return nil
	}
	return nil
}

// fieldsOf lists the fields that a line has.
func fieldsOf(s *Spec, line []byte) string {
	if s.Format == JSON {
		names := members(line)
		shown := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isTitle(name) })
		if len(shown) < len(names) {
			shown = append(shown, "...")
		}
		return listed(shown)
	}
	var names []string
	_ = eachField(line, s.Separator, func(field []byte) { names = append(names, string(field)) })
	return titles(names)
}

// listed shows names, but not a whole page of them.
func listed(names []string) string {
	const most = 20
	if len(names) > most {
		names = append(slices.Clone(names[:most]), "...")
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Taken says in words what the log's beginning decided that the spec had left open.
func (l *Log) Taken() []string { return l.taken }

// Spec is the spec as the log is read by it.
func (l *Log) Spec() Spec { return l.spec }
