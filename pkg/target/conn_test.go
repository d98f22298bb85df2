package target_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/target"
)

func TestConnPrints(t *testing.T) {
	for want, c := range map[string]target.Conn{
		"127.0.0.1:6379":                  {},
		"h:1 db 2 tls":                    {Host: "h", Port: 1, DB: 2, TLS: true},
		"[::1]:6379":                      {Host: "::1", User: "u", Password: "p"},
		"unix:/run/redis.sock":            {Socket: "/run/redis.sock", Password: "p"},
		"h:6379 cluster":                  {Host: "h", Cluster: true},
		"127.0.0.1:26379 sentinel master": {Port: 26379, SentinelMaster: "master"},
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestConnKeepsItsSecret prints a connection every way there is. Its JSON alone has the password, and all else.
func TestConnKeepsItsSecret(t *testing.T) {
	c := target.Conn{
		Host: "h", Port: 1, User: secret, Password: secret, DB: 2, TLS: true, CACert: "a", Cert: "b", Key: "c", SNI: "d",
		Insecure: true, SentinelMaster: "m", Timeout: time.Second,
	}
	plan := struct {
		C  target.Conn
		P  *target.Conn
		Cs []target.Conn
	}{c, &c, []target.Conn{c}}
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("opened", "to", c, "plan", plan)
	for _, printed := range []string{
		fmt.Sprint(c, &c, plan), fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c, c), fmt.Sprintf("%v %+v %#v", plan, plan, plan), logged.String(),
	} {
		if strings.Contains(printed, secret) || !strings.Contains(printed, "h:1") {
			t.Errorf("printed %q, want the address and not the password", printed)
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var back target.Conn
	if err := json.Unmarshal(text, &back); err != nil || back != c {
		t.Errorf("%s came back as %#v, %v", text, fields(back), err)
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "[::1]": true, "localhost": true, "LocalHost.": true,
		"::ffff:127.0.0.1": true, "0.0.0.0": false, "128.0.0.1": false, "localhost.example.com": false, "127.0.0.1.example.com": false,
		"::2": false, "example.com": false, "10.0.0.1": false,
	} {
		if got := (target.Conn{Host: host}).Loopback(); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
	if !(target.Conn{Socket: "/run/redis.sock"}).Loopback() {
		t.Error("a socket cannot leave the machine")
	}
}

func TestValidate(t *testing.T) {
	for _, bad := range []struct {
		flag string
		conn target.Conn
	}{
		{"--port", target.Conn{Port: -1}},
		{"--port", target.Conn{Port: 65536}},
		{"--db", target.Conn{DB: -1}},
		{"--db", target.Conn{DB: 1, Cluster: true}},
		{"--timeout", target.Conn{Timeout: -1}},
		{"--host", target.Conn{Host: "redis://h"}},
		{"--host", target.Conn{Host: "h 1"}},
		{"--socket", target.Conn{Socket: "/s", Host: "h"}},
		{"--socket", target.Conn{Socket: "/s", Port: 1}},
		{"--socket", target.Conn{Socket: "/s", TLS: true}},
		{"--cluster", target.Conn{Socket: "/s", Cluster: true}},
		{"--sentinel-master", target.Conn{Socket: "/s", SentinelMaster: "m"}},
		{"--sentinel-master", target.Conn{Cluster: true, SentinelMaster: "m"}},
		{"--user", target.Conn{User: "u"}},
		{"--cert", target.Conn{TLS: true, Cert: "f"}},
		{"--key", target.Conn{TLS: true, Key: "f"}},
		{"--cacert", target.Conn{CACert: "f"}},
		{"--cert", target.Conn{Cert: "f", Key: "f"}},
		{"--sni", target.Conn{SNI: "h"}},
		{"--insecure", target.Conn{Insecure: true}},
	} {
		var e *target.ConnError
		if err := bad.conn.Validate(); !errors.As(err, &e) || e.Flag != bad.flag {
			t.Errorf("%#v: %v, want a problem of %s", fields(bad.conn), err, bad.flag)
		}
		if _, err := bad.conn.Open(0); !errors.As(err, &e) {
			t.Errorf("%#v opened, %v", fields(bad.conn), err)
		}
	}
	for _, good := range []target.Conn{
		{}, {Host: "::1", Port: 65535, User: "u", Password: "p", DB: 15, Timeout: 1},
		{TLS: true, CACert: "f", Cert: "f", Key: "f", SNI: "h"}, {Cluster: true, TLS: true, Insecure: true}, {SentinelMaster: "m", DB: 1},
	} {
		if err := good.Validate(); err != nil {
			t.Errorf("%#v: %v", fields(good), err)
		}
	}
}

func TestOpenOnARealServer(t *testing.T) {
	t.Parallel()
	srv, err := redisd.Start(t.Context(), redisd.Options{Args: []string{"--requirepass", secret}})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	u := (&url.URL{Scheme: "unix", User: url.UserPassword("", secret), Path: srv.Socket(), RawQuery: "db=3"}).String()
	c, err := target.ParseURL(u)
	if err != nil {
		t.Fatal(err)
	}
	rdb, err := c.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	info, err := rdb.Do(t.Context(), "client", "info").Text()
	if err != nil || !strings.Contains(info, " db=3 ") {
		t.Errorf("%q, %v, want database 3", info, err)
	}
	c.Password = "wrong"
	other, err := c.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Ping(t.Context()).Err(); err == nil || !strings.HasPrefix(err.Error(), "WRONGPASS") {
		t.Errorf("with a wrong password: %v", err)
	}
}

// listen runs serve on each connection to a fresh loopback port.
func listen(t *testing.T, config *tls.Config, serve func(net.Conn)) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	if config != nil {
		ln = tls.NewListener(ln, config)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return port
}

// answer plays a server that knows commands by their names, in lower case. An empty answer hangs up.
func answer(conn net.Conn, reply func(command string) string) {
	named := false
	for in := bufio.NewScanner(conn); in.Scan(); {
		switch line := in.Text(); {
		case strings.HasPrefix(line, "*"):
			named = true
		case named && !strings.HasPrefix(line, "$"):
			named = false
			text := reply(strings.ToLower(line))
			if _, err := conn.Write([]byte(text)); err != nil || text == "" {
				return
			}
		}
	}
}

// TestNothingIsSentAgain cuts every connection after a command came: each command comes once, whoever sends it.
func TestNothingIsSentAgain(t *testing.T) {
	t.Parallel()
	var came atomic.Int64
	port := listen(t, nil, func(conn net.Conn) {
		defer conn.Close()
		answer(conn, func(command string) string {
			if command == "incr" {
				came.Add(1)
				return ""
			}
			return "-ERR unknown command\r\n"
		})
	})
	rdb, err := target.Conn{Port: port}.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	if err := rdb.Incr(t.Context(), "k").Err(); err == nil || came.Load() != 1 {
		t.Errorf("%v, and INCR came %d times, want an error and once", err, came.Load())
	}
}

// TestTimeouts asks a server that never answers, with the connection's own timeout and with a shorter deadline.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	port := listen(t, nil, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) })
	for _, c := range []struct{ timeout, deadline, atMost time.Duration }{
		{50 * time.Millisecond, time.Hour, 5 * time.Second},
		{time.Hour, 50 * time.Millisecond, 5 * time.Second},
	} {
		rdb, err := target.Conn{Port: port, Timeout: c.timeout}.Open(0)
		if err != nil {
			t.Fatal(err)
		}
		defer rdb.Close()
		ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
		defer cancel()
		began := time.Now()
		if err := rdb.Ping(ctx).Err(); err == nil || time.Since(began) > c.atMost {
			t.Errorf("%+v: %v after %v", c, err, time.Since(began))
		}
	}
}

// TestTLS talks to a server under a certificate for the name "redis.test" that asks for a client's.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key, pair := selfSigned(t, "redis.test")
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	port := listen(t, &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
	}, func(conn net.Conn) {
		defer conn.Close()
		answer(conn, func(command string) string {
			if command == "ping" {
				return "+PONG\r\n"
			}
			return "-ERR unknown command\r\n"
		})
	})
	good := target.Conn{Port: port, TLS: true, CACert: cert, Cert: cert, Key: key, SNI: "redis.test", Timeout: 20 * time.Second}
	for what, change := range map[string]func(*target.Conn){
		"all as it should be":       func(*target.Conn) {},
		"not verified":              func(c *target.Conn) { c.Insecure, c.CACert, c.SNI = true, "", "" },
		"fails: unknown authority":  func(c *target.Conn) { c.CACert = "" },
		"fails: another name":       func(c *target.Conn) { c.SNI = "other.test" },
		"fails: the host's name":    func(c *target.Conn) { c.SNI = "" },
		"fails: no own certificate": func(c *target.Conn) { c.Cert, c.Key = "", "" },
	} {
		c := good
		change(&c)
		rdb, err := c.Open(0)
		if err != nil {
			t.Fatal(err)
		}
		defer rdb.Close()
		if err := rdb.Ping(t.Context()).Err(); (err != nil) != strings.HasPrefix(what, "fails") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for flag, c := range map[string]target.Conn{
		"--cacert": {TLS: true, CACert: filepath.Join(t.TempDir(), "none")},
		"--cert":   {TLS: true, Cert: key, Key: cert},
	} {
		if _, err := c.Open(0); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%v, want a problem of %s", err, flag)
		}
	}
	if _, err := (target.Conn{TLS: true, CACert: key}).Open(0); err == nil || !strings.Contains(err.Error(), "no PEM certificate") {
		t.Errorf("a key as a certificate: %v", err)
	}
}

// selfSigned writes a certificate and its key.
func selfSigned(t *testing.T, name string) (certFile, keyFile string, pair tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(file, kind string, der []byte) string {
		file = filepath.Join(t.TempDir(), file)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	certFile, keyFile = write("cert.pem", "CERTIFICATE", cert), write("key.pem", "PRIVATE KEY", private)
	if pair, err = tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile, pair
}
