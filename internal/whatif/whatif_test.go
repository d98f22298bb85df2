package main

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/rlctl/rlctl/internal/madelog"
	"github.com/rlctl/rlctl/pkg/accesslog"
	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
	"github.com/rlctl/rlctl/scripts"
)

// What replay says of a log is what a real Redis does with the same requests, refusal by refusal.
func TestReplayRefusesWhatRedisDoes(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	var requests []madelog.Request
	clients := map[string]bool{}
	n := 20_000
	if testing.Short() { // the race detector has seen all after a few
		n = 2000
	}
	p := plan(accesslog.JSON, n, 1)
	p.Late, p.Broken = 50, 50
	counts, err := p.Write(&text, func(r madelog.Request) { requests = append(requests, r); clients[r.Key] = true })
	if err != nil {
		t.Fatal(err)
	}
	fields := madelog.Fields(accesslog.JSON)
	said, err := experiment.Replay{
		Limiters: scripts.Limiters(), Limits: []limiter.Limit{tried()}, Log: fields, ShowKeys: true, Top: 1000,
	}.Run(t.Context(), experiment.Env{
		Catalogue: target.Catalogue(), Note: func(string) {}, Progress: func(int64, int64, string) {},
	}, bytes.NewReader(text.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	server := redisdtest.Start(t, redisd.Options{Clock: true})
	refusals, err := refusedBy(t.Context(), []*redisd.Server{server}, scripts.Limiters(), tried(), requests)
	if err != nil {
		t.Fatal(err)
	}
	put := experiment.Put{Requests: counts.Requests, Unsorted: counts.Late, Broken: counts.Broken, Clients: int64(len(clients))}
	check := func() *experiment.ReplayCheck {
		return experiment.NewReplayCheck(experiment.Provenance{}, experiment.Server{}, put, said, refusals, nil, time.Second)
	}
	c := check()
	if c.Verdict != replay.Held || len(c.Results) != len(scripts.Limiters()) {
		t.Errorf("%+v", c)
	}
	for _, row := range c.Results {
		if row.Refused < int64(n)/40 || row.Refused > int64(n)*3/4 || row.ClientsRefused < 4 {
			t.Errorf("too few or too many are refused to tell: %+v", row)
		}
	}
	said.Results[2].Refused++
	if c := check(); c.Verdict != replay.Broken || c.Results[2].Verdict != replay.Broken || c.Results[1].Verdict != replay.Held {
		t.Errorf("one refusal too many is not seen: %+v", c)
	}
	said.Results[2].Refused--
	said.Over.Refused[3][0]++
	if c := check(); c.Results[3].Verdict != replay.Broken {
		t.Errorf("a refusal at another time is not seen: %+v", c)
	}
	said.Over.Refused[3][0]--
	client := said.Most[0].Client
	refusals["gcra"].Of[client]++
	if c := check(); c.Verdict != replay.Broken || c.Results[2].ClientsApart != 1 {
		t.Errorf("a refusal of another client is not seen: %+v", c)
	}
	refusals["gcra"].Of[client]--
	put.Broken++
	if c := check(); c.Verdict != replay.Broken || len(c.Faults) != 1 {
		t.Errorf("a broken line that was read is not seen: %+v", c)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"log"}, {"log", "xml", "1", "1"}, {"log", "json", "0", "1"}, {"log", "json", "1", "x"}, {"what"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%v: accepted", args)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"log", "csv", "10", "0x1"}, &out); err != nil || bytes.Count(out.Bytes(), []byte("\n")) < 11 {
		t.Errorf("%v: %s", err, &out)
	}
}
