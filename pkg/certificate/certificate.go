// Package certificate is the proof that a limiter broke its rule, small enough to be checked by hand: more admissions in
// a stretch of time than the rule admits in it, each with the time, or the span of time, in which it was made.
//
// Check shares nothing with what found the violation: neither the search nor the rules' models, but the rules again, in
// the plainest arithmetic. What it gives up: whether the calls were made at all only the history can tell, and the seed
// and the command are what lead to another. The digest finds a number that was changed, also one on which the proof does
// not rest; who means to deceive can make another.
package certificate

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
)

// Schema names the form of a certificate.
const Schema = "rlctl.certificate/v1"

// Certificate is one broken limit. Times are of the server's clock, in µs since 1970, both ends included.
type Certificate struct {
	Schema     string      `json:"schema"`  // rlctl.certificate/v1
	Limiter    string      `json:"limiter"` // that broke the rule
	Rule       string      `json:"rule"`    // whose it is: the name of an atomic limiter
	Key        string      `json:"key"`
	Limit      int64       `json:"limit"`
	WindowUS   int64       `json:"window_us"`
	Burst      int64       `json:"burst"` // capacity of a bucket; of other rules the limit
	FromUS     int64       `json:"from_us"`
	ToUS       int64       `json:"to_us"`
	Most       int64       `json:"most"`     // events that the rule admits in that time
	Admitted   int64       `json:"admitted"` // events that were
	Admissions []Admission `json:"admissions"`
	Seed       string      `json:"seed"`
	Command    string      `json:"command"` // that makes such a run again
	Digest     string      `json:"digest"`  // SHA-256 of the certificate with an empty digest, in hexadecimal
}

// Admission is one call that was told it may.
type Admission struct {
	Proc     int   `json:"proc"`
	Client   int   `json:"client"`
	Seq      int64 `json:"seq"`
	Cost     int64 `json:"cost"`
	CallNS   int64 `json:"call_ns"` // of CLOCK_MONOTONIC
	ReturnNS int64 `json:"return_ns"`
	FromUS   int64 `json:"from_us"` // the server's time; a span, as long as the call, where the limiter does not tell it
	ToUS     int64 `json:"to_us"`
}

// Read reads one certificate, without checking it.
func Read(r io.Reader) (Certificate, error) {
	var c Certificate
	in := json.NewDecoder(r)
	in.DisallowUnknownFields()
	if err := in.Decode(&c); err != nil {
		return c, fmt.Errorf("read a certificate: %w", err)
	}
	if c.Schema != Schema {
		return c, fmt.Errorf("read a certificate: has the schema %q, want %s", c.Schema, Schema)
	}
	return c, nil
}

// Sealed is the certificate with its digest.
func (c Certificate) Sealed() Certificate {
	c.Digest = ""
	text, _ := json.Marshal(c) // numbers and text, which have no error
	c.Digest = fmt.Sprintf("%x", sha256.Sum256(text))
	return c
}

// Check returns nil if the certificate proves what it says, else why it does not.
func (c Certificate) Check() error {
	most, err := c.most()
	switch {
	case err != nil:
		return err
	case most.Cmp(big.NewInt(c.Most)) != 0:
		return fmt.Errorf("%s admits %s events from %d to %d, and not %d", c.Rule, most, c.FromUS, c.ToUS, c.Most)
	case c.Sealed().Digest != c.Digest:
		return errors.New("it was changed: its digest is that of another")
	}
	sum := new(big.Int)
	calls := map[[3]int64]bool{}
	ended := map[[2]int64]map[int64]int64{}
	for i, a := range c.Admissions {
		if err := c.admission(a); err != nil {
			return fmt.Errorf("admission %d: %w", i+1, err)
		}
		call := [3]int64{int64(a.Proc), int64(a.Client), a.Seq}
		if calls[call] {
			return fmt.Errorf("admission %d: process %d client %d call %d is there twice", i+1, a.Proc, a.Client, a.Seq)
		}
		calls[call] = true
		client := [2]int64{int64(a.Proc), int64(a.Client)}
		if ended[client] == nil {
			ended[client] = map[int64]int64{}
		}
		ended[client][a.CallNS] = a.ReturnNS
		sum.Add(sum, big.NewInt(a.Cost))
	}
	switch {
	case sum.Cmp(big.NewInt(c.Admitted)) != 0:
		return fmt.Errorf("the admissions are %s events, and not %d", sum, c.Admitted)
	case sum.Cmp(most) <= 0:
		return fmt.Errorf("%s events were admitted, and %s admits %s", sum, c.Rule, most)
	}
	return inTurn(ended)
}

// admission checks one by itself.
func (c Certificate) admission(a Admission) error {
	switch {
	case a.Cost < 1:
		return fmt.Errorf("takes %d events", a.Cost)
	case a.FromUS > a.ToUS || a.CallNS > a.ReturnNS:
		return errors.New("ends before it begins")
	case a.FromUS < c.FromUS || a.ToUS > c.ToUS:
		return fmt.Errorf("lies from %d to %d, outside the interval", a.FromUS, a.ToUS)
	case a.FromUS != a.ToUS && (a.ToUS-a.FromUS+1)*1000 < (a.ReturnNS-a.CallNS)/1000*999:
		return errors.New("its span is shorter than its call")
	}
	return nil
}

// inTurn checks that no client made two calls at once.
func inTurn(ended map[[2]int64]map[int64]int64) error {
	for client, calls := range ended {
		for call, ret := range calls {
			for other := range calls {
				if other > call && other < ret {
					return fmt.Errorf("process %d client %d made two calls at once", client[0], client[1])
				}
			}
		}
	}
	return nil
}

// most is what the rule admits from FromUS to ToUS, whatever was before.
func (c Certificate) most() (*big.Int, error) {
	l, w, passed := big.NewInt(c.Limit), c.WindowUS, c.ToUS-c.FromUS
	if c.Limit < 0 || w < 1 || passed < 0 || c.FromUS < 0 {
		return nil, errors.New("wants a limit of 0 or more, a window of 1 µs or more, and an interval")
	}
	switch c.Rule {
	case "sliding-log", "compact-log": // L whenever a window has passed
		return l.Mul(l, big.NewInt(passed/w+1)), nil
	case "fixed-window": // L in each aligned window that has an instant in the interval
		return l.Mul(l, big.NewInt(c.ToUS/w-c.FromUS/w+1)), nil
	case "token-bucket", "gcra": // a full bucket and what flows in
		refilled := l.Mul(l, big.NewInt(passed))
		return refilled.Div(refilled, big.NewInt(w)).Add(refilled, big.NewInt(c.Burst)), nil
	case "sliding-counter":
		return c.counted()
	}
	return nil, fmt.Errorf("knows no rule %q", c.Rule)
}

// mostWindows bounds the windows that are gone through one by one.
const mostWindows = 10_000_000

// counted fills each window as late as it can be.
func (c Certificate) counted() (*big.Int, error) {
	windows := c.ToUS/c.WindowUS - c.FromUS/c.WindowUS + 1
	if windows > mostWindows {
		return nil, fmt.Errorf("spans %d windows, which are too many to go through", windows)
	}
	sum, before, w := new(big.Int), int64(0), big.NewInt(c.WindowUS)
	for i := range windows {
		since := c.WindowUS - 1
		if i == windows-1 {
			since = c.ToUS % c.WindowUS
		}
		faded := new(big.Int).Mul(big.NewInt(before), big.NewInt(since))
		weight := before - faded.Div(faded, w).Int64()
		before = max(0, c.Limit-weight)
		sum.Add(sum, big.NewInt(before))
	}
	return sum, nil
}
