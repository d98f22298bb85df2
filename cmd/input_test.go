package cmd_test

import (
	"context"
	"io"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rlctl/rlctl/cmd"
)

// A command that waits for what comes out of a pipe, or for somebody to write into it, ends at an interrupt.
func TestWaitingForInputIsInterrupted(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancelCause(t.Context())
	interrupt(cmd.Signal{Signal: syscall.SIGINT})
	for _, args := range [][]string{
		{"replay", fifo}, {"replay", "-"}, {"judge", fifo}, {"judge", "-"}, {"report", fifo}, {"report", "-"},
		{"check", "k", "--pass-file", fifo}, {"check", "k", "--pass-file", "-"}, {"race", "http://127.0.0.1:1/{key}", "--header", "@" + fifo},
	} {
		stdin, silent := io.Pipe()
		defer silent.Close()
		code := make(chan int, 1)
		go func() { code <- cmd.Main(ctx, args, stdin, io.Discard, io.Discard) }()
		select {
		case got := <-code:
			if got != 130 {
				t.Errorf("%q: exit code %d, want 130", args, got)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%q waits on", args)
		}
	}
}
