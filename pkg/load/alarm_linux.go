package load

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// kernelAlarm is a timer of the kernel that is waited for as a file. It is late by some ten microseconds.
type kernelAlarm struct {
	fd      int
	file    *os.File // fd, with the scheduler's poller behind it
	release func() bool
	buf     [8]byte
}

// newAlarm falls back to Go's timers where there are no more file descriptors.
func newAlarm(ctx context.Context) alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newGoAlarm(ctx)
	}
	a := &kernelAlarm{fd: fd, file: os.NewFile(uintptr(fd), "timer")}
	a.release = context.AfterFunc(ctx, func() { _ = a.file.SetReadDeadline(time.Unix(1, 0)) }) // ends the read under way
	return a
}

func (a *kernelAlarm) until(at time.Time) bool {
	wait := max(time.Until(at), 1) // 0 would disarm it
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(wait))}
	if unix.TimerfdSettime(a.fd, 0, &spec, nil) != nil {
		return false
	}
	_, err := a.file.Read(a.buf[:])
	return err == nil
}

func (a *kernelAlarm) close() {
	a.release()
	a.file.Close()
}
