package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
)

// WriteJSON writes v indented, fields in the order of the struct, with a newline at the end. Nothing is written of a
// value that JSON cannot hold, such as NaN.
func WriteJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := encoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode as JSON: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// WriteJSONLine writes v on one line, for results that come one by one.
func WriteJSONLine(w io.Writer, v any) error {
	var b bytes.Buffer
	if err := encoder(&b).Encode(v); err != nil {
		return fmt.Errorf("encode as JSON: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// CSV writes records one by one under a header of their JSON names. It flushes each, so that what was written is
// there when the program is stopped. Null is an empty field; text is escaped as in a table.
type CSV struct {
	w      *csv.Writer
	header bool
}

// NewCSV returns a CSV that writes to w.
func NewCSV(w io.Writer) *CSV { return &CSV{w: csv.NewWriter(w)} }

// Write writes one struct. All records of a CSV have the same type, and none of its fields is left out when empty.
func (c *CSV) Write(record any) error {
	names, values, err := fields(record)
	if err != nil {
		return fmt.Errorf("encode as CSV: %w", err)
	}
	if !c.header {
		c.header = true
		if err := c.w.Write(names); err != nil {
			return err
		}
	}
	if err := c.w.Write(values); err != nil {
		return err
	}
	c.w.Flush()
	return c.w.Error()
}

// fields goes through JSON, so that a column has the name, the order and the value of the JSON field.
func fields(record any) (names, values []string, err error) {
	raw, err := json.Marshal(record)
	if err != nil {
		return nil, nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, err
		}
		names = append(names, fmt.Sprint(name))
		values = append(values, field(value))
	}
	return names, values, nil
}

func field(raw json.RawMessage) string {
	var text *string
	if err := json.Unmarshal(raw, &text); err != nil {
		return string(raw)
	}
	if text == nil {
		return ""
	}
	return Escape(*text)
}
