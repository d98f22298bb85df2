package history

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestHistoriesSurviveTheirFile(t *testing.T) {
	op := Op{Client: 1, Seq: 2, Key: `"schema"`, Call: 3, Return: 4, Until: 5, Outcome: Unknown, Class: ClassDied}
	want := []History{
		{Head{Schema: Schema, Limiter: "gcra", Seed: "ff", Command: "rlctl", Steps: []Step{{1, 2}}, Faults: []Fault{{"failover", 1, 2, []string{"k"}}},
			Readings: []Reading{{time.UnixMicro(7), 1, 2}}}, []Op{op, op}},
		{Head{Schema: Schema, Limiter: "sliding-log"}, []Op{op}},
	}
	var file bytes.Buffer
	for _, h := range want {
		if err := Write(&file, h); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(&file)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v: %v", got, want, err)
	}
}

func TestAHistoryFromElsewhereNeedsNoHead(t *testing.T) {
	got, err := Read(strings.NewReader(`{"outcome":"unknown","key":"a"}` + "\n\n" + `{"outcome":"failed","key":"b"}`))
	if err != nil || len(got) != 1 || len(got[0].Ops) != 2 || got[0].Limiter != "" {
		t.Errorf("%+v: %v", got, err)
	}
}

func TestWhatIsNoHistoryNamesItsLine(t *testing.T) {
	for text, line := range map[string]string{
		"{}\n": "line 1", `{"outcome":"unknown"}` + "\nrubbish": "line 2", `{"schema":"rlctl.history/v2"}`: "line 1",
		"\n" + `{"outcome":"decided"}`: "line 2",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
