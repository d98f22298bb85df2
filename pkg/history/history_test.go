package history

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/model"
)

func TestOpsSurviveJSON(t *testing.T) {
	op := Op{Proc: 1, Client: 2, Seq: 3, Key: "k\x00\n}", Call: 5, Return: 9, Outcome: Decided,
		Request: model.Request{Limit: limiter.Limit{Events: 7, Window: time.Minute, Burst: 9}, Cost: 2, ID: "id"},
		Decision: limiter.Decision{Allowed: true, Remaining: 4, ResetAfter: 3 * time.Microsecond,
			At: time.UnixMicro(1_700_000_000_000_001)}}
	denied, failed, open := op, op, op
	denied.Decision = limiter.Decision{RetryAfter: limiter.Never}
	failed.Outcome, failed.Class, failed.Decision = Failed, limiter.ClassOOM, limiter.Decision{}
	open.Outcome, open.Return, open.Decision = Open, 0, limiter.Decision{}
	for _, want := range []Op{op, denied, failed, open} {
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Op
		if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n got %+v\nwant %+v: %v", text, got, want, err)
		}
	}
}

func FuzzOp(f *testing.F) {
	f.Add([]byte(`{"outcome":"decided"}`))
	f.Add([]byte(`{"outcome":"unknown","class":"died"}`))
	f.Add([]byte(`{"outcome":"decided","decision":{"retry_after_us":-1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var op, again Op
		if json.Unmarshal(text, &op) != nil {
			return
		}
		out, err := json.Marshal(op)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &again); err != nil || !reflect.DeepEqual(op, again) {
			t.Errorf("%+v came back as %+v: %v", op, again, err)
		}
	})
}

func TestRubbishIsRefused(t *testing.T) {
	for _, text := range []string{`{}`, `{"outcome":"maybe"}`, `{"outcome":"decided"}`, `[]`, `{"outcome":"failed","proc":"x"}`} {
		if err := json.Unmarshal([]byte(text), new(Op)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

func TestRecordWritesBeginAndEnd(t *testing.T) {
	errs := []error{nil, &limiter.Error{Class: limiter.ClassOOM}, &limiter.Error{Class: limiter.ClassNoAnswer, Unknown: true}, errors.New("?")}
	wantOutcome := []Outcome{Decided, Failed, Unknown, Unknown}
	wantClass := []limiter.Class{"", limiter.ClassOOM, limiter.ClassNoAnswer, limiter.ClassOther}
	var ops []Op
	i := 0
	next := limiter.Func(func(context.Context, string, int64) (limiter.Decision, error) {
		if last := ops[len(ops)-1]; last.Outcome != Open || last.Call == 0 {
			t.Errorf("call %d was sent before it was written: %+v", i, last)
		}
		i++
		return limiter.Decision{Remaining: 5}, errs[i-1]
	})
	l := Record(next, Op{Proc: 3, Request: model.Request{ID: "p"}}, func(op Op) { ops = append(ops, op) })
	for range errs {
		l.Check(t.Context(), "key", 2)
	}
	if len(ops) != 2*len(errs) {
		t.Fatalf("%d ops of %d calls", len(ops), len(errs))
	}
	for i := range errs {
		begin, end := ops[2*i], ops[2*i+1]
		if end.Outcome != wantOutcome[i] || end.Class != wantClass[i] || end.Seq != int64(i+1) || begin.Seq != end.Seq ||
			end.Return < end.Call || end.Call < begin.Call || end.Proc != 3 || end.Key != "key" || end.Request.Cost != 2 {
			t.Errorf("call %d: %+v, then %+v", i, begin, end)
		}
	}
}

// identified keeps the ids it is given.
type identified struct{ ids []string }

func (l *identified) Check(context.Context, string, int64) (limiter.Decision, error) {
	return limiter.Decision{}, errors.New("asked without an id")
}

func (l *identified) CheckID(_ context.Context, _ string, _ int64, id string) (limiter.Decision, error) {
	l.ids = append(l.ids, id)
	return limiter.Decision{}, nil
}

func TestRecordGivesIDs(t *testing.T) {
	next := &identified{}
	l := Record(next, Op{Request: model.Request{ID: "seed-0-1"}}, func(Op) {})
	l.Check(t.Context(), "k", 1)
	l.Check(t.Context(), "k", 1)
	if want := []string{"seed-0-1-1", "seed-0-1-2"}; !reflect.DeepEqual(next.ids, want) {
		t.Errorf("got %v, want %v", next.ids, want)
	}
}
