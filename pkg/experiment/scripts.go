package experiment

import (
	"context"
	"slices"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/report"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/scripts"
)

// ScriptAction is what is done with the scripts on every node of a server.
type ScriptAction string

// The actions. List and verify do the same; only who looks at the result differs.
const (
	LoadScripts   ScriptAction = "load"
	FlushScripts  ScriptAction = "flush"
	ListScripts   ScriptAction = "list"
	VerifyScripts ScriptAction = "verify"
)

// ScriptsResult is what an action found or did.
type ScriptsResult struct {
	Schema   string         `json:"schema"`
	Action   ScriptAction   `json:"action"`
	Redis    string         `json:"redis"`    // where the server is, without secrets
	Complete bool           `json:"complete"` // every node has every script
	Results  []ScriptRecord `json:"results"`
}

// ScriptRecord is one script on one node.
type ScriptRecord struct {
	Script  string `json:"script"`
	SHA1    string `json:"sha1"`
	Node    string `json:"node"`
	Present bool   `json:"present"` // the node has it after the action
}

// Run acts on every node of the server at conn.
func (a ScriptAction) Run(ctx context.Context, conn target.Conn) (*ScriptsResult, error) {
	rdb, closed, err := open(ctx, conn)
	if err != nil {
		return nil, err
	}
	defer closed()
	r := &ScriptsResult{Schema: "rlctl.script/v1", Action: a, Redis: conn.String()}
	nodes, err := target.Nodes(ctx, rdb)
	for _, node := range nodes {
		var records []ScriptRecord
		if err == nil {
			records, err = a.on(ctx, node)
		}
		r.Results = append(r.Results, records...)
	}
	if err != nil {
		return nil, uncounted(limiter.Classify("script "+string(a), err, false))
	}
	r.Complete = !slices.ContainsFunc(r.Results, ScriptRecord.missing)
	return r, nil
}

func (a ScriptAction) on(ctx context.Context, node target.Node) ([]ScriptRecord, error) {
	switch a {
	case LoadScripts:
		return loadScripts(ctx, node)
	case FlushScripts:
		if err := node.ScriptFlush(ctx).Err(); err != nil {
			return nil, err
		}
	}
	return present(ctx, node)
}

func loadScripts(ctx context.Context, node target.Node) ([]ScriptRecord, error) {
	records := embedded(node)
	for i, r := range records {
		source, _ := scripts.Source(r.Script)
		sha, err := node.ScriptLoad(ctx, source).Result()
		if err != nil {
			return nil, err
		}
		records[i].SHA1, records[i].Present = sha, true
	}
	return records, nil
}

// present asks which of the scripts the node has.
func present(ctx context.Context, node target.Node) ([]ScriptRecord, error) {
	records := embedded(node)
	shas := make([]string, len(records))
	for i, r := range records {
		shas[i] = r.SHA1
	}
	has, err := node.ScriptExists(ctx, shas...).Result()
	if err != nil {
		return nil, err
	}
	for i := range records {
		records[i].Present = i < len(has) && has[i]
	}
	return records, nil
}

// embedded lists the scripts of this binary as absent from a node.
func embedded(node target.Node) []ScriptRecord {
	var records []ScriptRecord
	for _, name := range scripts.Names() {
		source, _ := scripts.Source(name)
		records = append(records, ScriptRecord{Script: name, SHA1: scripts.SHA1(source), Node: node.Addr})
	}
	return records
}

func (r ScriptRecord) missing() bool { return !r.Present }

// Document shows the records, and the node of each where there are several. Of a flush it says only that it was done.
func (r *ScriptsResult) Document() report.Document {
	d := report.Document{Data: r}
	missing := int64(0)
	for _, record := range r.Results {
		d.Records = append(d.Records, record)
		if record.missing() {
			missing++
		}
	}
	if r.Action == FlushScripts {
		d.Head = []report.Line{report.Text("flushed the script cache of redis at %s", r.Redis)}
		return d
	}
	d.Head, d.Table = []report.Line{report.Text("redis at %s", r.Redis)}, r.table()
	if missing > 0 {
		d.Foot = []report.Line{
			{report.Plain(report.Count(missing, "script is", "scripts are") + " missing    "), report.Typed("next: rlctl script load")},
		}
	}
	return d
}

func (r *ScriptsResult) table() (t report.Table) {
	several := slices.ContainsFunc(r.Results, func(s ScriptRecord) bool { return s.Node != r.Results[0].Node })
	t.Columns = []report.Column{{Title: "SCRIPT"}, {Title: "SHA1"}, {Title: "ON SERVER"}}
	if several {
		t.Columns = []report.Column{{Title: "SCRIPT"}, {Title: "SHA1"}, {Title: "HAS"}, {Title: "NODE"}}
	}
	for _, s := range r.Results {
		has := report.Cell{Text: "yes", Tone: report.Good}
		if s.missing() {
			has = report.Cell{Text: "no", Tone: report.Bad}
		}
		row := []report.Cell{report.Plain(s.Script), report.Plain(s.SHA1), has, report.Plain(s.Node)}
		t.Add(row[:len(t.Columns)]...)
	}
	return t
}
