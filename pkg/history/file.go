package history

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

// line is an Op as one line of JSON: units in the names, -1 for never.
type line struct {
	Proc     int           `json:"proc"`
	Client   int           `json:"client"`
	Seq      int64         `json:"seq"`
	Key      string        `json:"key"`
	ID       string        `json:"id,omitempty"`
	Limit    int64         `json:"limit"`
	WindowUS int64         `json:"window_us"`
	Burst    int64         `json:"burst,omitempty"`
	Cost     int64         `json:"cost"`
	Act      model.Act     `json:"act,omitempty"`
	CallNS   int64         `json:"call_ns"`
	ReturnNS int64         `json:"return_ns,omitempty"`
	UntilNS  int64         `json:"until_ns,omitempty"`
	Outcome  string        `json:"outcome"`
	Class    limiter.Class `json:"class,omitempty"`
	Decision *answer       `json:"decision,omitempty"`
}

// answer is a Decision.
type answer struct {
	Allowed      bool  `json:"allowed"`
	Remaining    int64 `json:"remaining"`
	RetryAfterUS int64 `json:"retry_after_us"`
	ResetAfterUS int64 `json:"reset_after_us"`
	ServerTimeUS int64 `json:"server_time_us,omitempty"`
	Degraded     bool  `json:"degraded,omitempty"`
}

var outcomes = [...]string{Open: "open", Decided: "decided", Failed: "failed", Unknown: "unknown"}

// String is the outcome's word in a history file.
func (o Outcome) String() string { return outcomes[o] }

// MarshalJSON writes the op as one object.
func (o Op) MarshalJSON() ([]byte, error) {
	l := line{
		Proc: o.Proc, Client: o.Client, Seq: o.Seq, Key: o.Key, ID: o.Request.ID,
		Limit: o.Request.Limit.Events, WindowUS: o.Request.Limit.Window.Microseconds(), Burst: o.Request.Limit.Burst,
		Cost: o.Request.Cost, Act: o.Request.Act, CallNS: o.Call, ReturnNS: o.Return, UntilNS: o.Until,
		Outcome: o.Outcome.String(), Class: o.Class,
	}
	if o.Outcome == Decided {
		d := o.Decision
		l.Decision = &answer{
			Allowed: d.Allowed, Remaining: d.Remaining, Degraded: d.Degraded,
			RetryAfterUS: micros(d.RetryAfter), ResetAfterUS: d.ResetAfter.Microseconds(),
		}
		if !d.At.IsZero() {
			l.Decision.ServerTimeUS = d.At.UnixMicro()
		}
	}
	return json.Marshal(l)
}

// UnmarshalJSON reads what MarshalJSON writes. An unknown outcome is an error.
func (o *Op) UnmarshalJSON(data []byte) error {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return fmt.Errorf("read a call: %w", err)
	}
	outcome, err := parseOutcome(l.Outcome)
	if err != nil {
		return err
	}
	*o = Op{
		Proc: l.Proc, Client: l.Client, Seq: l.Seq, Key: l.Key,
		Call: l.CallNS, Return: l.ReturnNS, Until: l.UntilNS, Outcome: outcome, Class: l.Class,
		Request: model.Request{
			Limit: limiter.Limit{Events: l.Limit, Window: time.Duration(l.WindowUS) * time.Microsecond, Burst: l.Burst},
			Cost:  l.Cost, ID: l.ID, Act: l.Act,
		},
	}
	if outcome == Decided {
		if l.Decision == nil {
			return fmt.Errorf("read a call: decided, but without a decision")
		}
		o.Decision = l.Decision.decision()
	}
	return nil
}

func (a answer) decision() limiter.Decision {
	d := limiter.Decision{
		Allowed: a.Allowed, Remaining: a.Remaining, Degraded: a.Degraded,
		RetryAfter: time.Duration(a.RetryAfterUS) * time.Microsecond,
		ResetAfter: time.Duration(a.ResetAfterUS) * time.Microsecond,
	}
	if a.RetryAfterUS < 0 {
		d.RetryAfter = limiter.Never
	}
	if a.ServerTimeUS != 0 {
		d.At = time.UnixMicro(a.ServerTimeUS)
	}
	return d
}

func parseOutcome(word string) (Outcome, error) {
	for o, w := range outcomes {
		if w == word {
			return Outcome(o), nil
		}
	}
	return 0, fmt.Errorf("read a call: outcome %q is none of open, decided, failed, unknown", word)
}

// micros keeps Never, which is no duration, at -1.
func micros(d time.Duration) int64 {
	if d == limiter.Never {
		return -1
	}
	return d.Microseconds()
}
