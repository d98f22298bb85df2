package redisd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// answers returns nil once a server answers on the socket, or an error when ctx ends or done is closed before that.
func answers(ctx context.Context, socket string, done <-chan struct{}) error {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		err := ping(ctx, socket)
		if err == nil {
			return nil
		}
		select {
		case <-done:
			return errors.New("it ended")
		case <-ctx.Done():
			return fmt.Errorf("the private server does not answer: %w (%w)", ctx.Err(), err)
		case <-again.C:
		}
	}
}

// ping takes any reply but LOADING for a yes: a server that wants a password is up.
func ping(ctx context.Context, socket string) error {
	reply, err := call(ctx, socket, "PING")
	if err == nil && strings.HasPrefix(reply, "-LOADING") {
		return errors.New(reply)
	}
	return err
}

// call sends one inline command on a connection of its own and returns the first line of the reply.
func call(ctx context.Context, socket, command string) (string, error) {
	reply, err := lines(ctx, socket, command, 1)
	return strings.Join(reply, ""), err
}

// lines sends one inline command on a connection of its own and returns the first n lines of the reply; one line if that
// is an error.
func lines(ctx context.Context, socket, command string, n int) (reply []string, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
		return nil, err
	}
	for in := bufio.NewReader(conn); len(reply) < n; {
		line, err := in.ReadString('\n')
		reply = append(reply, strings.TrimSpace(line))
		if err != nil || strings.HasPrefix(line, "-") {
			return reply, err
		}
	}
	return reply, nil
}
