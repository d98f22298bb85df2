package experiment

import (
	"github.com/rlctl/rlctl/pkg/certificate"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
)

// certify makes the certificate of an interval in which a limiter broke its rule; nil if there is none, as by a rule of
// how many at once: that nobody gave back in between is nothing that a list of admissions shows.
func certify(e target.Entry, key string, worst *replay.Interval, seed, command string) *certificate.Certificate {
	if worst == nil {
		return nil
	}
	limit := worst.In[0].Request.Limit
	c := &certificate.Certificate{
		Schema: certificate.Schema, Limiter: e.Name, Rule: e.Twin, Key: key, Limit: limit.Events,
		WindowUS: limit.Window.Microseconds(), Burst: limit.Capacity(), FromUS: worst.From.UnixMicro(), ToUS: worst.To.UnixMicro(),
		Most: e.Rule.Most(limit, worst.From, worst.To), Seed: seed, Command: command,
	}
	if e.Own() {
		c.Rule = e.Name
	}
	for _, a := range worst.In {
		c.Admitted += a.Request.Cost
		c.Admissions = append(c.Admissions, certificate.Admission{
			Proc: a.Proc, Client: a.Client, Seq: a.Seq, Cost: a.Request.Cost, CallNS: a.Call, ReturnNS: a.Return,
			FromUS: a.From.UnixMicro(), ToUS: a.To.UnixMicro(),
		})
	}
	sealed := c.Sealed()
	return &sealed
}

// Certificate is that of the first limiter that went over its limit; nil if none did.
func (r *ProveResult) Certificate() *certificate.Certificate {
	for _, row := range r.Results {
		if row.proof != nil {
			return row.proof
		}
	}
	return nil
}

// Certificate is that of the first key on which a limiter went over its limit; nil if there is none.
func (r *JudgeResult) Certificate() *certificate.Certificate {
	for _, row := range r.Results {
		if row.proof != nil {
			return row.proof
		}
	}
	return nil
}

// checked is the judgement of a certificate: broken if it proves that, and inconclusive if it proves nothing.
func checked(c certificate.Certificate) *JudgeResult {
	row := JudgeRow{Limiter: c.Limiter, Key: c.Key, Verdict: replay.Broken, Reason: "the certificate proves it"}
	row.Allowed, row.Ops, row.Overshoot = int64(len(c.Admissions)), int64(len(c.Admissions)), c.Admitted-c.Most
	if err := c.Check(); err != nil {
		row.StressCounts = StressCounts{}
		row.Verdict, row.Reason = replay.Inconclusive, "the certificate is rejected: "+err.Error()
	}
	return &JudgeResult{Schema: JudgeSchema, Results: []JudgeRow{row}, Verdict: row.Verdict}
}
