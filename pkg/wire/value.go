package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Bounds of what is read: a limiter's commands and replies lie far below them.
const (
	maxBulk  = 64 << 20 // bytes of one string
	maxElems = 1 << 20  // of one aggregate
	maxDepth = 16
	maxLine  = 64 << 10 // bytes of a line
)

var errProtocol = errors.New("not RESP")

// Value is one RESP2 or RESP3 value: a command, or a reply to one.
type Value struct {
	Kind  byte   // its first byte: + - : $ * and RESP3's _ # , ( ! = % ~ > |
	Text  string // of a value that is not made of others; empty if Null
	Null  bool
	Elems []Value
	Raw   []byte // the bytes it came in
}

// String is the value as a person reads it: 99, "two words", [1 0 nil].
func (v Value) String() string {
	switch {
	case v.Null:
		return "nil"
	case v.Elems != nil:
		texts := make([]string, len(v.Elems))
		for i, e := range v.Elems {
			texts[i] = e.String()
		}
		return "[" + strings.Join(texts, " ") + "]"
	case v.Kind == '$' && (v.Text == "" || strings.ContainsAny(v.Text, " []\n\r")):
		return strconv.Quote(v.Text)
	}
	return v.Text
}

// Err tells whether the value is an error reply.
func (v Value) Err() bool { return v.Kind == '-' || v.Kind == '!' }

// strings are the texts of an array's elements, as commands are made of.
func (v Value) strings() []string {
	args := make([]string, len(v.Elems))
	for i, e := range v.Elems {
		args[i] = e.Text
	}
	return args
}

// reader reads values and keeps their bytes.
type reader struct {
	*bufio.Reader
}

func newReader(r io.Reader) reader { return reader{bufio.NewReaderSize(r, 16<<10)} }

// value reads one value. An error of the stream is returned as it is; one of the protocol is errProtocol.
func (r reader) value() (Value, error) {
	var raw bytes.Buffer
	v, err := r.read(&raw, 0)
	v.Raw = raw.Bytes()
	return v, err
}

func (r reader) read(raw *bytes.Buffer, depth int) (Value, error) {
	line, err := r.line(raw)
	if err != nil {
		return Value{}, err
	}
	if depth > maxDepth || len(line) == 0 {
		return Value{}, fmt.Errorf("%w: nested too deep, or an empty line", errProtocol)
	}
	v := Value{Kind: line[0]}
	switch rest := string(line[1:]); v.Kind {
	case '+', '-', ':', ',', '#', '(':
		v.Text = rest
		return v, nil
	case '_':
		v.Null = true
		return v, nil
	case '$', '!', '=':
		return v, r.bulk(raw, &v, rest)
	case '*', '~', '>':
		return v, r.elems(raw, &v, rest, 1, depth)
	case '%', '|':
		return v, r.elems(raw, &v, rest, 2, depth)
	}
	return Value{}, fmt.Errorf("%w: a value begins with %q", errProtocol, line[0])
}

// line reads up to CR LF, which it keeps in raw and leaves out of what it returns.
func (r reader) line(raw *bytes.Buffer) ([]byte, error) {
	start := raw.Len()
	for {
		part, err := r.ReadSlice('\n')
		raw.Write(part)
		if raw.Len()-start > maxLine {
			return nil, fmt.Errorf("%w: a line over %d bytes", errProtocol, maxLine)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
	line, ok := bytes.CutSuffix(raw.Bytes()[start:], []byte("\r\n"))
	if !ok {
		return nil, fmt.Errorf("%w: a line without its CR", errProtocol)
	}
	return line, nil
}

func (r reader) bulk(raw *bytes.Buffer, v *Value, length string) error {
	n, err := size(length, maxBulk)
	if err != nil || n < 0 {
		v.Null = true
		return err
	}
	start := raw.Len()
	if _, err := io.CopyN(raw, r, int64(n)+2); err != nil {
		return unexpected(err)
	}
	text := raw.Bytes()[start:]
	if !bytes.HasSuffix(text, []byte("\r\n")) {
		return fmt.Errorf("%w: a string longer than it says", errProtocol)
	}
	v.Text = string(text[:n])
	return nil
}

func (r reader) elems(raw *bytes.Buffer, v *Value, length string, each, depth int) error {
	n, err := size(length, maxElems)
	if err != nil || n < 0 {
		v.Null = true
		return err
	}
	v.Elems = make([]Value, 0, min(n*each, 64))
	for range n * each {
		e, err := r.read(raw, depth+1)
		if err != nil {
			return unexpected(err)
		}
		v.Elems = append(v.Elems, e)
	}
	return nil
}

// size reads a length; -1 is that of nothing.
func size(text string, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < -1 || n > most {
		return 0, fmt.Errorf("%w: a length of %.20q", errProtocol, text)
	}
	return n, nil
}

// unexpected is the error of a stream that ended within a value.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
