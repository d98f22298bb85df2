package explore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// patience is how long a client or the server may take over one thing. It only ever works that long when it hangs.
const patience = 20 * time.Second

// ErrHung is returned when a client or the server did not go on: a worker that never answers, or a script without end,
// for which a server whose clock stands still never becomes BUSY.
var ErrHung = errors.New("hung")

// patient is a connection on which an answer is not waited for without end.
type patient struct{ net.Conn }

// dialPatient connects to the server, for one who asks it something.
func dialPatient(socket string) (net.Conn, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	return patient{conn}, nil
}

// Read waits for an answer as long as patience lasts.
func (p patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// hung tells a wait that was given up from other errors.
func hung(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: no answer in %v", ErrHung, patience)
	}
	return err
}

// patiently checks outside of any schedule.
func patiently(ctx context.Context, l limiter.Limiter, key string, cost int64, id string) (limiter.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d, err := check(ctx, l, key, cost, id)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", hung(ctx.Err()), err)
	}
	return d, err
}
