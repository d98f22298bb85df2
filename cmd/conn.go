package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rlctl/rlctl/pkg/target"
)

// connFlags say which Redis to talk to.
type connFlags struct {
	target.Conn
	url      string
	passFile string
	sentinel string // file of the sentinels' password
	timeout  duration
	prefix   string
}

// register adds the flags that all commands share. They are redis-cli's where redis-cli has them.
func (f *connFlags) register(root *cobra.Command, flags *pflag.FlagSet) {
	f.timeout = duration(target.DefaultTimeout)
	flags.StringVarP(&f.url, "url", "u", "", "redis://|rediss://|unix://... (RLCTL_URL)")
	flags.StringVarP(&f.Host, "host", "h", "", "server's name or address (default 127.0.0.1)")
	flags.IntVarP(&f.Port, "port", "p", 0, "server's port (default 6379)")
	flags.StringVarP(&f.Socket, "socket", "s", "", "server's Unix socket")
	flags.StringVar(&f.User, "user", "", "ACL user to log in as")
	flags.StringVarP(&f.Password, "pass", "a", "", "password; ps shows it, prefer --pass-file or REDISCLI_AUTH")
	flags.StringVar(&f.passFile, "pass-file", "", "file whose first line is the password; - is stdin")
	flags.IntVar(&f.DB, "db", 0, "database number")
	flags.BoolVar(&f.TLS, "tls", false, "speak TLS")
	flags.StringVar(&f.CACert, "cacert", "", "file of CA certificates to trust")
	flags.StringVar(&f.Cert, "cert", "", "file of the client's certificate")
	flags.StringVar(&f.Key, "key", "", "file of the client's private key")
	flags.StringVar(&f.SNI, "sni", "", "server name to ask for and verify")
	flags.BoolVar(&f.Insecure, "insecure", false, "do not verify the server's certificate")
	flags.BoolVar(&f.Cluster, "cluster", false, "the server is a node of a cluster")
	flags.StringVar(&f.SentinelMaster, "sentinel-master", "", "the server is a sentinel; talk to this master")
	flags.StringVar(&f.SentinelUser, "sentinel-user", "", "ACL user to log in as at the sentinels")
	flags.StringVar(&f.sentinel, "sentinel-pass-file", "", "file whose first line is the sentinels' password")
	flags.Var(&f.timeout, "timeout", "longest wait for a connection and for each command")
	flags.StringVar(&f.prefix, "prefix", "ratelimit", "first word of every key")
	for _, name := range []string{
		"host", "port", "socket", "user", "pass", "url", "db", "sni", "sentinel-master", "sentinel-user", "timeout", "prefix",
	} {
		completeWords(root, name, nil)
	}
}

// connection are the flags that say where the server is and how to talk to it.
var connection = []string{
	"url", "host", "port", "socket", "user", "pass", "pass-file", "db", "tls", "cacert", "cert", "key", "sni", "insecure", "cluster",
	"sentinel-master", "sentinel-user", "sentinel-pass-file", "timeout",
}

// service is the server of a command that serves a person's own Redis: flag, RLCTL_URL, REDIS_URL, 127.0.0.1:6379.
func (f *connFlags) service(ctx context.Context, e *env, flags *pflag.FlagSet) (target.Conn, error) {
	conn, _, err := f.read(ctx, e, flags, "RLCTL_URL", "REDIS_URL")
	return conn, err
}

// named is the server of an experiment: flag, RLCTL_URL. Where neither names one, given is false and the experiment
// starts its own, to which flags that say how to talk to another mean nothing.
func (f *connFlags) named(ctx context.Context, e *env, flags *pflag.FlagSet) (conn target.Conn, given bool, err error) {
	conn, given, err = f.read(ctx, e, flags, "RLCTL_URL")
	if given || err != nil {
		return conn, given, err
	}
	for _, name := range []string{"user", "pass", "pass-file", "db", "tls", "cacert", "cert", "key", "sni", "insecure", "sentinel-master", "sentinel-user", "sentinel-pass-file"} {
		if flags.Changed(name) {
			return conn, false, usageError{fmt.Errorf("--%s: no server is named", name), "name it: -u redis://HOST:PORT, or --host, --port or --socket"}
		}
	}
	return conn, false, nil
}

// read takes the place from the flags, else from the first variable that is set, and then what other flags change.
// A place from a flag leaves the variables out altogether, so that no password goes to a server it was not meant for.
func (f *connFlags) read(
	ctx context.Context, e *env, flags *pflag.FlagSet, variables ...string,
) (conn target.Conn, given bool, err error) {
	conn, given, err = f.place(e, flags, variables)
	if err == nil {
		err = f.override(ctx, e, flags, &conn)
	}
	if err == nil {
		err = conn.Validate()
	}
	if err != nil {
		return target.Conn{}, false, usage(err)
	}
	return conn, given, nil
}

// place is what --url or a variable says, before other flags change it; given tells that a flag or a variable does.
func (f *connFlags) place(e *env, flags *pflag.FlagSet, variables []string) (conn target.Conn, given bool, err error) {
	for _, name := range []string{"url", "host", "port", "socket"} {
		given = given || flags.Changed(name)
	}
	if flags.Changed("url") {
		conn, err = f.fromURL(e, flags)
	} else if !given {
		conn, given, err = fromEnvironment(e, variables)
	}
	return conn, given, err
}

