package hold

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// How long a slot is tried to be given back once everything else has ended.
const (
	giveBackTime = 5 * time.Second        // or the lease, if that is shorter, but at least for one answer
	lastWord     = 100 * time.Millisecond // after a signal, for an answer that is on its way
)

// giving is the time of giving a slot back: until it ends it is tried.
type giving struct {
	context.Context
	end   context.CancelCauseFunc
	most  time.Duration
	begun sync.Once
}

func (p Plan) newReturn() *giving {
	ctx, end := context.WithCancelCause(context.Background())
	return &giving{Context: ctx, end: end, most: max(p.Conn.Timeout, min(p.Lease, giveBackTime))}
}

// begin bounds the time, from now on, since nothing else is waited for.
func (g *giving) begin() {
	g.begun.Do(func() {
		time.AfterFunc(g.most, func() { g.end(fmt.Errorf("no answer within %v", g.most)) })
	})
}

// hurry is what a signal does.
func (g *giving) hurry(s os.Signal) {
	time.AfterFunc(lastWord, func() { g.end(errors.New(s.String())) })
}

// tellKept tells of a slot that could not be given back.
func (p Plan) tellKept(s *slot, failed error) {
	if failed == nil {
		return
	}
	text := fmt.Sprintf("the slot was not given back (%s); it comes back when its lease of %v ends", p.why(failed), p.Lease)
	if s.perhaps {
		text = "one may have been taken: " + text
	}
	p.Note(text)
}
