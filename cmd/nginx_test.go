package cmd_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// nginxCommand is `nginx BURST` of the scripts: it sets NGINX to what it limits to 60 requests a minute of each key.
func nginxCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: nginx BURST")
	}
	dir := ts.MkAbs("nginx")
	ts.Check(os.MkdirAll(dir, 0o700))
	url, end, err := startNginx(dir, args[0])
	ts.Check(err)
	ts.Defer(end)
	ts.Setenv("NGINX", url)
}

// startNginx starts the nginx of examples/ on another port and with that burst. It inherits its socket, as from an nginx
// that it replaces: so it needs no port that was free a moment ago, and answers from the start.
func startNginx(dir, burst string) (url string, end func(), err error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/nginx") // which is not everybody's to look in
	}
	if err != nil {
		return "", nil, fmt.Errorf("nginx is missing: sh tools/setup.sh nginx (%w)", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	defer listener.Close()
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		return "", nil, err
	}
	defer socket.Close()
	at := listener.Addr().String()
	example, err := os.ReadFile("../examples/nginx/nginx.conf")
	if err != nil {
		return "", nil, err
	}
	conf := strings.NewReplacer("127.0.0.1:8080", at, "burst=20", "burst="+burst).Replace(string(example))
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600); err != nil {
		return "", nil, err
	}
	// The shell ends it when its own input ends, which it does when this process is gone, however it went.
	c := exec.Command("/bin/sh", "-c", `"$0" "$@" & read -r end; kill $!; wait`,
		path, "-p", dir, "-c", "nginx.conf", "-e", "error.log")
	c.Env, c.ExtraFiles = append(os.Environ(), "NGINX=3;"), []*os.File{socket}
	alive, err := c.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	if err := c.Start(); err != nil {
		return "", nil, err
	}
	return "http://" + at, func() { alive.Close(); _ = c.Wait() }, nil
}
