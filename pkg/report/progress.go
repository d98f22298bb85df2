package report

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress is one line on a terminal that says how far a run is and how long it will take. It writes at most ten
// times a second and is gone at the end. A nil Progress says nothing: that is what a stream without a terminal gets.
type Progress struct {
	mu          sync.Mutex
	w           io.Writer
	now         func() time.Time
	width       int
	start, last time.Time
	shown       bool
}

// NewProgress returns a progress line on a terminal of that many columns.
func NewProgress(w io.Writer, width int) *Progress {
	return &Progress{w: w, now: time.Now, width: width, start: time.Now()}
}

const progressEvery = 100 * time.Millisecond

// Update says that done of total steps are over and what is done now. It may be called from several goroutines.
func (p *Progress) Update(done, total int64, what string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.shown && now.Sub(p.last) < progressEvery {
		return
	}
	p.shown, p.last = true, now
	text := []rune(fmt.Sprintf("%d/%d  %s%s", done, total, Escape(what), eta(now.Sub(p.start), done, total)))
	if p.width > 1 && len(text) >= p.width {
		text = text[:p.width-1]
	}
	fmt.Fprintf(p.w, "\r%s\x1b[K", string(text))
}

// Clear takes the line away.
func (p *Progress) Clear() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	p.shown = false
}

// eta supposes that the steps to come take as long as those that are over.
func eta(elapsed time.Duration, done, total int64) string {
	if done <= 0 || done >= total {
		return ""
	}
	left := time.Duration(float64(elapsed) / float64(done) * float64(total-done))
	return fmt.Sprintf("   %s left", max(left.Round(time.Second), time.Second))
}
