package experiment

import "github.com/rlctl/rlctl/pkg/replay"

// ZooSchema names the form of a ZooResult.
const ZooSchema = "rlctl.zoo/v1"

// ZooResult is what experiments said of limiters that were spoiled on purpose, one line each, and of sound ones: whether
// the checkers catch what they are there to catch, and accuse nobody else. The tests make it.
type ZooResult struct {
	Schema      string         `json:"schema"` // rlctl.zoo/v1
	Env         Provenance     `json:"env"`
	Redis       Server         `json:"redis"`
	Experiments []string       `json:"experiments"` // that every limiter went through, where they could judge it
	Results     []ZooRow       `json:"results"`
	Verdict     replay.Verdict `json:"verdict"` // held if every row came out as it must, else broken
	ElapsedUS   int64          `json:"elapsed_us"`
}

// ZooRow is one limiter.
type ZooRow struct {
	Limiter  string     `json:"limiter"`
	Of       string     `json:"of"`    // the limiter that it was made from; empty of a sound one
	Wrong    string     `json:"wrong"` // what is wrong with it
	By       []string   `json:"by"`    // experiments that must catch it
	Trials   []ZooTrial `json:"trials"`
	Expected bool       `json:"expected"` // what must catch it did; of a sound one, that it held in all
}

// ZooTrial is what one experiment said of one limiter.
type ZooTrial struct {
	Experiment string         `json:"experiment"`
	Verdict    replay.Verdict `json:"verdict"`
	How        string         `json:"how"` // it was caught, or why nothing can be said
	ElapsedUS  int64          `json:"elapsed_us"`
}

// NewZoo sums up what experiments said on such servers.
func NewZoo(made Provenance, at Server, experiments []string, rows []ZooRow) *ZooResult {
	r := &ZooResult{
		Schema: ZooSchema, Env: made.madeOn(at), Redis: at, Experiments: experiments, Results: rows, Verdict: replay.Held,
	}
	for i := range rows {
		row := &rows[i]
		row.Expected = row.asExpected()
		if !row.Expected {
			r.Verdict = replay.Broken
		}
		for _, t := range row.Trials {
			r.ElapsedUS += t.ElapsedUS
		}
	}
	return r
}

func (row ZooRow) asExpected() bool {
	if row.Of == "" {
		for _, t := range row.Trials {
			if t.Verdict != replay.Held {
				return false
			}
		}
		return len(row.Trials) > 0
	}
	for _, by := range row.By {
		if t := row.trial(by); t == nil || t.Verdict != replay.Broken {
			return false
		}
	}
	return len(row.By) > 0
}

// trial is what that experiment said; nil if it was not asked.
func (row ZooRow) trial(experiment string) *ZooTrial {
	for i := range row.Trials {
		if row.Trials[i].Experiment == experiment {
			return &row.Trials[i]
		}
	}
	return nil
}

// caught is the first of those that must and did catch it; nil if none did.
func (row ZooRow) caught() *ZooTrial {
	for _, by := range row.By {
		if t := row.trial(by); t != nil && t.Verdict == replay.Broken {
			return t
		}
	}
	return nil
}
