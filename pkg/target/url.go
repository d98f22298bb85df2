package target

import (
	"net/url"
	"path"
	"strconv"
	"strings"
)

// ParseURL reads a connection from redis://[[USER]:PASSWORD@]HOST[:PORT][/DB], the same with rediss:// for TLS, or
// unix://[[USER]:PASSWORD@]/PATH[?db=N]. As in redis-cli, a word alone before the @ is the password.
//
// What does not belong in the URL as it stands (a slash, a question mark or an @ in a password) must be percent-encoded.
// Errors are *ConnError and never quote the URL, because any part of a mistyped one may be the password.
func ParseURL(s string) (Conn, error) {
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" || strings.Contains(s, "#") {
		return Conn{}, badURL("not a URL; want redis://, rediss:// or unix://, with / ? # @ percent-encoded in a password")
	}
	if strings.Contains(u.EscapedPath()+u.RawQuery, "@") {
		return Conn{}, badURL("has an @ after the host; write it %40, and / ? # in a password percent-encoded")
	}
	var c Conn
	c.User, c.Password = userinfo(u.User)
	switch u.Scheme {
	case "redis", "rediss":
		c.TLS = u.Scheme == "rediss"
		err = c.setHost(u)
	case "unix":
		err = c.setSocket(u)
	default:
		err = badURL("want redis://, rediss:// or unix://")
	}
	if err == nil {
		err = c.setDB(u)
	}
	if err == nil && c.Validate() != nil {
		err = badURL(c.Validate().Error())
	}
	if err != nil {
		return Conn{}, err
	}
	return c, nil
}

func badURL(problem string) error { return &ConnError{"--url", problem} }

func userinfo(u *url.Userinfo) (user, password string) {
	if u == nil {
		return "", ""
	}
	if password, ok := u.Password(); ok {
		return u.Username(), password
	}
	return "", u.Username()
}

func (c *Conn) setHost(u *url.URL) error {
	c.Host = u.Hostname()
	if u.Port() == "" {
		return nil
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil || port < 1 || port > 65535 {
		return badURL("the port is not a number from 1 to 65535")
	}
	c.Port = port
	return nil
}

func (c *Conn) setSocket(u *url.URL) error {
	if u.Host != "" {
		return badURL("a unix URL has three slashes: unix:///run/redis.sock")
	}
	if !path.IsAbs(u.Path) || u.Path == "/" {
		return badURL("a unix URL wants the socket's absolute path: unix:///run/redis.sock")
	}
	c.Socket = u.Path
	return nil
}

// setDB reads the database from /N of a redis URL or from ?db=N of any.
func (c *Conn) setDB(u *url.URL) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return badURL("what follows the ? cannot be read; want ?db=N")
	}
	db := query.Get("db")
	for name, values := range query {
		if name != "db" || len(values) != 1 {
			return badURL("what follows the ? may be only db=N, once")
		}
	}
	if name := strings.Trim(u.Path, "/"); c.Socket == "" && name != "" {
		if query.Has("db") {
			return badURL("names the database twice")
		}
		db = name
	}
	if db == "" {
		return nil
	}
	n, err := strconv.Atoi(db)
	if err != nil || n < 0 {
		return badURL("the database is not a number from 0 up")
	}
	c.DB = n
	return nil
}
