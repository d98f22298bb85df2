package outside

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// fault is what a worker did wrong. After it nothing that the worker says is believed.
type fault struct {
	class limiter.Class
	err   error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// worker is a process that speaks the protocol.
type worker struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.Reader
	words *words // its last ones on standard error

	secret string

	mu      sync.Mutex
	last    int64 // id
	waiting map[int64]chan answer
	wanted  int           // ready lines to come
	ready   chan struct{} // closed when they have

	done  chan struct{} // closed when the process is gone, or not to be believed any more
	fault *fault        // why; set before
}

// grace is how long a worker has to end when its input does.
const grace = 500 * time.Millisecond

// startWorker runs the command. The signal that comes with the parent's death comes when the *thread* that started the
// child ends, so one goroutine, tied to its thread, starts it, reads it and waits for it.
//
// The secret is left out of what the worker says.
func startWorker(command, secret string) (*worker, error) {
	w := &worker{
		secret: secret,
		cmd:    exec.Command("/bin/sh", "-c", "exec "+command), words: &words{}, waiting: map[int64]chan answer{},
		done: make(chan struct{}),
	}
	w.cmd.Stderr = w.words
	w.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // it is told where Redis is, and no more
		name, _, _ := strings.Cut(v, "=")
		return name == "RLCTL_URL" || name == "REDIS_URL" || name == "REDISCLI_AUTH"
	})
	w.cmd.WaitDelay = grace // in case a child of its own holds its standard error
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(w.cmd.SysProcAttr)
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if w.out, err = w.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := w.cmd.Start()
		started <- err
		if err == nil {
			w.listen()
		}
	}()
	if err := <-started; err != nil {
		return nil, &fault{ClassDied, fmt.Errorf("start the worker: %w", err)}
	}
	return w, nil
}

// listen hands out what the worker says until it ends or says what is not in the protocol.
func (w *worker) listen() {
	in := bufio.NewReaderSize(w.out, maxLine)
	var wrong error
	for wrong == nil {
		text, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			wrong = fmt.Errorf("a line of more than %d bytes", maxLine)
			break
		}
		if err != nil {
			break
		}
		wrong = w.heard(text)
	}
	if wrong != nil {
		w.end(&fault{ClassRubbish, errors.New(w.discreet("the worker wrote rubbish: " + wrong.Error()))})
		w.kill()
		_ = w.cmd.Wait()
		return
	}
	err := w.cmd.Wait()
	text := "the worker ended"
	if err != nil {
		text += " (" + err.Error() + ")"
	}
	if said := w.words.last(); said != "" {
		text += ": " + said
	}
	w.end(&fault{ClassDied, errors.New(w.discreet(text))})
}

// discreet is what the worker said without the password that it was told.
func (w *worker) discreet(text string) string {
	if w.secret == "" {
		return text
	}
	return strings.NewReplacer(w.secret, "***", url.QueryEscape(w.secret), "***", url.PathEscape(w.secret), "***").Replace(text)
}

// heard takes one line.
func (w *worker) heard(text []byte) error {
	a, err := parseAnswer(text)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.Ready {
		if w.wanted == 0 {
			return errors.New("ready without having been asked")
		}
		if w.wanted--; w.wanted == 0 {
			close(w.ready)
		}
		return nil
	}
	if a.ID > w.last {
		return fmt.Errorf("an answer to request %d, which was not made", a.ID)
	}
	if to, ok := w.waiting[a.ID]; ok { // else it comes after the time in which it was waited for
		delete(w.waiting, a.ID)
		to <- a
	}
	return nil
}

// end tells all who wait that no answer will come. The first reason stays.
func (w *worker) end(f *fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == nil {
		w.fault = f
		close(w.done)
	}
}

// ended tells whether the worker can be asked no more.
func (w *worker) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// open has the worker begin anew, and waits until it is ready.
func (w *worker) open(ctx context.Context, h hello) error {
	w.mu.Lock()
	w.wanted++
	ready := make(chan struct{})
	w.ready = ready
	w.mu.Unlock()
	defer w.watch(startUp)()
	if err := w.say(struct {
		Open hello `json:"open"`
	}{h}); err != nil {
		return err
	}
	select {
	case <-ready:
		return nil
	case <-w.done:
		return w.fault
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ask puts one request and waits for its answer, at most for patience if that is not 0.
func (w *worker) ask(ctx context.Context, q question, patience time.Duration) (answer, error) {
	to := make(chan answer, 1)
	w.mu.Lock()
	w.last++
	q.ID = w.last
	w.waiting[q.ID] = to
	w.mu.Unlock()
	defer w.watch(patience)()
	if err := w.say(q); err != nil {
		return answer{}, err
	}
	select {
	case a := <-to:
		return a, nil
	case <-w.done:
		return answer{}, w.fault
	case <-ctx.Done():
		w.forget(q.ID)
		return answer{}, context.Cause(ctx)
	}
}

func (w *worker) forget(id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, id)
}

// watch gives the worker up if the function that it returns is not called within patience. A write to one that does not
// read ends with it, too.
func (w *worker) watch(patience time.Duration) (stop func()) {
	if patience == 0 {
		return func() {}
	}
	timer := time.AfterFunc(patience, func() {
		w.end(&fault{ClassHung, fmt.Errorf("the worker did not answer in %v", patience)})
		w.kill()
	})
	return func() { timer.Stop() }
}

// say writes one line.
func (w *worker) say(v any) error {
	text, err := line(v)
	if err != nil {
		return err
	}
	if w.ended() {
		return w.fault
	}
	if _, err := w.in.Write(text); err != nil { // it is about to be known why
		<-w.done
		return w.fault
	}
	return nil
}

// kill ends the process and those that it started.
func (w *worker) kill() { _ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL) }

// stop asks the worker to end, by the end of its input, and kills it if it does not.
func (w *worker) stop() {
	_ = w.in.Close()
	select {
	case <-w.done:
	case <-time.After(grace):
		w.kill()
		<-w.done
	}
}

// words keep the end of what a worker says on standard error.
type words struct {
	mu   sync.Mutex
	text []byte
}

const keptWords = 4 << 10

// Write never fails.
func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	if over := len(w.text) - keptWords; over > 0 {
		w.text = append(w.text[:0], w.text[over:]...)
	}
	return len(p), nil
}

// last is the last line that says anything.
func (w *words) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(w.text)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
