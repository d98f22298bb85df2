package target

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// DefaultTimeout bounds a connection and each command where Conn.Timeout is 0.
const DefaultTimeout = time.Second

// Conn says how to reach a Redis. The zero value is 127.0.0.1:6379.
//
// Its JSON carries the password, since that is how a worker gets it, on a pipe. Every way of printing it leaves user
// and password out.
type Conn struct {
	Host           string        `json:"host,omitempty"`   // "127.0.0.1" if empty; unused with Socket
	Port           int           `json:"port,omitempty"`   // 1 to 65535; 0 means 6379
	Socket         string        `json:"socket,omitempty"` // path of a Unix socket
	User           string        `json:"user,omitempty"`   // empty is Redis's own "default"
	Password       string        `json:"password,omitempty"`
	DB             int           `json:"db,omitempty"`
	TLS            bool          `json:"tls,omitempty"`
	CACert         string        `json:"cacert,omitempty"`   // file of PEM certificates; empty trusts the system's
	Cert           string        `json:"cert,omitempty"`     // file of the client's certificate, with Key
	Key            string        `json:"key,omitempty"`      // file of the client's private key
	SNI            string        `json:"sni,omitempty"`      // server's name to ask for and verify; empty means Host
	Insecure       bool          `json:"insecure,omitempty"` // do not verify the server's certificate
	Cluster        bool          `json:"cluster,omitempty"`
	SentinelMaster string        `json:"sentinel_master,omitempty"` // Host and Port are those of a sentinel that knows it
	SentinelUser   string        `json:"sentinel_user,omitempty"`   // what the sentinels themselves ask for
	SentinelPass   string        `json:"sentinel_pass,omitempty"`
	Timeout        time.Duration `json:"timeout_ns,omitempty"` // of dialling and each command; 0: DefaultTimeout
}

// ConnError is a connection that cannot be meant as it was described.
type ConnError struct {
	Flag    string // the flag at fault, with its dashes
	Problem string // never holds a secret
}

// Error is the flag and the problem.
func (e *ConnError) Error() string { return e.Flag + ": " + e.Problem }

// Validate returns a *ConnError that names the first flag at fault, or nil. It opens no file and no connection.
func (c Conn) Validate() error {
	for _, rule := range []struct {
		broken        bool
		flag, problem string
	}{
		{c.Port < 0 || c.Port > 65535, "--port", "want 1 to 65535"},
		{c.DB < 0, "--db", "want 0 or more"},
		{c.Timeout < 0, "--timeout", "want a positive duration"},
		{strings.ContainsAny(c.Host, "/@ \t\n\x00"), "--host", "not a host name or an address"},
		{strings.ContainsRune(c.Socket, 0), "--socket", "not a path"},
		{c.Socket != "" && (c.Host != "" || c.Port != 0), "--socket", "excludes --host and --port"},
		{c.Socket != "" && c.TLS, "--socket", "excludes --tls"},
		{c.Socket != "" && c.Cluster, "--cluster", "excludes --socket: nodes name each other by host and port"},
		{c.Socket != "" && c.SentinelMaster != "", "--sentinel-master", "excludes --socket"},
		{c.Cluster && c.SentinelMaster != "", "--sentinel-master", "excludes --cluster"},
		{c.Cluster && c.DB != 0, "--db", "a cluster has only database 0"},
		{c.User != "" && c.Password == "", "--user", "needs a password"},
		{c.SentinelMaster == "" && c.SentinelPass != "", "--sentinel-pass-file", "needs --sentinel-master"},
		{c.SentinelUser != "" && c.SentinelPass == "", "--sentinel-user", "needs --sentinel-pass-file"},
		{c.Cert != "" && c.Key == "", "--cert", "needs --key"},
		{c.Key != "" && c.Cert == "", "--key", "needs --cert"},
		{!c.TLS && c.CACert != "", "--cacert", "needs --tls"},
		{!c.TLS && c.Cert != "", "--cert", "needs --tls"},
		{!c.TLS && c.SNI != "", "--sni", "needs --tls"},
		{!c.TLS && c.Insecure, "--insecure", "needs --tls"},
	} {
		if rule.broken {
			return &ConnError{rule.flag, rule.problem}
		}
	}
	return nil
}

// Open returns a client of at most pool connections a node; 0 leaves that to the client library. It connects only when
// used, and never sends a command again whose fate is unknown. Errors are *ConnError: those of Validate, and a
// certificate's file that cannot be used.
func (c Conn) Open(pool int) (redis.UniversalClient, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	secure, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	timeout := c.timeout()
	options := redis.UniversalOptions{
		Addrs: []string{c.addr()}, MasterName: c.SentinelMaster,
		Username: c.User, Password: c.Password, DB: c.DB, TLSConfig: secure,
		SentinelUsername: c.SentinelUser, SentinelPassword: c.SentinelPass,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, Protocol: 2, DisableIdentity: true,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout, PoolSize: pool,
	}
	switch {
	case c.Cluster:
		return redis.NewClusterClient(options.Cluster()), nil
	case c.SentinelMaster != "":
		return redis.NewFailoverClient(options.Failover()), nil
	}
	simple := options.Simple()
	simple.Network = c.network() // the path of a socket may be relative
	return redis.NewClient(simple), nil
}

// Loopback tells whether the connection cannot leave this machine, so that an experiment need not ask first. A
// cluster or a sentinel that is asked on loopback may still name nodes elsewhere.
func (c Conn) Loopback() bool {
	if c.Socket != "" {
		return true
	}
	host := strings.TrimSuffix(strings.ToLower(c.host()), ".")
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// String says where the connection leads, such as "127.0.0.1:6379", "unix:/run/redis.sock" or "db.example:6380 db 2
// tls", without user or password.
func (c Conn) String() string {
	s := c.addr()
	if c.Socket != "" {
		s = "unix:" + s
	}
	if c.DB != 0 {
		s += " db " + strconv.Itoa(c.DB)
	}
	if c.TLS {
		s += " tls"
	}
	if c.Cluster {
		s += " cluster"
	}
	if c.SentinelMaster != "" {
		s += " sentinel " + c.SentinelMaster
	}
	return s
}

// Format prints String whatever the verb, so that not even %#v shows a password.
func (c Conn) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue is String, for log/slog.
func (c Conn) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (c Conn) host() string {
	if c.Host == "" {
		return "127.0.0.1"
	}
	return strings.TrimSuffix(strings.TrimPrefix(c.Host, "["), "]")
}

func (c Conn) network() string {
	if c.Socket != "" {
		return "unix"
	}
	return "tcp"
}

func (c Conn) addr() string {
	if c.Socket != "" {
		return c.Socket
	}
	port := c.Port
	if port == 0 {
		port = 6379
	}
	return net.JoinHostPort(c.host(), strconv.Itoa(port))
}

func (c Conn) timeout() time.Duration {
	if c.Timeout == 0 {
		return DefaultTimeout
	}
	return c.Timeout
}

// tlsConfig returns nil without TLS.
func (c Conn) tlsConfig() (*tls.Config, error) {
	if !c.TLS {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.SNI, InsecureSkipVerify: c.Insecure}
	if c.SNI == "" {
		config.ServerName = c.host()
	}
	if c.CACert != "" {
		roots, err := readRoots(c.CACert)
		if err != nil {
			return nil, &ConnError{"--cacert", err.Error()}
		}
		config.RootCAs = roots
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, &ConnError{"--cert", err.Error()}
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func readRoots(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New(file + " holds no PEM certificate")
	}
	return roots, nil
}
