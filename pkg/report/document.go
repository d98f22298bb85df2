// Package report shows results: to a person as a table or Markdown, to a program as JSON or CSV.
//
// A command fills one Document and writes it once. A person's form is built of cells whose text is escaped here, so
// that no control character a user or a server sent reaches the terminal; a program's form is made from the result
// struct itself, so that JSON and CSV cannot disagree about a field. The package knows nothing of limiters.
package report

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Format is a way to show a result.
type Format string

// The formats of --format.
const (
	TableFormat    Format = "table"
	MarkdownFormat Format = "markdown"
	JSONFormat     Format = "json"
	CSVFormat      Format = "csv"
)

// BenchfmtFormat is the text of Go's benchmarks, for results that have it: benchstat reads it.
const BenchfmtFormat Format = "benchfmt"

// Formats lists the formats in the order of the help text.
func Formats() []string {
	return []string{string(TableFormat), string(MarkdownFormat), string(JSONFormat), string(CSVFormat)}
}

// Line is one line of text, made of cells that are written one after the other.
type Line []Cell

// Text is a line of plain text.
func Text(format string, args ...any) Line { return Line{Plain(fmt.Sprintf(format, args...))} }

// Document is one result in all its forms.
type Document struct {
	Data    any        // JSON: a struct whose first field is its schema
	Records []any      // CSV: flat structs of one type
	Head    []Line     // for a person: the answer first,
	Table   Table      // the evidence under it,
	Bars    []Bars     // more evidence, on a terminal,
	Strips  Strips     // and over time,
	Foot    []Line     // and what to type next
	More    []Document // further parts for a person, who sees their head, table and foot
	Charts  []Chart
	Made    Line // what made it, for forms that travel without the result

	Benchfmt func(io.Writer) error // nil of a result without it
}

// Write shows the document. The style matters to a table only.
func (d Document) Write(w io.Writer, f Format, s Style) error {
	switch f {
	case JSONFormat:
		if d.Data == nil { // what several results show together is only drawn
			return nil
		}
		return WriteJSON(w, d.Data)
	case CSVFormat:
		return d.writeCSV(w)
	case MarkdownFormat:
		return d.writeMarkdown(w)
	case BenchfmtFormat:
		if d.Benchfmt == nil {
			return errors.New("this result has no benchmarks")
		}
		return d.Benchfmt(w)
	default:
		return d.writeText(w, s)
	}
}

func (d Document) writeCSV(w io.Writer) error {
	out := NewCSV(w)
	for _, r := range d.Records {
		if err := out.Write(r); err != nil {
			return err
		}
	}
	return nil
}

// writeText puts an empty line between the head and the table, and before each further part.
func (d Document) writeText(w io.Writer, s Style) error {
	body, err := d.Table.text(s)
	if err != nil {
		return fmt.Errorf("lay out the table: %w", err)
	}
	head := s.prose(d.Head)
	if head != "" && body != "" {
		head += "\n"
	}
	body += s.lines(barLines(d.Bars, s))
	if strips := s.lines(d.Strips.lines(s)); strips != "" {
		if body += strips; len(d.Foot) > 0 {
			body += "\n"
		}
	}
	if _, err = io.WriteString(w, head+body+s.prose(d.Foot)); err != nil {
		return err
	}
	for _, part := range d.More {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		if err := part.writeText(w, s); err != nil {
			return err
		}
	}
	return nil
}

// writeMarkdown makes each line a paragraph.
func (d Document) writeMarkdown(w io.Writer) error {
	body, err := d.Table.markdown()
	if err != nil {
		return fmt.Errorf("lay out the table: %w", err)
	}
	var parts []string
	for _, l := range d.Head {
		parts = append(parts, escapeMarkdown(Style{}.Line(l)))
	}
	for _, part := range []string{body, d.Strips.markdown()} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	for _, l := range d.Foot {
		parts = append(parts, escapeMarkdown(Style{}.Line(l)))
	}
	if _, err = io.WriteString(w, strings.Join(parts, "\n")); err != nil {
		return err
	}
	for _, part := range d.More {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		if err := part.writeMarkdown(w); err != nil {
			return err
		}
	}
	return nil
}
