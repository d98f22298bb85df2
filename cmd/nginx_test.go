package cmd_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

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

// nginxConf keeps to a folder and to one port of this machine.
const nginxConf = `daemon off; worker_processes 2; pid %[1]s/pid; error_log %[1]s/error.log; %[4]s
events { worker_connections 256; }
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	limit_req_zone $arg_key zone=clients:1m rate=60r/m;
	limit_req_status 429;
	server {
		listen %[2]s;
		limit_req zone=clients burst=%[3]s nodelay;
		location / { empty_gif; }
	}
}
`

// startNginx starts an nginx that inherits its socket, as from an nginx that it replaces: so it needs no port that was
// free a moment ago, and answers from the start.
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
	user := ""
	if os.Getuid() == 0 {
		user = "user root;"
	}
	at := listener.Addr().String()
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, dir, at, burst, user), 0o600); err != nil {
		return "", nil, err
	}
	// The shell ends it when its own input ends, which it does when this process is gone, however it went.
	c := exec.Command("/bin/sh", "-c", `"$0" "$@" & read -r end; kill $!; wait`,
		path, "-p", dir, "-c", conf, "-e", filepath.Join(dir, "error.log"))
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