// database is which one of a server limits are to be in, of a server that is not asked: no password is looked for.
func (f *connFlags) database(e *env, flags *pflag.FlagSet, variables ...string) (target.Conn, error) {
	at, _, err := f.place(e, flags, variables)
	if flags.Changed("db") {
		at.DB = f.DB
	}
	if flags.Changed("cluster") {
		at.Cluster = f.Cluster
	}
	if err != nil {
		return at, err
	}
	return at, target.Conn{DB: at.DB, Cluster: at.Cluster}.Validate()
}

func (f *connFlags) fromURL(e *env, flags *pflag.FlagSet) (target.Conn, error) {
	for _, name := range []string{"host", "port", "socket"} {
		if flags.Changed(name) {
			return target.Conn{}, usagef("--%s: --url names the place already", name)
		}
	}
	conn, err := target.ParseURL(f.url)
	if err == nil && conn.Password != "" {
		e.warnPassword("--url")
	}
	return conn, err
}

func fromEnvironment(e *env, variables []string) (target.Conn, bool, error) {
	for _, name := range variables {
		if text := e.getenv(name); text != "" {
			conn, err := target.ParseURL(text)
			var bad *target.ConnError
			if errors.As(err, &bad) {
				err = fmt.Errorf("%s: %s", name, bad.Problem)
			}
			return conn, true, err
		}
	}
	return target.Conn{}, false, nil
}

// override lets each flag that was given replace one part, and finds the password.
func (f *connFlags) override(ctx context.Context, e *env, flags *pflag.FlagSet, conn *target.Conn) error {
	for name, set := range map[string]func(){
		"host":            func() { conn.Host = f.Host },
		"port":            func() { conn.Port = f.Port },
		"socket":          func() { conn.Socket = f.Socket },
		"user":            func() { conn.User = f.User },
		"db":              func() { conn.DB = f.DB },
		"tls":             func() { conn.TLS = f.TLS },
		"cacert":          func() { conn.CACert = f.CACert },
		"cert":            func() { conn.Cert = f.Cert },
		"key":             func() { conn.Key = f.Key },
		"sni":             func() { conn.SNI = f.SNI },
		"insecure":        func() { conn.Insecure = f.Insecure },
		"cluster":         func() { conn.Cluster = f.Cluster },
		"sentinel-master": func() { conn.SentinelMaster = f.SentinelMaster },
		"sentinel-user":   func() { conn.SentinelUser = f.SentinelUser },
	} {
		if flags.Changed(name) {
			set()
		}
	}
	for name, value := range map[string]string{"host": f.Host, "socket": f.Socket, "sentinel-master": f.SentinelMaster, "prefix": f.prefix} {
		if flags.Changed(name) && value == "" {
			return &target.ConnError{Flag: "--" + name, Problem: "must not be empty"} // a variable that is not set must not mean another server
		}
	}
	if flags.Changed("port") && f.Port == 0 {
		return &target.ConnError{Flag: "--port", Problem: "want 1 to 65535"}
	}
	conn.Timeout = time.Duration(f.timeout)
	if flags.Changed("sentinel-pass-file") {
		if f.sentinel == "-" && f.passFile == "-" {
			return usagef("--sentinel-pass-file: --pass-file reads stdin already")
		}
		var err error
		if conn.SentinelPass, err = readPassword(ctx, "--sentinel-pass-file", f.sentinel, e.stdin); err != nil {
			return err
		}
	}
	return f.password(ctx, e, flags, conn)
}

// password is that of --pass or --pass-file, else the URL's, else REDISCLI_AUTH's.
func (f *connFlags) password(ctx context.Context, e *env, flags *pflag.FlagSet, conn *target.Conn) (err error) {
	switch {
	case flags.Changed("pass") && flags.Changed("pass-file"):
		return usagef("--pass-file: --pass gives a password already")
	case flags.Changed("pass"):
		e.warnPassword("--pass")
		conn.Password = f.Password
	case flags.Changed("pass-file"):
		conn.Password, err = readPassword(ctx, "--pass-file", f.passFile, e.stdin)
	case conn.Password == "":
		conn.Password = e.getenv("REDISCLI_AUTH")
	}
	return err
}

// readPassword reads the first line of a file, or of stdin for "-".
func readPassword(ctx context.Context, flag, name string, stdin io.Reader) (string, error) {
	file, err := openInput(ctx, stdin, name)
	if err != nil {
		return "", usagef("%s: cannot read %s (%s)", flag, name, bare(err))
	}
	defer file.Close()
	line, err := readLine(ctx, file)
	if err != nil {
		return "", usagef("%s: cannot read %s (%s)", flag, name, bare(err))
	}
	if line == "" {
		return "", usagef("%s: the first line of %s is empty", flag, name)
	}
	return line, nil
}

func (e *env) warnPassword(flag string) {
	e.note("warning: ps shows the password in %s; safer: --pass-file FILE, or REDISCLI_AUTH", flag)
}

// atServer says where an error of Redis came from.
func atServer(where string, err error) error {
	if class(err) == "" {
		return err
	}
	return redisError{where, err}
}

// usage makes a usageError of an error about the command line, unless it is one.
func usage(err error) error {
	switch {
	case is[usageError](err):
		return err
	case is[*target.ErrUnknownLimiter](err):
		return usageError{err, "all limiters: rlctl list"}
	}
	return usageError{err: err}
}
