package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestValuesAreReadAsTheyCame(t *testing.T) {
	for raw, want := range map[string]string{
		"+OK\r\n":                         "OK",
		"-ERR no\r\n":                     "ERR no",
		":-12\r\n":                        "-12",
		"$3\r\na\r\n\r\n":                 `"a\r\n"`,
		"$0\r\n\r\n":                      `""`,
		"$-1\r\n":                         "nil",
		"*-1\r\n":                         "nil",
		"_\r\n":                           "nil",
		"*0\r\n":                          "[]",
		"*3\r\n:1\r\n$-1\r\n*1\r\n+x\r\n": "[1 nil [x]]",
		"%1\r\n+a\r\n:1\r\n":              "[a 1]",
		"~2\r\n:1\r\n:2\r\n":              "[1 2]",
		"=5\r\ntxt:a\r\n":                 "txt:a",
		",1.5\r\n":                        "1.5",
		"#t\r\n":                          "t",
		"(12345678901234567890\r\n":       "12345678901234567890",
		"!3\r\nERR\r\n":                   "ERR",
		"+" + strings.Repeat("x", 20000) + "\r\n": strings.Repeat("x", 20000),
	} {
		v, err := newReader(strings.NewReader(raw + "+next\r\n")).value()
		if err != nil || v.String() != want || string(v.Raw) != raw {
			t.Errorf("%.40q: %v, %.40q, %.40q; want %.40q", raw, err, v.String(), v.Raw, want)
		}
	}
}

func TestWhatIsNoRESPIsRefused(t *testing.T) {
	for _, raw := range []string{
		"GET a\r\n", "\r\n", "+OK\n", "$x\r\n", "$-2\r\n", "$99999999999\r\n", "$3\r\nabcde", "*1048577\r\n", "$1\r\nabc",
		strings.Repeat("*1\r\n", 100), "+" + strings.Repeat("x", 1<<20),
	} {
		if v, err := newReader(strings.NewReader(raw)).value(); !errors.Is(err, errProtocol) {
			t.Errorf("%.40q: %v, %v", raw, v, err)
		}
	}
	for _, raw := range []string{"$5\r\nab", "*2\r\n:1\r\n"} {
		if _, err := newReader(strings.NewReader(raw)).value(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

// FuzzValue: whatever comes, reading ends, keeps the bytes it took, and takes the same from them again.
func FuzzValue(f *testing.F) {
	for _, raw := range []string{"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", "%1\r\n+a\r\n_\r\n", "$-1\r\n", ">1\r\n:1\r\n"} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := newReader(bytes.NewReader(raw)).value()
		if !bytes.HasPrefix(raw, v.Raw) {
			t.Fatalf("kept %q of %q", v.Raw, raw)
		}
		if err != nil {
			return
		}
		again, err := newReader(bytes.NewReader(v.Raw)).value()
		if err != nil || !reflect.DeepEqual(again, v) {
			t.Fatalf("%q: %v, then %v, %v", raw, v, again, err)
		}
	})
}
