package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// pollEvery is how often Redis is asked whether it answers.
const pollEvery = time.Second

// answers is the state of a Redis that does; else the state is the class of the error.
const answers = "answers"

// health knows whether Redis answered when it was last asked.
type health struct {
	limiter limiter.Limiter
	timeout time.Duration
	log     *slog.Logger
	why     func(error) string
	last    atomic.Pointer[state]
}

type state struct {
	redis string
	why   string // what Redis or the network said, for the log
	at    time.Time
}

func newHealth(l limiter.Limiter, p Plan) *health {
	h := &health{limiter: l, timeout: p.Policy.Timeout, log: p.Log, why: p.why}
	h.last.Store(&state{redis: "not asked yet", at: time.Now()})
	return h
}

// poll asks once a second until ctx is done.
func (h *health) poll(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		h.ask(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ask peeks, which writes nothing, and logs when the answer is another than before, and why: it concerns no client, so
// what Redis or the network said gives nobody away.
func (h *health) ask(ctx context.Context) {
	timed, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	_, err := h.limiter.Check(timed, "rlctl-healthz", 0)
	if ctx.Err() != nil {
		return
	}
	now := &state{redis: answers, at: time.Now()}
	if err != nil {
		now.redis, now.why = class(err), h.why(err)
	}
	defer h.last.Store(now) // what is shown stands in the log by then
	switch before := h.last.Load(); {
	case now.redis == before.redis && now.why == before.why:
	case err == nil:
		h.log.Info("redis answers")
	default:
		h.log.Warn("redis does not answer as it must", "class", now.redis, "error", now.why)
	}
}

func class(err error) string {
	var e *limiter.Error
	if errors.As(err, &e) {
		return string(e.Class)
	}
	return string(limiter.ClassOther)
}

// ServeHTTP says that this process is alive, and what it knows of Redis.
func (h *health) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	last := h.last.Load()
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, struct {
		Schema string `json:"schema"`
		Alive  bool   `json:"alive"`
		Redis  string `json:"redis"`        // answers, or the class of the error
		AgeMS  int64  `json:"redis_age_ms"` // since it was asked
	}{"rlctl.health/v1", true, last.redis, time.Since(last.at).Milliseconds()})
}
