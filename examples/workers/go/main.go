// A worker for rlctl in Go: this module's own library behind the protocol of docs/worker.md.
//
//	go build -o /tmp/worker ./examples/workers/go
//	rlctl race exec:/tmp/worker sliding-log --procs 20 --limit 100
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

type line struct {
	Open *struct {
		Redis           string
		Limiter, Prefix string
		Limit, Burst    int64
		WindowUS        int64 `json:"window_us"`
		TimeoutMS       int64 `json:"timeout_ms"`
	}
	ID, Cost     int64
	Key, Request string
}

func main() {
	var l limiter.Identified
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var asked line
		if err := json.Unmarshal(in.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if asked.Open != nil {
			l = open(asked)
			fmt.Println(`{"ready":true,"protocol":"rlctl.worker/v1"}`)
			continue
		}
		go func() { say(answer(asked.ID)(l.CheckID(context.Background(), asked.Key, asked.Cost, asked.Request))) }()
	}
}

func open(asked line) limiter.Identified {
	o := asked.Open
	at, err := redis.ParseURL(o.Redis)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	at.MaxRetries, at.ReadTimeout = -1, time.Duration(o.TimeoutMS)*time.Millisecond
	if o.TimeoutMS == 0 {
		at.ReadTimeout = -1
	}
	limit := limiter.Limit{Events: o.Limit, Window: time.Duration(o.WindowUS) * time.Microsecond, Burst: o.Burst}
	l, err := limiter.New(redis.NewClient(at), o.Limiter, limit, limiter.WithPrefix(o.Prefix))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return l.(limiter.Identified)
}

func answer(id int64) func(d limiter.Decision, err error) any {
	return func(d limiter.Decision, err error) any {
		if err != nil {
			return map[string]any{"id": id, "error": err.Error(), "counted": limiter.Counted(err)}
		}
		retry := d.RetryAfter.Microseconds()
		if d.RetryAfter == limiter.Never {
			retry = -1
		}
		return map[string]any{
			"id": id, "allowed": d.Allowed, "remaining": d.Remaining, "retry_after_us": retry,
			"reset_after_us": d.ResetAfter.Microseconds(), "now_us": d.At.UnixMicro(),
		}
	}
}

func say(v any) {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = os.Stdout.Write(append(text, '\n'))
	}
	if err != nil {
		os.Exit(1)
	}
}
