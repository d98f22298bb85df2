package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Distance lays a way between clients and a server: what either sends arrives a fixed time later, in order, as over a
// network without loss or limit. It does not look at what passes, so that any protocol may.
type Distance struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	oneWay   time.Duration
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // both ends; nil once closed
}

// Lay listens on a Unix socket at path, which must not exist, and carries what comes to a server that dial connects to,
// each way in the given time. A timer wakes some 0.1 ms late, so that shorter ways are longer than they say.
func Lay(path string, dial func() (net.Conn, error), oneWay time.Duration) (*Distance, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen at the near end: %w", err)
	}
	d := &Distance{listener: l, dial: dial, oneWay: oneWay, conns: map[net.Conn]bool{}}
	d.running.Go(d.accept)
	return d, nil
}

func (d *Distance) accept() {
	for {
		near, err := d.listener.Accept()
		if err != nil {
			return
		}
		far, err := d.dial()
		if err != nil {
			near.Close()
			continue
		}
		d.join(near, far)
	}
}

// join carries bytes between two connections until either ends.
func (d *Distance) join(near, far net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == nil {
		near.Close()
		far.Close()
		return
	}
	for from, to := range map[net.Conn]net.Conn{near: far, far: near} {
		d.conns[from] = true
		d.running.Go(func() {
			d.carry(from, to)
			d.mu.Lock()
			defer d.mu.Unlock()
			delete(d.conns, from)
		})
	}
}

// parcel is what was read at once, and when it is due at the other end.
type parcel struct {
	due  time.Time
	data []byte
}

// carry takes what from sends to the other end, each piece in its time.
func (d *Distance) carry(from, to net.Conn) {
	onTheWay := make(chan parcel, 1024) // a sender that has more than that under way waits
	go func() {
		defer close(onTheWay)
		for {
			room := make([]byte, 4096)
			n, err := from.Read(room)
			if n > 0 {
				onTheWay <- parcel{time.Now().Add(d.oneWay), room[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	var err error
	for p := range onTheWay {
		time.Sleep(time.Until(p.due))
		if err == nil {
			if _, err = to.Write(p.data); err != nil {
				from.Close()
			}
		}
	}
	to.Close() // and so the way back ends as well
	from.Close()
}

// Close ends all that is under way, removes the socket and waits until nothing runs any more.
func (d *Distance) Close() error {
	d.mu.Lock()
	conns := d.conns
	d.conns = nil
	d.mu.Unlock()
	err := d.listener.Close()
	for c := range conns {
		c.Close()
	}
	d.running.Wait()
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}
