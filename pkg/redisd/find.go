package redisd

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// ErrNotFound is returned when neither redis-server nor valkey-server is on PATH.
var ErrNotFound = errors.New("neither redis-server nor valkey-server is on PATH")

// ErrNoFolder is returned when the folder of a private server cannot be made.
var ErrNoFolder = errors.New("no folder for the private server")

// program is an installed server.
type program struct {
	path    string
	name    string // redis or valkey
	version string
}

// find returns the first server on PATH that tells its version.
func find(ctx context.Context) (program, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return ask(ctx, path)
		}
	}
	return program{}, ErrNotFound
}

var versionLine = regexp.MustCompile(`^(\w+) server v=(\S+)`)

// ask runs the server once for its version, which also shows that it can run at all.
func ask(ctx context.Context, path string) (program, error) {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return program{}, fmt.Errorf("%s --version: %w", path, err)
	}
	m := versionLine.FindStringSubmatch(string(out))
	if m == nil {
		return program{}, fmt.Errorf("%s --version: expected a server's name and version, got %.80q", path, out)
	}
	return program{path: path, name: strings.ToLower(m[1]), version: m[2]}, nil
}
