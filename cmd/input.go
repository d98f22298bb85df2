package cmd

import (
	"context"
	"io"
	"os"
	"strings"
)

// within waits for what may never come, such as the other end of a pipe, and not longer than ctx lasts, whose cause it
// then returns. What wait still holds goes with the process.
func within[T any](ctx context.Context, wait func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	got := make(chan answer, 1)
	go func() {
		value, err := wait()
		got <- answer{value, err}
	}()
	select {
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	case a := <-got:
		return a.value, a.err
	}
}

// openInput opens a file; - is stdin.
func openInput(ctx context.Context, stdin io.Reader, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	return within(ctx, func() (io.ReadCloser, error) { return os.Open(name) })
}

// readInput opens a file, or stdin for -, and lets take read it.
func readInput[T any](ctx context.Context, stdin io.Reader, name string, take func(io.Reader) (T, error)) (T, error) {
	file, err := openInput(ctx, stdin, name)
	if err != nil {
		var none T
		return none, err
	}
	defer file.Close()
	return within(ctx, func() (T, error) { return take(file) })
}

// readLine reads one line without its end, and nothing after it: the rest may be for the command that hold runs.
func readLine(ctx context.Context, from io.Reader) (string, error) {
	line, err := within(ctx, func() (string, error) { return untilNewline(from) })
	return strings.TrimRight(line, "\r\n"), err
}
