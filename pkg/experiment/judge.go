package experiment

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/rlctl/rlctl/pkg/certificate"
	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
)

// JudgeSchema names the form of a JudgeResult.
const JudgeSchema = "rlctl.judge/v1"

// Judge is the plan of judging histories from a file.
type Judge struct {
	Limiter string         // by whose rule; empty: what each history says
	Limit   *limiter.Limit // of every call; nil: what each call says
}

// JudgeResult is what histories came to.
type JudgeResult struct {
	Schema  string         `json:"schema"` // rlctl.judge/v1
	Results []JudgeRow     `json:"results"`
	Verdict replay.Verdict `json:"verdict"`
}

// JudgeRow is one key of one history.
type JudgeRow struct {
	Limiter string `json:"limiter"`
	Key     string `json:"key"`
	StressCounts
	Verdict replay.Verdict `json:"verdict"`
	Reason  string         `json:"reason"`

	proof *certificate.Certificate
}

// maxHistory bounds what is read, in bytes: some ten million calls.
const maxHistory = 4 << 30

// Run reads histories and judges each key by itself, or reads a certificate and checks it. Its errors are of what was
// read.
func (p Judge) Run(env Env, r io.Reader) (*JudgeResult, error) {
	in := bufio.NewReader(io.LimitReader(r, maxHistory))
	if head, _ := in.Peek(200); bytes.Contains(head, []byte(certificate.Schema)) {
		c, err := certificate.Read(in)
		if err != nil {
			return nil, err
		}
		return checked(c), nil
	}
	all, err := history.Read(in)
	if err != nil {
		return nil, err
	}
	result := &JudgeResult{Schema: JudgeSchema, Results: []JudgeRow{}}
	for _, h := range all {
		if p.Limiter != "" {
			h.Limiter = p.Limiter
		}
		if h.Limiter == "" {
			return nil, errors.New("--limiter: the history does not say by whose rule it is to be judged")
		}
		e, err := target.Find(env.Catalogue, h.Limiter)
		if err != nil {
			return nil, fmt.Errorf("--limiter: %w", err)
		}
		rows, err := p.history(e, h)
		if err != nil {
			return nil, err
		}
		result.Results = append(result.Results, rows...)
	}
	if len(result.Results) == 0 {
		return nil, errors.New("the history holds no calls")
	}
	result.Verdict = result.overall()
	return result, nil
}

// history judges one history.
func (p Judge) history(e target.Entry, h history.History) (rows []JudgeRow, err error) {
	for i := range h.Ops {
		if p.Limit != nil {
			h.Ops[i].Request.Limit = *p.Limit
		}
		if _, err := e.New(nil, h.Ops[i].Request.Limit); err != nil {
			return nil, fmt.Errorf("a call of process %d client %d: %w", h.Ops[i].Proc, h.Ops[i].Client, err)
		}
	}
	of := byKey(h.Ops)
	for _, key := range slices.Sorted(maps.Keys(of)) {
		row := JudgeRow{Limiter: e.Name, Key: key}
		j, lost := judgeKey(of[key], e, replay.Course{Readings: h.Readings, Steps: h.Steps}, h.Faults, key)
		row.StressCounts.add(j)
		row.Lost = lost
		row.AtOnce = atOnce(of[key])
		row.Verdict, row.Reason = j.Verdict, j.Reason
		row.proof = certify(e, key, j.Worst, h.Seed, h.Command)
		rows = append(rows, row)
	}
	return rows, nil
}

// overall is broken if any key is, held if all are.
func (r *JudgeResult) overall() replay.Verdict {
	verdict := replay.Held
	for _, row := range r.Results {
		switch row.Verdict {
		case replay.Broken:
			return replay.Broken
		case replay.Inconclusive:
			verdict = replay.Inconclusive
		}
	}
	if len(r.Results) == 0 {
		return replay.Inconclusive
	}
	return verdict
}

// Document shows a row a key.
func (r *JudgeResult) Document() report.Document {
	d := report.Document{Data: r, Table: report.Table{Columns: []report.Column{
		{Title: "LIMITER"}, {Title: "KEY", Wrap: 24}, {Title: "OPS", Right: true}, {Title: "DENIED", Right: true}, {Title: "UNKNOWN", Right: true},
		{Title: "SETTLED", Right: true, Wide: true}, {Title: "OVER", Right: true}, {Title: "VERDICT", Wrap: 24},
	}}}
	held := int64(0)
	for _, row := range r.Results {
		if row.Verdict == replay.Held {
			held++
		}
		d.Table.Add(report.Plain(row.Limiter), report.Plain(row.Key), number(row.Ops), number(row.Denied), number(row.Unknown),
			number(row.Settled), difference(row.Overshoot), judgedCell(row.Verdict, row.Reason))
		d.Records = append(d.Records, row)
	}
	all := int64(len(r.Results))
	d.Head = []report.Line{{{Text: fmt.Sprintf("%d of %s held", held, report.Count(all, "key", "keys")), Tone: tone(held == all && all > 0)}}}
	return d
}

func judgedCell(v replay.Verdict, reason string) report.Cell {
	switch v {
	case replay.Held:
		return report.Cell{Text: "held   " + reason, Tone: report.Good}
	case replay.Broken:
		return report.Cell{Text: "BROKEN: " + reason, Tone: report.Bad}
	}
	return report.Cell{Text: "inconclusive: " + reason, Tone: report.Warn}
}
